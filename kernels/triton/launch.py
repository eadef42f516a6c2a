"""The launcher: columns on the device, one launch, decisions back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.kernels.arrays.arrays import Array
from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.columns import checked, ranges_of
from kvplan.kernels.arrays.integer_range import Limits
from kvplan.kernels.arrays.results import Fits
from kvplan.kernels.arrays.scenarios import RefusedError, Scenarios
from kvplan.kernels.arrays.search.search import Search
from kvplan.kernels.arrays.search.tile import Tile
from kvplan.kernels.triton.constants import Spec, SpecBuilder, power_of_two

THREADS = 128
INTERPRETED_LANES = 1 << 14


class Launch:
    """One problem compiled for the kernel, on one torch device.

    Raises
    ------
    RefusedError : the batched search or the kernel cannot answer it.
    """

    def __init__(self, instance: Any, device: Any = "cuda") -> None:
        self.batch = Batch(instance, device)
        self.instance, self.arrays = self.batch.instance, self.batch.arrays

    def fit(self, scenarios: Scenarios) -> Fits:
        """Solve every scenario in one launch."""
        scenarios = checked(self.batch, scenarios)
        if scenarios.given or scenarios.use is not None:
            raise RefusedError("the Triton kernel does not support given requests or utilizations")
        if scenarios.number == 0:
            return self.batch.empty()
        limits = self.batch.layout.limits(self.arrays, scenarios.quotas)
        range_check = Limits(
            self.batch.layout, self.batch.demand, ranges_of(self.batch, scenarios, limits)
        )
        range_check.check()
        columns = self.columns(scenarios, limits)
        spec, tables = self.spec(columns, max(range_check.blocks, default=1))
        return self._decisions(spec, self._launch(columns, spec, tables, scenarios.number))

    def spec(self, columns: Sequence[Array], most_copies: int) -> tuple[Spec, list[int]]:
        """Constants and tables for given columns."""
        places, at = [], 0
        for column in columns:
            places.append(at)
            at += column.shape[0]
        rounds = self._rounds(columns, most_copies)
        builder = SpecBuilder(self.batch, places, rounds, most_copies)
        return builder.build(), builder.tables

    def columns(self, scenarios: Scenarios, limits: Sequence[Array]) -> list[Array]:
        """Limits, low, high and other figures of fitted requests, chunk and slots at most."""
        tile = Tile(self.arrays, self.batch.layout, self.batch.demand, scenarios, limits)
        search = Search(tile, self.batch.candidates)
        state = tile.undecided
        high = [
            search.most_requests(state, index) if value is None else value
            for index, value in enumerate(state.high)
        ]
        other = [
            tile.capacity[index] if fitted.is_count else tile.count[index]
            for index, fitted in enumerate(self.instance.fitted)
        ]
        experts, slots = self.instance.experts, 0
        if experts is not None:
            slots = search.most_slots() if experts.most is None else experts.most
        figures = [*limits, *state.low, *high, *other, state.chunk_most, slots]
        return [self._flat(figure) for figure in figures]

    def _flat(self, figure: Any) -> Array:
        array = self.arrays.ints([figure]) if isinstance(figure, int) else figure
        return self.arrays.xp.reshape(array, (-1,))

    def _rounds(self, columns: Sequence[Array], most_copies: int) -> list[int]:
        """Bisections of every goal, and of the slots kept in prefill."""
        budgets, fitted = len(self.batch.layout.budgets), len(self.instance.fitted)
        low, high = (
            columns[budgets : budgets + fitted],
            columns[budgets + fitted : budgets + 2 * fitted],
        )
        chunk, slots = int(columns[-2].max()), int(columns[-1].max())
        rounds = []
        for goal in self.instance.objectives:
            assert goal.single is not None
            kind, position = goal.single
            span = {"prefill": chunk, "experts": slots, "copies": most_copies}.get(kind, 0)
            if kind in ("capacity", "count"):
                span = int(high[position].max()) - int(low[position].min())
            if kind == "capacity":
                span //= self.batch.candidates[position].period
            rounds.append(max(0, span).bit_length())
        return [*rounds, slots.bit_length()]

    def _launch(
        self, columns: Sequence[Array], spec: Spec, tables: list[int], number: int
    ) -> Array:
        from kvplan.kernels.triton.kernel import search_kernel

        xp = self.arrays.xp
        inputs = xp.concat(list(columns), axis=0)
        steps = self.arrays.ints([1 if column.shape[0] == number else 0 for column in columns])
        decisions = 5 + 2 * len(spec.fitted) + len(spec.pools)
        out = xp.zeros((decisions, number), dtype=xp.int64, device=self.arrays.device)
        tile = tile_of(spec, number, interpreted=not hasattr(search_kernel, "device_caches"))
        grid = (-(-number // tile),)
        search_kernel[grid](
            inputs, steps, self.arrays.ints(tables), out, number, TILE=tile, SPEC=spec, num_warps=4
        )
        return out

    def _decisions(self, spec: Spec, out: Array) -> Fits:
        """Read the kernel's rows [decision, scenario]."""
        fitted, pools = len(spec.fitted), len(spec.pools)
        starts = self.batch.layout.starts
        options = self.arrays.ints([list(start) for start in starts])
        options = self.arrays.xp.reshape(options, (len(starts), len(self.instance.choices)))
        feasible = out[0] > 0
        return Fits(
            feasible=feasible,
            capacities=out[5 : 5 + fitted].T,
            counts=out[5 + fitted : 5 + 2 * fitted].T,
            chunk=out[1],
            options=options[out[2]] * out[0][:, None],
            experts=out[3],
            kept=out[4],
            usable=out[5 + 2 * fitted : 5 + 2 * fitted + pools].T,
        )


def tile_of(spec: Spec, number: int, *, interpreted: bool) -> int:
    """Scenarios of a program: about one lane a thread; many where it is interpreted."""
    lanes = spec.starts * max(step.classes * step.demands for step in spec.steps)
    wanted = INTERPRETED_LANES if interpreted else THREADS
    return max(1, min(wanted // lanes, power_of_two(number)))


def fit(instance: Any, scenarios: Scenarios, *, device: Any = "cuda") -> Fits:
    """`kvplan.kernels.arrays.fit` by the fused kernel.

    Raises
    ------
    RefusedError : what the batched search refuses; given requests or utilizations that vary, and
        problems of more than 512 lanes a scenario, which the batched search takes.
    """
    return Launch(instance, device).fit(scenarios)
