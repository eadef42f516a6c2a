"""The few array operations of the search, on one namespace and device, for integers as well."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

Array = Any
"""An int64 or boolean array of any array-API library."""

Integers = Any
"""A Python integer or an int64 array."""


class Arrays:
    """An array namespace on a device.

    Parameters
    ----------
    device : None for NumPy; "cpu", "cuda", ... for torch.
    """

    def __init__(self, device: Any = None) -> None:
        if device is None:
            from array_api_compat import numpy as namespace
        else:
            from array_api_compat import torch as namespace  # type: ignore[no-redef]
        self.xp: Any = namespace
        self.device = device
        self._scalars: dict[int, Array] = {}

    @property
    def on_host(self) -> bool:
        """Whether the arrays lie in the host's memory."""
        return self.device is None or str(self.device) == "cpu"

    def ints(self, values: Any) -> Array:
        """An int64 array on the device."""
        if self.device is not None and isinstance(values, np.ndarray):
            # torch takes neither negative strides nor memory that must not be written.
            values = np.require(values, dtype=np.int64, requirements=("C", "W"))
        return self.xp.asarray(values, dtype=self.xp.int64, device=self.device)

    def array(self, value: Integers) -> Array:
        """The value as an array; integers become arrays without axes."""
        if not isinstance(value, int):
            return value
        if value not in self._scalars:
            self._scalars[value] = self.ints(value)
        return self._scalars[value]

    def greatest(self, *values: Integers) -> Integers:
        """Elementwise maximum."""
        return reduce(self._greater, values)

    def smallest(self, *values: Integers) -> Integers:
        """Elementwise minimum."""
        return reduce(self._lesser, values)

    def _greater(self, a: Integers, b: Integers) -> Integers:
        if isinstance(a, int) and isinstance(b, int):
            return max(a, b)
        return self.xp.maximum(self.array(a), self.array(b))

    def _lesser(self, a: Integers, b: Integers) -> Integers:
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.xp.minimum(self.array(a), self.array(b))

    def pick(self, condition: Array, then: Integers, other: Integers) -> Array:
        """Elementwise choice."""
        return self.xp.where(condition, self.array(then), self.array(other))

    def table(self, values: Sequence[int], at: Integers) -> Integers:
        """values[at]; a plain integer where all of them are equal or `at` is one."""
        if isinstance(at, int):
            return values[at]
        if min(values) == max(values):
            return values[0]
        return self.ints(values)[at]

    def host(self, array: Array) -> Any:
        """The array as a NumPy array."""
        return np.asarray(array.cpu()) if hasattr(array, "cpu") else np.asarray(array)
