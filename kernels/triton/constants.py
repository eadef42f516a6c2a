"""A problem as compile-time constants and one table of integers, for the Triton kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.kernels.arrays.batch import Batch
from kvplan.kernels.arrays.budget_layout import BudgetLayout
from kvplan.kernels.arrays.candidates import falling_points
from kvplan.kernels.arrays.needs import BatchNeeds
from kvplan.kernels.arrays.scenarios import RefusedError
from kvplan.kernels.instance import FLIGHT, LIVE, PEAK, STATE, CacheRule, Instance

MOST_LANES = 512
"""Most lanes of one scenario that a program holds without spilling."""
UNBOUNDED = 1 << 61  # blocks; `limits` keeps every figure below

Numbers = tuple[Any, ...]


class Step(NamedTuple):
    """One step of the search."""

    kind: str  # start, a variable's kind, settle or end
    position: int
    classes: int  # lanes over residue classes, a power of two
    demands: int  # lanes over low points, a power of two
    strides: tuple[int, ...]  # of every fitted request among the demands; 0: not free
    rounds: int  # offset of the number of bisections
    extra: int  # offset of the options by combination, or of the most copies


class Spec(NamedTuple):
    """Compile-time constants; offsets point into the tables."""

    pools: Numbers  # (rules, use num, den, multiple, least, most or -1, reserved)
    batches: Numbers  # (given blocks by pool, prefix, fitted, least history or -1)
    copied: tuple[int, ...]  # among `batches`
    fitted: Numbers  # (flight, holds tokens, is count, period, points padded, points, offset,
    # offset of residues, residues)
    budgets: Numbers  # (buffers by pool, layers, lent, offset of staging or -1, of options or -1)
    steps: tuple[Step, ...]
    tail: tuple[int, ...]
    shares: Numbers  # (pool, numerator, denominator)
    experts: Numbers  # (sizes, granule, keep, lend num, lend den)
    least_slots: int
    starts: int  # combinations of options, padded to a power of two
    options: int  # combinations that exist
    kept_rounds: int  # offset
    unbounded: int


def power_of_two(number: int) -> int:
    """The least power of two that is no smaller."""
    return 1 << max(0, number - 1).bit_length()


class SpecBuilder:
    """Builds the spec and its tables.

    Parameters
    ----------
    columns : input columns; their places and the rounds of every goal come first in the tables.
    most_copies : no batch has more copies in any scenario. Like everything that follows from quotas
        it stands in the tables: a constant would recompile the kernel for each quota.
    """

    def __init__(
        self, batch: Batch, columns: Sequence[int], rounds: Sequence[int], most_copies: int
    ) -> None:
        self.batch, self.instance, self.demand = batch, batch.instance, batch.demand
        self.tables: list[int] = [*columns]
        self.rounds = self._add(rounds)
        self.most_copies = self._add([most_copies])
        self.chunk_range = range(len(self.instance.chunks))

    def build(self) -> Spec:
        """The whole problem.

        Raises
        ------
        RefusedError : more lanes than a program can hold.
        """
        instance, batch = self.instance, self.batch
        batches, copied = self._batches()
        experts = instance.experts
        starts = power_of_two(len(batch.layout.starts))
        fitted = tuple(self._fitted(index) for index in range(len(instance.fitted)))
        steps, tail = self._steps(copied)
        lanes = starts * max(step.classes * step.demands for step in steps)
        if lanes > MOST_LANES:
            raise RefusedError(f"the Triton kernel does not support {lanes} lanes a scenario")
        return Spec(
            pools=tuple(self._pool(pool) for pool in range(len(instance.pools))),
            batches=batches,
            copied=tuple(range(len(batches) - len(copied), len(batches))),
            fitted=fitted,
            budgets=tuple(self._budget(each, starts) for each in batch.layout.budgets),
            steps=steps,
            tail=tail,
            shares=tuple(
                (pool, share.numerator, share.denominator) for pool, share in instance.fill_shares
            ),
            experts=()
            if experts is None
            else (
                experts.sizes,
                experts.granule,
                experts.keep,
                experts.lend_num,
                experts.lend_den,
            ),
            least_slots=experts.least if experts is not None else 0,
            starts=starts,
            options=len(batch.layout.starts),
            kept_rounds=self.rounds + len(instance.objectives),
            unbounded=UNBOUNDED,
        )

    def _add(self, values: Sequence[int]) -> int:
        """Append to the tables; where they begin."""
        start = len(self.tables)
        self.tables += values
        return start

    def _pool(self, pool: int) -> Numbers:
        rule = self.instance.pools[pool]
        rules = tuple(self._rule(rule) for rule in self.instance.caches if rule.pool == pool)
        least = -(-rule.least // rule.multiple) * rule.multiple
        most = -1 if rule.most is None else rule.most
        return rules, rule.use_num, rule.use_den, rule.multiple, least, most, rule.reserved

    def _rule(self, rule: CacheRule) -> Numbers:
        t, extra, offset = rule.block_tokens, rule.extra_blocks, 0
        if rule.kind == STATE:
            extra += rule.state_blocks
        if rule.kind in (PEAK, FLIGHT):
            offset = self._add([self._limit(rule, chunk) for chunk in self.chunk_range])
        scratch = rule.scratch if rule.kind == LIVE and rule.scratch is not None else ()
        return (
            rule.kind, t, rule.groups, extra, rule.reach, rule.sink_blocks, offset, scratch,
            rule.rewind,
        )  # fmt: skip

    def _limit(self, rule: CacheRule, chunk: int) -> int:
        """Blocks at the peak, or tokens within reach."""
        flight, t = self.demand.flight(rule, chunk), rule.block_tokens
        if rule.kind == PEAK:
            return rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
        return rule.reach + (0 if rule.flight_per_batch else flight)

    def _batches(self) -> tuple[Numbers, list[int]]:
        """The batches in which something is fitted, the largest of the others, the copied."""
        needs = self.batch.needs
        copied = sorted(
            {
                goal.single.position
                for goal in self.instance.objectives
                if goal.single is not None and goal.single.kind == "copies"
            }
        )
        still = (self._by_pool([needs.still(chunk) for chunk in self.chunk_range]), 0, (), -1)
        moving = [self._batch(each) for each in needs.moving.values()]
        more = []
        for index in copied:
            if index in needs.moving:
                more.append(self._batch(needs.moving[index]))
            else:
                raws = [list(self.demand.given(index, chunk)) for chunk in self.chunk_range]
                more.append((self._by_pool(raws), 0, (), -1))
        idle = all(base == (-1, 0) for base in still[0])
        return (*([] if idle else [still]), *moving, *more), copied

    def _batch(self, needs: BatchNeeds) -> Numbers:
        raws = [needs.known(chunk) for chunk in self.chunk_range]
        prefix = needs.batch.prefix_tokens if needs.attends == 1 else 0
        histories = [request.history for request in needs.batch.fixed if request.capacity]
        return self._by_pool(raws), prefix, needs.batch.fitted, min(histories, default=-1)

    def _by_pool(self, raws: Sequence[Sequence[int]]) -> Numbers:
        """By pool a table over chunks, or one figure, from lists by chunk."""
        columns = [[int(blocks) for blocks in column] for column in zip(*raws, strict=True)]
        return tuple(
            (-1, column[0]) if min(column) == max(column) else (self._add(column), 0)
            for column in columns
        )

    def _fitted(self, index: int) -> Numbers:
        fitted = self.instance.fitted[index]
        bears = (fitted.capacity if fitted.is_count else fitted.requests) > 0
        if fitted.is_count:
            return fitted.flight, bears, True, 1, 1, 1, 0, 0, 1
        candidates = self.batch.candidates[index]
        points = falling_points(self.instance, index)
        offset = self._add([figure for point in points for figure in point])
        residues = self._add(candidates.residues)
        padded = power_of_two(1 + len(points))
        return (
            fitted.flight, bears, False, candidates.period, padded, 1 + len(points), offset,
            residues, len(candidates.residues),
        )  # fmt: skip

    def _budget(self, budget: BudgetLayout, starts: int) -> Numbers:
        staging = self._add(budget.staging) if budget.staging else -1
        options = -1
        if any(budget.options):
            padding = starts - len(budget.options)
            options = self._add([*budget.options, *([0] * padding)])
        buffers = tuple(
            (
                pool,
                sum(size for size, _ in pool),
                sum(granule - 1 for size, granule in pool if size % granule),
            )
            for pool in budget.pools
        )
        return buffers, budget.layers, budget.lent, staging, options

    def _steps(self, copied: list[int]) -> tuple[tuple[Step, ...], tuple[int, ...]]:
        """Every step, and the pools of the last goals that are filled in one pass."""
        instance: Instance = self.instance
        free = [not fitted.is_count for fitted in instance.fitted]
        steps = [self._step("start", 0, free, 0)]
        tail_from = instance.pools_from
        for number, goal in enumerate(instance.objectives[:tail_from]):
            if number == instance.fill_from:
                steps.append(self._step("settle", 0, free, 0))
            variable = goal.single
            assert variable is not None
            kind, position, extra = variable.kind, variable.position, 0
            if kind == "choice":
                by_option = [start[position] for start in self.batch.layout.starts]
                extra = self._add(by_option + [0] * (power_of_two(len(by_option)) - len(by_option)))
            elif kind == "copies":
                position, extra = copied.index(position), self.most_copies
            steps.append(self._step(kind, position, free, self.rounds + number, extra))
            if kind == "capacity":
                free[position] = False
        if instance.fill_from >= tail_from:
            steps.append(self._step("settle", 0, free, 0))
        steps.append(self._step("end", 0, [False] * len(free), 0))
        tail = [goal.single for goal in instance.objectives[tail_from:]]
        return tuple(steps), tuple(each.position for each in tail if each is not None)

    def _step(
        self, kind: str, position: int, free: list[bool], rounds: int, extra: int = 0
    ) -> Step:
        """Lanes of a step: classes of its own capacity, demands of the other free ones."""
        classes, demands, strides = 1, 1, []
        for index in range(len(free)):
            if not free[index]:
                strides.append(0)
            elif kind == "capacity" and index == position:
                classes = power_of_two(len(self.batch.candidates[index].residues))
                strides.append(0)
            else:
                strides.append(demands)
                demands *= power_of_two(self.batch.candidates[index].points)
        return Step(kind, position, classes, demands, tuple(strides), rounds, extra)
