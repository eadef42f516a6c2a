"""Layers with the same experts, counted once: a model has few kinds of layer, and many experts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from kvplan.solver.place.search.spread import Slot, Tensor

Counted = Counter[Tensor]


class ExpertKinds:
    """The distinct lists of experts of some slots.

    Attributes
    ----------
    experts, counted : of each kind its tensors, and the same by number.
    of : kind of each slot.
    """

    def __init__(self, slots: Sequence[Slot]) -> None:
        known: dict[tuple[Tensor, ...], int] = {}
        seen: dict[int, int] = {}  # by identity: hashing hundreds of tensors a layer takes time
        self.of: list[int] = []
        for slot in slots:
            if id(slot.experts) not in seen:
                seen[id(slot.experts)] = known.setdefault(slot.experts, len(known))
            self.of.append(seen[id(slot.experts)])
        self.experts = list(known)
        self.counted = [Counter(experts) for experts in self.experts]
        self._up_to = [
            [0, *accumulate(kind == each for each in self.of)] for kind in range(len(known))
        ]

    def by_slot(self, worth: Callable[[Counted], int]) -> list[int]:
        """A figure of each slot's experts."""
        figures = [worth(counted) for counted in self.counted]
        return [figures[kind] for kind in self.of]

    def sums(self, figures: Any, dtype: Any) -> Any:
        """Sum over the slots up to each one of a figure by kind; [slot]."""
        return np.array(figures, dtype=dtype) @ np.array(self._up_to, dtype=dtype)

    def between(self, start: int, end: int) -> dict[int, int]:
        """Slots of each kind from one to another, kinds without experts apart."""
        numbers = ((kind, up_to[end] - up_to[start]) for kind, up_to in enumerate(self._up_to))
        return {kind: n for kind, n in numbers if n and self.experts[kind]}


def total(counted: Counted, worth: Callable[[Tensor], int]) -> int:
    """Sum over tensors by number."""
    return sum(number * worth(tensor) for tensor, number in counted.items())
