"""Frozen models whose costly fields are computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

from pydantic import PrivateAttr, SerializerFunctionWrapHandler, model_serializer

from kvplan.models.base import Frozen

Later = Callable[[], dict[str, Any]]


class Deferred(Frozen):
    """A model that may be built before all its fields are known.

    `defer` leaves the deferred fields out, and the private `_later` computes them: when
    one of them is first read, and before anything sees the whole (comparison, copy, dump, pickle).
    Two threads may both compute them, with the same result.
    """

    deferred_fields: ClassVar[frozenset[str]] = frozenset()
    _later: Later | None = PrivateAttr(default=None)

    @classmethod
    def defer(cls, values: Mapping[str, Any], later: Later) -> Self:
        """Build from valid values of all other fields, as pickle restores a model."""
        made = cls.__new__(cls)
        private = dict.fromkeys(cls.__private_attributes__) | {"_later": later}
        made.__setstate__(
            {
                "__dict__": dict(values),
                "__pydantic_fields_set__": set(values),
                "__pydantic_extra__": None,
                "__pydantic_private__": private,
            }
        )
        return made

    def complete(self) -> Self:
        """Compute the deferred fields if that has not happened yet."""
        later = self._later
        if later is not None:
            self.__dict__.update(later())
            self._later = None
        return self

    def __getattr__(self, name: str) -> Any:
        if name in type(self).deferred_fields:
            fields = self.complete().__dict__
            if name in fields:
                return fields[name]
        return super().__getattr__(name)  # type: ignore[misc]

    # Without a return annotation Pydantic keeps the fields' own JSON Schema for dumps.
    @model_serializer(mode="wrap")
    def _dump_whole(self, handler: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        return handler(self.complete())

    def model_copy(self, **options: Any) -> Self:
        """A copy, optionally with some fields updated."""
        return super(Deferred, self.complete()).model_copy(**options)

    def __eq__(self, other: object) -> bool:
        """Equal fields; what the solver attached does not count."""
        if isinstance(other, Deferred):
            other.complete()
        return super(Deferred, self.complete()).__eq__(other)

    def __hash__(self) -> int:
        return super(Deferred, self.complete()).__hash__()

    def __repr_args__(self) -> Any:
        return super(Deferred, self.complete()).__repr_args__()

    def __iter__(self) -> Any:
        return super(Deferred, self.complete()).__iter__()

    def __dir__(self) -> list[str]:
        """The deferred fields too, for tab completion."""
        return sorted({*super().__dir__(), *self.deferred_fields})

    def __getstate__(self) -> dict[Any, Any]:
        """State for pickling: the fields; what the solver attached stays behind."""
        state = super(Deferred, self.complete()).__getstate__()
        return {**state, "__pydantic_private__": dict.fromkeys(self.__private_attributes__)}
