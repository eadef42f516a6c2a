"""Values that are computed on first use, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class cached_property(Generic[Value]):  # noqa: N801 - a decorator, named as the one it replaces
    """`functools.cached_property` as Python 3.12 has it.

    On 3.11 that of functools holds one lock for all instances of a class while it computes: a
    process that forks while another thread computes hangs when it reads the same property. Here two
    threads may both compute a value, which must not matter; the last one stays.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Self | Value:
        """Compute once; Python then finds the value in the instance's attributes."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
