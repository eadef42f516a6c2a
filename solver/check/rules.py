"""Every rule that a plan must keep, one line for each that it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.problem import Problem, request_name
from kvplan.models.units import exact_bytes
from kvplan.solver.check.bytes import (
    Buffers,
    auto_granule,
    layout_of,
    limits_of,
    pools_bytes,
    quota_of,
    slots_bytes,
    staging_bytes,
)
from kvplan.solver.check.needs import BatchNeed, rule_of, structural_floors
from kvplan.solver.check.ranges import expert_faults, fitted_faults, is_candidate, least_kept

MOST_KEPT = 64
NONE: Mapping[str, int] = {}


class Decisions(NamedTuple):
    """What a plan decides, in the order that the problem is written."""

    blocks: tuple[int, ...]  # allocated, reserved ones included, by pool
    fitted: tuple[tuple[int, int], ...]  # (capacity, count) of each request that may shrink
    chunk: int | None  # tokens
    options: tuple[int, ...]  # positions, by choice
    slots: int | None  # expert slots a layer
    kept: int | None  # of them, those that stay during prefill
    copies: int | None  # of the batch that fill names


class Pool(NamedTuple):
    """What limits usable blocks."""

    name: str
    reserved: int
    multiple: int
    most: int | None
    least: int
    num: int  # of the utilization
    den: int


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
        self.problem, self._granules = problem, granules
        names = [pool.name for pool in problem.pools]
        rules = [rule_of(problem, names, each) for each in problem.caches]
        use = problem.resume_utilization.as_integer_ratio()
        self._pools = [
            Pool(
                *(pool.name, pool.reserved_blocks, pool.multiple_of, pool.max_blocks),
                max(floor, pool.min_blocks, floors.get(pool.name, 0)),
                *(use if pool.resume_headroom else (1, 1)),
            )
            for pool, floor in zip(problem.pools, structural_floors(rules, len(names)), strict=True)
        ]
        self._batches = [BatchNeed(rules, len(names), batch) for batch in problem.batches]
        self._fitted = [(batch, i) for batch in problem.batches for i in batch.given.fitted]
        self._flights = [batch.requests[i].flight_tokens for batch, i in self._fitted]
        self._quotas = [quota_of(rank) for rank in problem.ranks]
        self._limits = [[*limits_of(problem, rank)] for rank in problem.ranks]
        self._slots = dict[tuple[int, int | None], int]()  # bytes by stage and slots
        self._layouts = dict[tuple[int | str, int], list[Buffers]]()  # by rank or stage, granule
        pools = problem.pools if len(problem.ranks) > 1 else ()
        sizes = [b.bytes for pool in pools for b in pool.layout if not isinstance(b.bytes, int)]
        self._named_ranks = {key for figures in sizes for key in figures}
        self._in_flight = problem.prefill.batches_in_flight if problem.prefill else 1
        self._has_auto, fill = problem.has_auto_granules, problem.fill
        self._shares, self._filled = (fill.shares or {}, fill.batch) if fill else ({}, None)
        self._named = [name for each in problem.constraints for name in each.terms]
        self._named += [name for each in problem.goals for name in each.maximize]

    def broken(self, decisions: Decisions, quotas: Sequence[int] | None = None) -> list[str]:
        """Every rule that decisions break, one line each.

        Parameters
        ----------
        quotas : bytes by rank, where they are not the problem's own.
        """
        found = [*self._ranges(decisions)]
        if found:
            return found  # values that may not be taken have no needs and no bytes
        problem, (raws, needs) = self.problem, self._needs(decisions)
        quotas = self._quotas if quotas is None else quotas
        values = self._values(decisions, raws) if problem.constraints or problem.fill else {}
        held = None if self._filled is None else values[f"copies:{self._filled}"]
        found += [*self._short(decisions.blocks, needs), *self._linear(values)]
        if decisions.copies != held:
            found.append(f"the blocks hold {held} copies of the fill batch, not {decisions.copies}")
        found += self._over_quotas(decisions, quotas)
        if self._shares:
            found += self._over_shares(decisions, quotas, raws, needs)
        return found

    def _ranges(self, decisions: Decisions) -> Iterator[str]:
        """Fitted requests, chunk, options and slots are among those allowed."""
        for (batch, index), sizes in zip(self._fitted, decisions.fitted, strict=True):
            yield from fitted_faults(batch, index, *sizes)
        if not is_candidate(self.problem.prefill, decisions.chunk):
            yield f"a chunk of {decisions.chunk} tokens is not a candidate"
        for choice, option in zip(self.problem.choices, decisions.options, strict=True):
            if not 0 <= option < len(choice.options):
                yield f"choice {choice.name} has no option {option}"
        yield from expert_faults(self.problem.experts, decisions.slots, decisions.kept)

    def _needs(self, decisions: Decisions) -> tuple[list[list[int]], list[int]]:
        """Raw blocks by batch and pool; usable ones: ceil(raw / utilization) of the largest."""
        flight, raws = (decisions.chunk or 0) * self._in_flight, []
        loads = [
            (capacity, capacity - mine, count)
            for (capacity, count), mine in zip(decisions.fitted, self._flights, strict=True)
        ]
        for need in self._batches:
            raws.append(need.raw(loads[: need.fitted], flight))
            del loads[: need.fitted]
        most = [max(column) for column in zip(*raws, strict=True)] or [0] * len(self._pools)
        pools = zip(self._pools, most, strict=True)
        return raws, [max(pool.least, -(-raw * pool.den // pool.num)) for pool, raw in pools]

    def _short(self, blocks: Sequence[int], needs: Sequence[int]) -> Iterator[str]:
        """Usable blocks of every pool serve the batches and obey its limits."""
        for pool, need, allocated in zip(self._pools, needs, blocks, strict=True):
            usable = allocated - pool.reserved
            if usable < need:
                yield f"pool {pool.name} has {usable} usable blocks, {need} are needed"
            if usable % pool.multiple or (pool.most is not None and usable > pool.most):
                yield f"pool {pool.name} has {usable} blocks: not a multiple, or above max_blocks"

    def _values(self, decisions: Decisions, raws: list[list[int]]) -> dict[str, int]:
        """Every variable of a goal or constraint; copies = min floor(usable x use / raw)."""
        values = {"prefill": decisions.chunk or 0, "experts": decisions.slots or 0}
        pools = [(p, n - p.reserved) for p, n in zip(self._pools, decisions.blocks, strict=True)]
        values |= {f"blocks:{pool.name}": usable for pool, usable in pools}
        for batch, raw in zip(self.problem.batches, raws, strict=True):
            needed = [(p, n, need) for (p, n), need in zip(pools, raw, strict=True) if need]
            copies = [usable * p.num // (need * p.den) for p, usable, need in needed]
            values[f"copies:{batch.name}"] = min(copies, default=0)
        for (batch, index), sizes in zip(self._fitted, decisions.fitted, strict=True):
            fit = batch.requests[index].fit
            values[f"{fit}:{request_name(batch, index)}"] = sizes[fit == "count"]
        for choice, picked in zip(self.problem.choices, decisions.options, strict=True):
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

    def _layout_at(self, rank: int, quota: int) -> list[Buffers]:
        """Buffers by pool on a rank; an "auto" granule is held, or follows the quota."""
        each, auto = self.problem.ranks[rank], 0
        if self._has_auto:
            auto = self._granules.get(each.name) or auto_granule(quota)
        key = each.name if each.name in self._named_ranks else each.stage, auto
        if key not in self._layouts:
            self._layouts[key] = layout_of(self.problem, each, auto)
        return self._layouts[key]

    def _free(
        self, rank: int, quota: int, pools: int, decisions: Decisions, kept: int | None
    ) -> Iterator[tuple[str, int]]:
        """What pools of some bytes leave of each limit of a rank, with its phase."""
        problem, stage = self.problem, self.problem.ranks[rank].stage
        staging = staging_bytes(problem.prefill, stage, decisions.chunk)
        slots, in_prefill = self._slots_at(stage, decisions.slots), self._slots_at(stage, kept)
        for phase, fixed, sizes, limit, staged in self._limits[rank]:
            free = (quota if limit is None else limit) - fixed - (staging if staged else 0)
            for by_option, option in zip(sizes, decisions.options, strict=True):
                free -= by_option[option]
            if phase != "load":
                free -= pools + (in_prefill if phase == "prefill" else slots)
            yield phase, free

    def _slots_at(self, stage: int, slots: int | None) -> int:
        """Bytes of expert slots, which may be of many sizes: summed once for a plan."""
        if not slots or self.problem.experts is None:
            return 0
        taken = self._slots.get((stage, slots))
        if taken is None:
            if len(self._slots) >= MOST_KEPT:
                self._slots = {}
            taken = slots_bytes(self.problem.experts, stage, slots)
            self._slots[stage, slots] = taken
        return taken

    def _over_quotas(self, decisions: Decisions, quotas: Sequence[int]) -> Iterator[str]:
        """Every rank stays within each of its limits."""
        sums = dict[int, int]()  # of all pools, by layout
        for rank, quota in enumerate(quotas):
            layout = self._layout_at(rank, quota)
            if id(layout) not in sums:
                sums[id(layout)] = sum(pools_bytes(layout, decisions.blocks))
            for phase, free in self._free(rank, quota, sums[id(layout)], decisions, decisions.kept):
                if free < 0:
                    name, over = self.problem.ranks[rank].name, exact_bytes(-free)
                    yield f"rank {name} exceeds its quota by {over} in {phase}"

    def _over_shares(
        self, decisions: Decisions, quotas: Sequence[int], raws: list[list[int]], needs: list[int]
    ) -> Iterator[str]:
        """A pool takes at most floor(share x rest), unless it needs more or a goal asks for it.

        The rest is what all but the pools with shares leave, with as few slots kept as may be.
        Where constraints or goals count blocks, other pools are taken at their need alone.
        """
        kept, beside = least_kept(self.problem.experts, decisions.slots), [*decisions.blocks]
        coupled = any(name.startswith(("blocks:", "copies:")) for name in self._named)
        for at, pool in enumerate(self._pools):
            needed = min(beside[at], needs[at] + pool.reserved) if coupled else beside[at]
            beside[at] = 0 if pool.name in self._shares else needed
        for at, pool in enumerate(self._pools):
            share = self._shares.get(pool.name)
            if share is None or not self._may_be_less(at, decisions, raws, needs):
                continue
            for rank, quota in enumerate(quotas):
                layout = self._layout_at(rank, quota)
                free = self._free(rank, quota, sum(pools_bytes(layout, beside)), decisions, kept)
                rest = min([left for phase, left in free if phase != "load"])
                taken = pools_bytes(layout, decisions.blocks)[at]
                if taken > max(0, share * rest // 1):
                    name = self.problem.ranks[rank].name
                    yield f"pool {pool.name} takes {taken} of {rest} B on {name}, above {share}"

    def _may_be_less(
        self, at: int, decisions: Decisions, raws: list[list[int]], needs: list[int]
    ) -> bool:
        """Whether a step of a pool's blocks less keeps every rule and every goal."""
        pool, blocks = self._pools[at], [*decisions.blocks]
        blocks[at] -= pool.multiple
        less = self._values(decisions._replace(blocks=tuple(blocks)), raws)
        if blocks[at] - pool.reserved < needs[at] or any(self._linear(less)):
            return False
        values = self._values(decisions, raws)
        return all(goal.value(less) >= goal.value(values) for goal in self.problem.goals)
