"""A table over granules: scenarios whose limits hold the same whole units share one plan.

Everything that a budget can hold is a multiple of its unit (granules, block bytes where they are
not rounded), so only floor(limit / unit) matters. Each combination that occurs is solved once; a
scenario is an index into those plans, expanded on demand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

from array_api_compat import array_namespace

from kvplan.kernels.arrays.arrays import Array
from kvplan.kernels.arrays.results import Fits
from kvplan.kernels.arrays.scenarios import Scenarios
from kvplan.kernels.arrays.search.array_bytes import floor_units

if TYPE_CHECKING:
    from kvplan.kernels.arrays.batch import Batch, Progress

LEAST_SCENARIOS = 256
MOST_CELLS = 1 << 24


@dataclass(frozen=True)
class Swept:
    """Plans, and which of them each scenario has."""

    index: Array  # into plans [scenario]
    plans: Fits

    def expand(self) -> Fits:
        """Every decision of every scenario."""
        return self.plans.mapped(self._of_scenarios)

    def _of_scenarios(self, plans: Array) -> Array:
        """Column by column, as decisions lie in memory: three times as fast as by rows."""
        xp = array_namespace(plans)
        if plans.ndim == 1:
            return xp.take(plans, self.index, axis=0)
        return xp.take(plans.T, self.index, axis=1).T


@dataclass(frozen=True)
class Cells:
    """Whole units of every budget, numbered in mixed radix."""

    cell: Array  # [scenario]; the last one: some limit is negative
    least: tuple[int, ...]  # units by budget
    spans: tuple[int, ...]
    units: tuple[int, ...]  # bytes by budget

    @property
    def number(self) -> int:
        """Cells, the one of negative limits included."""
        return prod(self.spans) + 1

    def limits(self, cell: Array, where: Any) -> list[Array]:
        """Rooms of given cells, each [cell]."""
        found, left = [], cell
        for least, span, unit in zip(self.least, self.spans, self.units, strict=True):
            found.append((left % span + least) * unit)
            left = left // span
        return [where(cell == self.number - 1, -1, limit) for limit in found]


def tabulate(
    batch: Batch, scenarios: Scenarios, limits: Sequence[Array], progress: Progress | None
) -> Swept | None:
    """Solve each cell once; None where cells are not fewer than scenarios."""
    # Shares are taken of the limit itself, not of its whole units.
    if not scenarios.only_quotas or batch.instance.fill_shares:
        return None
    if scenarios.number < LEAST_SCENARIOS:
        return None
    cells = _cells(batch, scenarios.number, limits)
    if cells is None:
        return None
    xp, device = batch.arrays.xp, batch.arrays.device
    seen = xp.zeros(cells.number, dtype=xp.bool, device=device)
    seen[cells.cell] = True
    present = xp.nonzero(seen)[0]
    if 2 * present.shape[0] > scenarios.number:
        return None
    place = xp.cumulative_sum(xp.astype(seen, xp.int64)) - 1
    plans = batch.solve(
        Scenarios(present.shape[0]), cells.limits(present, batch.arrays.pick), progress
    )
    return Swept(place[cells.cell], plans)


def _cells(batch: Batch, number: int, limits: Sequence[Array]) -> Cells | None:
    """Number the scenarios' units; None where there are too many combinations."""
    arrays, xp = batch.arrays, batch.arrays.xp
    # A budget that holds nothing needs a limit that is not negative, no more.
    units = tuple(budget.unit or 1 << 62 for budget in batch.layout.budgets)
    short = None
    keys, least, spans = [], [], []
    for limit, unit in zip(limits, units, strict=True):
        negative = limit < 0
        short = negative if short is None else short | negative
        key = floor_units(arrays.greatest(limit, 0), unit)
        keys.append(key)
        least.append(int(xp.min(key)))
        spans.append(int(xp.max(key)) - least[-1] + 1)
    cells = prod(spans)
    if short is None or cells >= min(MOST_CELLS, max(1 << 16, 4 * number)):
        return None
    cell: Any = 0
    for key, start, span in zip(reversed(keys), reversed(least), reversed(spans), strict=True):
        if span > 1:
            cell = cell * span + (key - start)
    cell = arrays.pick(short, cells, cell)
    return Cells(xp.broadcast_to(cell, (number,)), tuple(least), tuple(spans), units)
