"""Every rule that a plan must keep, one line for each that it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank
from kvplan.models.units import exact_bytes
from kvplan.solver.check.needs import BatchNeed, SplitNeed, alone, rules_of, structural_floors
from kvplan.solver.check.phase_bytes import (
    auto_granule,
    is_too_large,
    layer_bytes,
    layouts_of,
    limits_of,
    pool_bytes,
    quota_of,
    slots_bytes,
    staging_bytes,
)
from kvplan.solver.check.ranges import (
    contexts_of,
    expert_faults,
    fitted_of,
    is_candidate,
    least_kept,
)

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
    scale: Fraction | None = None  # of the mix that fill has
    running: int | None = None  # requests that bytes of each are there for


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
        self.problem, pools, self._granules = problem, problem.pools, granules
        rules, use = rules_of(problem), problem.resume_utilization.as_integer_ratio()
        self._floors = [*map(max, structural_floors(rules), [pool.min_blocks for pool in pools])]
        if floors:
            held = [floors.get(pool.name, 0) for pool in pools]
            self._floors = [*map(max, self._floors, held)]
        self._use = [use if pool.resume_headroom else (1, 1) for pool in pools]
        self._batches = [
            SplitNeed(problem, rules, batch) if batch.is_partial else BatchNeed(rules, batch)
            for batch in problem.batches
        ]
        self._fitted = [
            fitted_of(batch, i) for batch in problem.batches for i in batch.given.fitted
        ]
        follows = problem.prefill is not None and not all(rule.flight for rule in rules.every)
        self._in_flight = problem.prefill.batches_in_flight if problem.prefill and follows else 0
        figures, phases, fill = [pool.figures for pool in pools], problem.phases, problem.fill
        self._limits = [[*limits_of(problem, rank, phases)] for rank in problem.ranks]
        self._layouts = layouts_of(figures, problem.ranks)
        written = [each.buffers for each in figures if each.plain is None]
        self._has_auto = "auto" in [granule for buffers in written for _, granule in buffers]
        self._limited = [at for at, each in enumerate(figures) if each.limited]
        self._runs, self._contexts = problem.counts_running, contexts_of(problem)
        if self._runs:  # running requests are counted as one more pool's blocks
            self._floors.append(0)
            self._use.append((1, 1))
        self._shares, self._filled = (fill.shares or {}, fill.batch) if fill else ({}, None)
        self._mix = [
            (each.share, BatchNeed(rules, alone(each))) for each in (fill and fill.mix) or ()
        ]

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
        quotas = [quota_of(rank) for rank in problem.ranks] if quotas is None else quotas
        values = self._values(decisions, raws) if problem.constraints or problem.fill else {}
        held = None if self._filled is None else values[f"copies:{self._filled}"]
        found += [*self._short(decisions.blocks, needs), *self._linear(values)]
        if decisions.running is not None and decisions.running < needs[-1]:
            found.append(f"{needs[-1]} requests run at once, not {decisions.running}")
        if decisions.copies != held:
            found.append(f"the blocks hold {held} copies of the fill batch, not {decisions.copies}")
        if self._mix or decisions.scale is not None:
            found += self._over_mix(decisions)
        for rank, phase, free in self._free(decisions, quotas):
            if free < 0:
                over = exact_bytes(-free)
                found.append(f"rank {rank.name} exceeds its quota by {over} in {phase}")
        if self._shares:
            found += self._over_shares(decisions, quotas, raws, needs)
        return found

    def _ranges(self, decisions: Decisions) -> Iterator[str]:
        """Fitted requests, chunk, options and slots are among those allowed."""
        for fitted, sizes in zip(self._fitted, decisions.fitted, strict=True):
            yield from fitted.faults(*sizes)
        if not is_candidate(self.problem.prefill, decisions.chunk):
            yield f"a chunk of {decisions.chunk} tokens is not a candidate"
        for choice, option in zip(self.problem.choices, decisions.options, strict=True):
            if not 0 <= option < len(choice.options):
                yield f"choice {choice.name} has no option {option}"
        yield from expert_faults(self.problem.experts, decisions.slots, decisions.kept)
        if (decisions.running is not None) != self._runs:
            expected = "a count" if self._runs else "none"
            yield f"{decisions.running} running requests, expected {expected}"

    def _needs(self, decisions: Decisions) -> tuple[list[list[int]], list[int]]:
        """Raw blocks by batch and pool; usable ones: ceil(raw / utilization) of the largest."""
        flight, raws = (decisions.chunk or 0) * self._in_flight, []
        loads = [
            (capacity, capacity - each.flight, count)
            for (capacity, count), each in zip(decisions.fitted, self._fitted, strict=True)
        ]
        for batch in self._batches:
            raws.append(batch.raw(loads[: batch.fitted], flight))
            del loads[: batch.fitted]
        if self._runs:
            counts = [count for _, count in decisions.fitted]
            for at, asked in enumerate(self.problem.batches):
                given, mine = asked.given, len(asked.given.fitted)
                raws[at] = [*raws[at], sum(given.counts) + sum(counts[:mine])]
                del counts[:mine]
        most = [max(column) for column in zip(*raws, strict=True)] or [0] * len(self._use)
        pools = zip(self._floors, most, self._use, strict=True)
        return raws, [max(floor, -(-raw * den // num)) for floor, raw, (num, den) in pools]

    def _short(self, blocks: Sequence[int], needs: Sequence[int]) -> Iterator[str]:
        """Usable blocks of every pool serve the batches and obey its limits."""
        for pool, need, allocated in zip(self.problem.pools, needs, blocks, strict=False):
            usable, most = allocated - pool.reserved_blocks, pool.max_blocks
            if usable < need:
                yield f"pool {pool.name} has {usable} usable blocks, {need} are needed"
            if usable % pool.multiple_of or (most is not None and usable > most):
                yield f"pool {pool.name} has {usable} blocks: not a multiple, or above max_blocks"
        for at in self._limited:
            pool = self.problem.pools[at]
            if is_too_large(pool, self.problem.ranks, blocks[at]):
                yield f"pool {pool.name} has {blocks[at]} blocks, above max_bytes of a buffer"

    def _values(self, decisions: Decisions, raws: list[list[int]]) -> dict[str, int]:
        """Every variable of a goal or constraint; copies = min floor(usable x use / raw)."""
        problem, pairs = self.problem, zip(self.problem.pools, decisions.blocks, strict=True)
        values = {f"blocks:{pool.name}": n - pool.reserved_blocks for pool, n in pairs}
        held = [*values.values(), *([] if decisions.running is None else [decisions.running])]
        usable = [*zip(held, self._use, strict=True)]
        values |= {"prefill": decisions.chunk or 0, "experts": decisions.slots or 0}
        for batch, raw in zip(problem.batches, raws, strict=True):
            pools = [
                (n * num, need * den) for (n, (num, den)), need in zip(usable, raw, strict=True)
            ]
            copies = min([n // need for n, need in pools if need], default=0)
            values[f"copies:{batch.name}"] = copies
        for each, sizes in zip(self._fitted, decisions.fitted, strict=True):
            kind = "count" if each.is_count else "capacity"
            values[f"{kind}:{each.name}"] = sizes[each.is_count]
        for choice, picked in zip(problem.choices, decisions.options, strict=True):
            values[f"choice:{choice.name}"] = -picked
            for at, option in enumerate(choice.options):
                values[f"choice:{choice.name}={option.name}"] = int(at == picked)
        return values

    def _over_mix(self, decisions: Decisions) -> Iterator[str]:
        """The scale is what the blocks hold of the mix; None without one."""
        scale = self._scale(decisions) if self._mix else None
        if decisions.scale != scale:
            yield f"the blocks hold {scale} of the fill mix, not {decisions.scale}"

    def _scale(self, decisions: Decisions) -> Fraction:
        """min over pools of usable x use / sum(share x raw), of a mix alone."""
        flight = (decisions.chunk or 0) * self._in_flight
        raw = [Fraction(0)] * len(self.problem.pools)
        for share, need in self._mix:
            raw = [a + share * b for a, b in zip(raw, need.raw([], flight), strict=True)]
        rows = zip(self.problem.pools, decisions.blocks, raw, self._use, strict=False)
        held = [(n - p.reserved_blocks) * num / (r * den) for p, n, r, (num, den) in rows if r]
        if decisions.running is not None:
            held.append(decisions.running / sum([share for share, _ in self._mix], Fraction(0)))
        return min(held)

    def _linear(self, values: Mapping[str, int]) -> Iterator[str]:
        """min <= sum(coefficient x variable) <= max."""
        for index, row in enumerate(self.problem.constraints):
            total, least, most = Fraction(0), row.min, row.max
            for name, weight in row.terms.items():
                total += weight * values[name]
            if (least is not None and total < least) or (most is not None and total > most):
                yield f"constraint {index} is {total}, outside {least} to {most}"

    def _auto(self, rank: Rank, quota: int) -> int:
        """Bytes of an "auto" granule: held, or by the quota."""
        return self._has_auto and (self._granules.get(rank.name) or auto_granule(quota))

    def _free(self, decisions: Decisions, quotas: Sequence[int]) -> Iterator[tuple[Rank, str, int]]:
        """What decisions leave of each limit of every rank, with its phase."""
        problem, experts = self.problem, self.problem.experts
        known: dict[tuple[int, int], int] = {}
        layers = [layer_bytes(experts, each) for each in (decisions.slots, decisions.kept)]
        running, sizes_of = decisions.running or 0, decisions.fitted
        contexts = [n if at is None else sizes_of[at][0] for n, at in self._contexts]
        rows = zip(problem.ranks, quotas, self._limits, self._layouts, strict=True)
        for rank, quota, limits, layout in rows:
            alike = id(layout), self._auto(rank, quota)
            if alike not in known:
                pools = zip(layout, decisions.blocks, strict=True)
                known[alike] = sum([pool_bytes(each, n, alike[1]) for each, n in pools])
            slots, kept = [slots_bytes(experts, rank, each) for each in layers]
            staging = staging_bytes(problem.prefill, rank, decisions.chunk, contexts)
            for phase, fixed, sizes, limit, is_staged, each in limits:
                free = (quota if limit is None else limit) - fixed - (staging if is_staged else 0)
                free -= each * running
                for by_option, option in zip(sizes, decisions.options, strict=True):
                    free -= by_option[option]
                if phase != "load":
                    free -= known[alike] + (kept if phase == "prefill" else slots)
                yield rank, phase, free

    def _over_shares(
        self, decisions: Decisions, quotas: Sequence[int], raws: list[list[int]], needs: list[int]
    ) -> Iterator[str]:
        """Usable blocks take at most floor(share x rest), unless need or a goal asks for more.

        The rest is what all but the pools with shares leave, with as few slots kept as may be;
        reserved blocks of these pools come first. Where constraints or goals count blocks, other
        pools are taken at their need alone.
        """
        problem, beside = self.problem, [*decisions.blocks]
        named = [name for each in problem.constraints for name in each.terms]
        named += [name for each in problem.goals for name in each.maximize]
        coupled = any(name.startswith(("blocks:", "copies:")) for name in named)
        for at, pool in enumerate(problem.pools):
            needed = needs[at] + pool.reserved_blocks if coupled else beside[at]
            is_shared = pool.name in self._shares
            beside[at] = pool.reserved_blocks if is_shared else min(beside[at], needed)
        kept = least_kept(problem.experts, decisions.slots)
        others = decisions._replace(blocks=tuple(beside), kept=kept)
        rests: dict[str, int] = {}
        for rank, phase, free in self._free(others, quotas):
            if phase != "load":
                rests[rank.name] = min(free, rests.get(rank.name, free))
        for at, pool in enumerate(problem.pools):
            share = self._shares.get(pool.name)
            if share is None or not self._may_be_less(at, decisions, raws, needs):
                continue
            for rank, quota, layout in zip(problem.ranks, quotas, self._layouts, strict=True):
                auto, rest = self._auto(rank, quota), rests[rank.name]
                taken = pool_bytes(layout[at], decisions.blocks[at], auto)
                taken -= pool_bytes(layout[at], pool.reserved_blocks, auto)
                if taken > max(0, share * rest // 1):
                    over = f"takes {taken} of {rest} B on {rank.name}, above {share}"
                    yield f"pool {pool.name} {over}"

    def _may_be_less(
        self, at: int, decisions: Decisions, raws: list[list[int]], needs: list[int]
    ) -> bool:
        """Whether a step of a pool's blocks less keeps every rule and every goal."""
        pool, blocks = self.problem.pools[at], [*decisions.blocks]
        blocks[at] -= pool.multiple_of
        less = self._values(decisions._replace(blocks=tuple(blocks)), raws)
        if blocks[at] - pool.reserved_blocks < needs[at] or any(self._linear(less)):
            return False
        values = self._values(decisions, raws)
        return all(goal.value(less) >= goal.value(values) for goal in self.problem.goals)
