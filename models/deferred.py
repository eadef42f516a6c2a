"""Frozen models whose costly fields are computed when they are first looked at."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from kvplan.models.base import Frozen

Later = Callable[[], dict[str, Any]]


class Deferred(Frozen):
    """A model that may be handed out before all its fields are written.

    Every way to see the whole (comparison, copies, dumps, pickles) writes them first.
    """

    deferred_fields: ClassVar[frozenset[str]] = frozenset()
    _later: Later | None = PrivateAttr(None)

    @classmethod
    def defer(cls, values: dict[str, Any], later: Later) -> Self:
        """Build from complete, valid values, the deferred fields left to `later`."""
        made = cls.__new__(cls)
        fields, private = _blank(cls)
        set_ = object.__setattr__
        set_(made, "__dict__", values)
        set_(made, "__pydantic_fields_set__", fields.copy())
        set_(made, "__pydantic_extra__", None)
        set_(made, "__pydantic_private__", {**private, "_later": later})
        return made

    def complete(self) -> Self:
        """Write the deferred fields, if they are not yet."""
        later = self._later
        if later is not None:
            self.__dict__.update(later())
            self._later = None
        return self

    def __getattr__(self, name: str) -> Any:
        if name in type(self).deferred_fields:
            written = self.complete().__dict__
            if name in written:
                return written[name]
        return super().__getattr__(name)  # type: ignore[misc]

    def __dir__(self) -> list[str]:
        """The deferred fields too, for tab completion."""
        return sorted({*super().__dir__(), *self.deferred_fields})

    # Without a return annotation Pydantic keeps the fields' own JSON Schema for dumps.
    @model_serializer(mode="wrap")
    def _dump_whole(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return handler(self.complete())

    def model_copy(self, **options: Any) -> Self:
        """A copy, optionally with some fields updated."""
        return super(Deferred, self.complete()).model_copy(**options)

    def __eq__(self, other: object) -> bool:
        """Equal fields; what the solver attached does not count."""
        if not isinstance(other, Deferred) or type(self) is not type(other):
            return NotImplemented
        return self.complete().__dict__ == other.complete().__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr_args__(self) -> Any:
        return super(Deferred, self.complete()).__repr_args__()

    def __iter__(self) -> Any:
        return super(Deferred, self.complete()).__iter__()

    def __getstate__(self) -> dict[Any, Any]:
        """State for pickling: the fields; what the solver attached stays behind."""
        state = super(Deferred, self.complete()).__getstate__()
        return {**state, "__pydantic_private__": _blank(type(self))[1].copy()}


@cache
def _blank(model: type[Deferred]) -> tuple[set[str], dict[str, Any]]:
    """Names of a model's fields, and its private attributes as they begin (immutable ones)."""
    private = model.__private_attributes__.items()
    return set(model.model_fields), {name: attribute.get_default() for name, attribute in private}
