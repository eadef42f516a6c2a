"""Every rule that a plan must keep, one line for each that it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import islice

from kvplan.models.problem import Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.check.fill_rules import mix_of, over_shares, scale_held
from kvplan.solver.check.needs import BatchNeed, SplitNeed, rules_of, structural_floors
from kvplan.solver.check.phase_bytes import RankLimits, is_too_large, quota_of
from kvplan.solver.check.ranges import Decisions, fitted_of, range_faults

NONE: Mapping[str, int] = {}
Rows = Sequence[Sequence[int]]
"""Raw blocks, by batch and pool."""


class Check:
    """The rules of one problem, read once and kept where it is planned again.

    Parameters
    ----------
    granules : bytes of an "auto" granule by rank, where a resize holds them.
    floors : usable blocks at least by pool, where a resize holds them.
    """

    def __init__(
        self, problem: Problem, granules: Mapping[str, int] = NONE, floors: Mapping[str, int] = NONE
    ) -> None:
        self.problem, pools, batches = problem, problem.pools, problem.batches
        rules, use = rules_of(problem), problem.resume_utilization.as_integer_ratio()
        self._uses = [use if pool.resume_headroom else (1, 1) for pool in pools]
        self._runs = problem.counts_running
        if self._runs:  # running requests are counted as one more pool's blocks
            self._uses.append((1, 1))
        count = len(self._uses)
        self._floors = structural_floors(rules, count)
        for at, pool in enumerate(pools):
            self._floors[at] = max(self._floors[at], pool.min_blocks, floors.get(pool.name, 0))
        self._batches = [
            SplitNeed(problem, rules, count, batch)
            if batch.is_partial
            else BatchNeed(rules, count, batch)
            for batch in batches
        ]
        self._fitted = [fitted_of(batch, i) for batch in batches for i in batch.given.fitted]
        follows = problem.prefill is not None and not all(rule.flight for rule in rules)
        self._in_flight = problem.prefill.batches_in_flight if problem.prefill and follows else 0
        self._limits, self._mix = RankLimits(problem, granules), mix_of(problem, rules, count)
        self._limited = [at for at, pool in enumerate(pools) if pool.figures.limited]

    def broken(self, decisions: Decisions, quotas: Sequence[int] | None = None) -> list[str]:
        """One line for each rule broken, at the problem's quotas or at others (bytes by rank)."""
        problem, fill = self.problem, self.problem.fill
        found = [*range_faults(problem, self._fitted, self._runs, decisions)]
        if found:
            return found  # values that may not be taken have no needs and no bytes
        quotas = [quota_of(rank) for rank in problem.ranks] if quotas is None else quotas
        flight = (decisions.chunk or 0) * self._in_flight
        raws = self._raws(decisions, flight)
        needs, usable = self._needs(raws), self._usable(decisions)
        found += self._short(decisions, usable, needs)
        values = self._values(decisions, usable, raws) if problem.constraints or fill else {}
        found += self._linear(values)
        copies = values[f"copies:{fill.batch}"] if fill and fill.batch else None
        if decisions.copies != copies:
            held = f"{copies} copies of the fill batch"
            found.append(f"the blocks hold {held}, not {decisions.copies}")
        scale = scale_held(self._mix, flight, usable, self._uses)
        if decisions.scale != scale:
            found.append(f"the blocks hold {scale} of the fill mix, not {decisions.scale}")
        for rank, phase, free in self._limits.free(decisions, quotas):
            if free < 0:
                over = exact_bytes(-free)
                found.append(f"rank {rank.name} exceeds its quota by {over} in {phase}")
        if fill and fill.shares:
            for at, line in over_shares(problem, self._limits, decisions, quotas, needs):
                if self._may_be_less(at, decisions, usable, raws, needs):
                    found.append(line)
        return found

    def _usable(self, decisions: Decisions) -> list[int]:
        """Usable blocks by pool, then the running requests where they are counted."""
        pools = zip(self.problem.pools, decisions.blocks, strict=True)
        usable = [allocated - pool.reserved_blocks for pool, allocated in pools]
        return usable if decisions.running is None else [*usable, decisions.running]

    def _raws(self, decisions: Decisions, flight: int) -> list[list[int]]:
        """Raw blocks by batch and pool."""
        sizes = zip(decisions.fitted, self._fitted, strict=True)
        loads = iter([(c, c - each.flight, count) for (c, count), each in sizes])
        return [batch.raw([*islice(loads, batch.fitted)], flight) for batch in self._batches]

    def _needs(self, raws: Rows) -> list[int]:
        """Usable blocks by pool: ceil(raw / utilization) of the largest batch, or the floor."""
        most = [max(column) for column in zip(*raws, strict=True)] or [0] * len(self._uses)
        pools = zip(self._floors, most, self._uses, strict=True)
        return [max(floor, -(-raw * den // num)) for floor, raw, (num, den) in pools]

    def _short(
        self, decisions: Decisions, usable: Sequence[int], needs: Sequence[int]
    ) -> Iterator[str]:
        """Usable blocks of every pool serve the batches and obey its limits."""
        pools = self.problem.pools
        for pool, need, held in zip(pools, needs, usable, strict=False):
            most = pool.max_blocks
            if held < need:
                yield f"pool {pool.name} has {held} usable blocks, {need} are needed"
            if held % pool.multiple_of or (most is not None and held > most):
                yield f"pool {pool.name} has {held} blocks: not a multiple, or above max_blocks"
        for at in self._limited:
            pool, allocated = pools[at], decisions.blocks[at]
            if is_too_large(pool, self.problem.ranks, allocated):
                yield f"pool {pool.name} has {allocated} blocks, above max_bytes of a buffer"
        if decisions.running is not None and decisions.running < needs[-1]:
            yield f"{needs[-1]} requests run at once, not {decisions.running}"

    def _values(self, decisions: Decisions, usable: Sequence[int], raws: Rows) -> dict[str, int]:
        """Every variable of a goal or constraint; copies = min floor(usable x use / raw)."""
        problem, pairs = self.problem, zip(self.problem.pools, usable, strict=False)
        values = {f"blocks:{pool.name}": count for pool, count in pairs}
        values |= {"prefill": decisions.chunk or 0, "experts": decisions.slots or 0}
        for batch, raw in zip(problem.batches, raws, strict=True):
            pools = zip(usable, self._uses, raw, strict=True)
            held = [count * num // (need * den) for count, (num, den), need in pools if need]
            values[f"copies:{batch.name}"] = min(held, default=0)
        for each, sizes in zip(self._fitted, decisions.fitted, strict=True):
            kind = "count" if each.is_count else "capacity"
            values[f"{kind}:{each.name}"] = sizes[each.is_count]
        for choice, picked in zip(problem.choices, decisions.options, strict=True):
            values[f"choice:{choice.name}"] = -picked
            for at, option in enumerate(choice.options):
                values[f"choice:{choice.name}={option.name}"] = int(at == picked)
        return values

    def _linear(self, values: Mapping[str, int]) -> Iterator[str]:
        """min <= sum(coefficient x variable) <= max."""
        for index, row in enumerate(self.problem.constraints):
            total, least, most = Fraction(0), row.min, row.max
            for name, weight in row.terms.items():
                total += weight * values[name]
            if (least is not None and total < least) or (most is not None and total > most):
                yield f"constraint {index} is {total}, outside {least} to {most}"

    def _may_be_less(
        self, at: int, decisions: Decisions, usable: list[int], raws: Rows, needs: Sequence[int]
    ) -> bool:
        """Whether a step of a pool's blocks less keeps every rule and every goal."""
        fewer = [*usable]
        fewer[at] -= self.problem.pools[at].multiple_of
        less = self._values(decisions, fewer, raws)
        if fewer[at] < needs[at] or any(self._linear(less)):
            return False
        values = self._values(decisions, usable, raws)
        return all(goal.value(less) >= goal.value(values) for goal in self.problem.goals)
