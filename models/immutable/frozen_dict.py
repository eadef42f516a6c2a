"""Mappings inside frozen models: immutable dicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NoReturn, Self, TypeVar, get_args

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

K = TypeVar("K")
V = TypeVar("V")


class FrozenDict(dict[K, V]):
    """A dict that cannot change: equal to a dict of the same items, and hashable.

    Every way to change it raises TypeError; `dict(frozen)` is a copy that can change.
    """

    __slots__ = ()

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "expected no change of a read-only mapping; dict(...) makes a copy to change"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def copy(self) -> Self:
        """Return itself, since nothing can change it."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)


class _Freeze:
    """Validates, dumps and describes a Mapping[K, V] as a dict[K, V], and freezes it."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        key, value = get_args(source)
        return core_schema.no_info_after_validator_function(
            FrozenDict,
            handler.generate_schema(dict[key, value]),  # type: ignore[valid-type]
        )


FrozenMapping = Annotated[Mapping[K, V], _Freeze()]
"""A field's mapping: written as a dict, held as a `FrozenDict`."""
