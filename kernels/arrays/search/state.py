"""The decisions so far, for many scenarios."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.arrays.arrays import Integers


class State(NamedTuple):
    """Least values by position, as in `search.bounds.Bounds`: integers or [start, ..., scenario].

    Starts (combinations of options) differ in bytes alone, so one state serves them all.
    """

    low: tuple[Integers, ...]  # fitted capacity (tokens) or count, at least
    high: tuple[Integers | None, ...]  # at most; None: bounded by the quota
    decided: tuple[bool, ...]  # by fitted request
    chunk: Integers  # index, at least
    chunk_most: Integers
    experts: Integers  # slots, at least
    blocks: tuple[Integers, ...]  # usable, at least
    copies: tuple[Integers, ...]  # of each batch, at least

    def with_low(self, index: int, value: Integers) -> State:
        """One fitted variable bounded from below."""
        return self._replace(low=put(self.low, index, value))

    def fixed(self, index: int, value: Integers) -> State:
        """One fitted variable decided."""
        decided = put(self.decided, index, True)
        return self.with_low(index, value)._replace(
            high=put(self.high, index, value), decided=decided
        )


def put(values: tuple[Integers, ...], index: int, value: Integers) -> tuple[Integers, ...]:
    """The tuple with one entry replaced."""
    return (*values[:index], value, *values[index + 1 :])
