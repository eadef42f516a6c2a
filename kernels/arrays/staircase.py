"""The first goal by lookup: bytes along a fitted variable's candidates, built once.

Where nothing but quotas varies, the bytes that each candidate takes of a budget are constants. The
largest candidate that fits in a limit is then a search in a rising list, or one read of the list's
inverse over the budget's units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kvplan.kernels.arrays.arrays import Array, Arrays
from kvplan.kernels.arrays.scenarios import Scenarios
from kvplan.kernels.instance import Variable

if TYPE_CHECKING:
    from kvplan.kernels.arrays.batch import Batch
    from kvplan.kernels.arrays.search.search import Search

MOST_STEPS = 1 << 20
MOST_CELLS = 1 << 22
NEVER = 1 << 61  # bytes of a candidate that a pool's max_blocks forbids


@dataclass(frozen=True)
class Stair:
    """One budget's rising bytes [candidate], and their inverse where it is small enough."""

    bytes: Array
    base: int  # limit of the inverse's first cell
    unit: int  # bytes from cell to cell
    inverse: Array | None  # last candidate that fits, by cell; -1 for none

    def last(self, arrays: Arrays, rest: Array) -> Array:
        """Index of the last candidate whose bytes are at most `rest`; -1 for none."""
        if self.inverse is None:
            found = arrays.xp.searchsorted(self.bytes, rest, side="right")
            return arrays.ints(found) - 1
        cells = self.inverse.shape[0]
        cell = arrays.smallest((rest - self.base) // self.unit, cells - 1)
        return arrays.pick(cell < 0, -1, self.inverse[arrays.greatest(cell, 0)])


@dataclass(frozen=True)
class Staircase:
    """All budgets; each limit bounds the candidate by itself, and the least index rules."""

    variable: Variable
    values: Array  # tokens or requests [candidate], rising
    stairs: tuple[Stair, ...]

    def largest(self, search: Search) -> Array:
        """Largest value that fits, or -1: [start, 1 ..., scenario]."""
        arrays, tile = search.arrays, search.tile
        index: Any = None
        for stair, limit, options in zip(self.stairs, tile.limits, tile.options, strict=True):
            last = stair.last(arrays, limit - options)
            index = last if index is None else arrays.smallest(index, last)
        return arrays.pick(index < 0, -1, self.values[arrays.greatest(index, 0)])


def build(batch: Batch, scenarios: Scenarios, limits: list[Array]) -> Staircase | None:
    """The staircase of the first goal; None where lookups would not be exact, or not worth it."""
    instance = batch.instance
    variable = instance.objectives[0].single if instance.objectives else None
    if not scenarios.only_quotas or len(instance.fitted) != 1 or variable is None:
        return None
    if variable.kind not in ("capacity", "count"):
        return None
    values = _values(batch, limits, min(MOST_STEPS, 8 * scenarios.number))
    if values is None:
        return None
    taken = _bytes(batch, values)
    rising = [bool((each[1:] >= each[:-1]).all()) for each in taken]
    if not all(rising):
        moving = [each for each in taken if each.min() != each.max()]
        if len(moving) > 1:
            return None  # limits of two budgets may be met by different candidates
        # A candidate counts for every limit that some larger one fits in: the envelope.
        taken = [np.minimum.accumulate(each[::-1])[::-1].copy() for each in taken]
    units = [budget.unit for budget in batch.layout.budgets]
    stairs = [_stair(batch.arrays, *each) for each in zip(taken, units, strict=True)]
    return Staircase(variable, batch.arrays.ints(values), tuple(stairs))


def _values(batch: Batch, limits: list[Array], limit: int) -> Any:
    """Candidates of the one fitted variable, rising [candidate]; None where there are more."""
    fitted = batch.instance.fitted[0]
    low, high = fitted.least, fitted.most
    if fitted.is_count:
        if high is None:
            high = low + batch.most_requests(limits)
        return np.arange(low, high + 1) if high - low < limit else None
    assert high is not None
    candidates = batch.candidates[0]
    if len(candidates.residues) * ((high - low) // candidates.period) >= limit:
        return None
    found = [np.array([high])]
    for residue in candidates.residues:
        first = low + (residue - low) % candidates.period
        found.append(np.arange(first, high, candidates.period))
    return np.unique(np.concatenate(found))


def _bytes(batch: Batch, values: Any) -> list[Any]:
    """Bytes of every budget [candidate] with everything undecided at its least."""
    tile = batch.host_tile(len(values))
    fitted = batch.instance.fitted[0]
    state = tile.undecided
    column = tile.lift(values)
    capacity, count = list(tile.capacity), list(tile.count)
    (count if fitted.is_count else capacity)[0] = column
    usable = tile.usable(state, capacity, count, state.chunk)
    forbidden = np.zeros(len(values), dtype=np.bool_)
    for pool, blocks in zip(batch.instance.pools, usable, strict=True):
        if pool.most is not None:
            forbidden |= np.reshape(blocks > pool.most, (-1,))
    found = []
    for budget in batch.layout.budgets:
        taken = tile.taken(budget, usable, state.chunk, state.experts)
        flat = np.broadcast_to(np.reshape(np.asarray(taken, dtype=np.int64), (-1,)), len(values))
        found.append(np.where(forbidden, NEVER, flat))
    return found


def _stair(arrays: Arrays, taken: Any, unit: int) -> Stair:
    allowed = taken[taken < NEVER]
    if not unit or not len(allowed):
        return Stair(arrays.ints(taken), 0, 1, None)
    base, last = int(allowed[0]), int(allowed[-1])
    cells = (last - base) // unit + 1
    if cells > MOST_CELLS:
        return Stair(arrays.ints(taken), 0, 1, None)
    ends = base + np.arange(cells, dtype=np.int64) * unit
    inverse = np.searchsorted(taken, ends, side="right") - 1
    return Stair(arrays.ints(taken), base, unit, arrays.ints(inverse))
