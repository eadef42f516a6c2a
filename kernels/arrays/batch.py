"""One problem compiled for many scenarios, and `fit`: checks, tables, tiles, threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import prod
from threading import Lock
from typing import Any

from kvplan.kernels.arrays.arrays import Array, Arrays
from kvplan.kernels.arrays.budget_layout import Layout
from kvplan.kernels.arrays.candidates import Candidates
from kvplan.kernels.arrays.columns import checked, ranges_of
from kvplan.kernels.arrays.integer_range import Limits, refused_goals
from kvplan.kernels.arrays.needs import Needs
from kvplan.kernels.arrays.results import Fits, widths
from kvplan.kernels.arrays.scenarios import RefusedError, Scenarios
from kvplan.kernels.arrays.search.goal_order import Goals
from kvplan.kernels.arrays.search.search import Search
from kvplan.kernels.arrays.search.tile import Tile
from kvplan.kernels.arrays.staircase import Staircase, build
from kvplan.kernels.arrays.table import Swept, tabulate
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance

HOST_ELEMENTS = 1 << 14
"""Elements of one array: small enough for a core's cache, large enough to amortise the calls."""
DEVICE_ELEMENTS = 1 << 20
"""On a device: with some sixty arrays alive, 0.5 GiB."""
MOST_POINTS = 1 << 18
"""Candidate points of one scenario: sixty such arrays are 0.13 GiB."""
MOST_HOST_POINTS = HOST_ELEMENTS
"""On the host, one scenario with more takes longer than the scalar search, which tries few."""

Progress = Callable[[int, int], None]
"""Called with the scenarios done and their number."""


class Batch:
    """One problem compiled for many scenarios.

    Parameters
    ----------
    instance : the problem in integers, or anything that has them as `instance`.
    device : None: NumPy on the host; "cpu", "cuda", ...: torch tensors there.

    Raises
    ------
    RefusedError : linear constraints, weighted goals, or too many candidate points.
    """

    def __init__(self, instance: Any, device: Any = None) -> None:
        self.instance: Instance = getattr(instance, "instance", instance)
        refused = refused_goals(self.instance)
        if refused is not None:
            raise RefusedError(f"the batched search does not support {refused}")
        self.arrays = Arrays(device)
        self.layout = Layout(self.instance)
        self.demand = Demand(self.instance)
        self.candidates: dict[int, Candidates] = {}
        for index, fitted in enumerate(self.instance.fitted):
            if not fitted.is_count:
                axis = 1 + len(self.candidates)
                self.candidates[index] = Candidates(
                    self.arrays, self.instance, index, axis, self.layout.axes
                )
        self.points = self._points()

    @property
    def needs(self) -> Needs:
        """The instance's own needs, without scenarios."""
        return Needs(Arrays(), self.demand, ())

    def _points(self) -> int:
        """Elements that one scenario takes at most in an array."""
        each = [
            max(candidates.points, len(candidates.residues))
            for candidates in self.candidates.values()
        ]
        points = len(self.layout.starts) * prod(each)
        if points > (MOST_HOST_POINTS if self.arrays.on_host else MOST_POINTS):
            raise RefusedError(f"the batched search does not support {points} candidate points")
        return points

    def fit(self, scenarios: Scenarios, progress: Progress | None = None) -> Fits:
        """Solve every scenario."""
        swept = self.sweep(scenarios, progress)
        return swept.expand() if isinstance(swept, Swept) else swept

    def sweep(self, scenarios: Scenarios, progress: Progress | None = None) -> Swept | Fits:
        """The distinct plans, and an index into them for every scenario."""
        scenarios = checked(self, scenarios)
        if scenarios.number == 0:
            return self.empty()
        limits = self.layout.limits(self.arrays, scenarios.quotas)
        self.check_limits(scenarios, limits)
        swept = tabulate(self, scenarios, limits, progress)
        return swept or self.solve(scenarios, limits, progress)

    def check_limits(self, scenarios: Scenarios, limits: Sequence[Array]) -> None:
        """Reject scenarios in which an int64 may overflow."""
        Limits(self.layout, self.demand, ranges_of(self, scenarios, limits)).check()

    def solve(
        self, scenarios: Scenarios, limits: Sequence[Array], progress: Progress | None
    ) -> Fits:
        """The search, tile by tile; on the host two tiles at a time."""
        elements = HOST_ELEMENTS if self.arrays.on_host else DEVICE_ELEMENTS
        width = max(1, elements // self.points)
        starts = range(0, scenarios.number, width)
        first = build(self, scenarios, list(limits))
        done, lock = 0, Lock()

        def one(start: int) -> Fits:
            nonlocal done
            stop = min(start + width, scenarios.number)
            part = [limit if limit.shape[0] == 1 else limit[start:stop] for limit in limits]
            fits = self._tile(scenarios.part(start, stop), part, first)
            with lock:
                done += stop - start
                if progress is not None:
                    progress(done, scenarios.number)
            return fits

        workers = min(os.cpu_count() or 1, len(starts)) if self.arrays.device is None else 1
        if workers > 1:
            with ThreadPoolExecutor(workers) as pool:
                parts = list(pool.map(one, starts))
        else:
            parts = [one(start) for start in starts]
        return self.joined(parts)

    def _tile(
        self,
        part: Scenarios,
        limits: Sequence[Array],
        first: Staircase | None = None,
    ) -> Fits:
        tile = Tile(self.arrays, self.layout, self.demand, part, limits)
        return Goals(Search(tile, self.candidates), first).solve()

    def host_tile(self, number: int) -> Tile:
        """A tile of the instance as they are, in NumPy."""
        arrays = Arrays()
        limits = self.layout.limits(arrays, None)
        return Tile(arrays, self.layout, self.demand, Scenarios(number), limits)

    def most_requests(self, limits: Sequence[Array]) -> int:
        """No less than the open count of the first fitted request in any scenario."""
        tile = self.host_tile(1)
        tile.limits = [tile.lift([int(self.arrays.xp.max(limit))]) for limit in limits]
        search = Search(tile, {})
        return int(self.arrays.host(search.most_requests(tile.undecided, 0)).max())

    def joined(self, parts: list[Fits]) -> Fits:
        """Tiles one after the other."""
        if len(parts) == 1:
            return parts[0]
        names = widths(self.instance)
        columns = [
            self.arrays.xp.concat([getattr(part, name) for part in parts], axis=0) for name in names
        ]
        return Fits(*columns)

    def empty(self) -> Fits:
        """No scenario."""
        xp, device = self.arrays.xp, self.arrays.device
        columns = [
            xp.zeros(
                (0,) if width is None else (0, width),
                dtype=xp.bool if name == "feasible" else xp.int64,
                device=device,
            )
            for name, width in widths(self.instance).items()
        ]
        return Fits(*columns)


def fit(
    instance: Any,
    scenarios: Scenarios,
    *,
    device: Any = None,
    progress: Progress | None = None,
) -> Fits:
    """Solve one problem in many scenarios, exactly as the nested search would one by one.

    Parameters
    ----------
    instance : `Instance`, or a formulation.
    scenarios : what differs.
    device : None: NumPy on the host; "cpu", "cuda", ...: torch tensors there.
    progress : called after each tile.

    Raises
    ------
    RefusedError : what it cannot answer, by name: linear constraints, weighted goals, figures that
        may leave 64 bits. Answer such scenarios one by one with the scalar search.
    """
    return Batch(instance, device).fit(scenarios, progress)
