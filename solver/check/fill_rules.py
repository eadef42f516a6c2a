"""What fill asks of a plan beside its goals: the scale of a mix, and shares of the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kvplan.models.demands import Batch, Request
from kvplan.models.problem import Problem
from kvplan.solver.check.needs import BatchNeed, Rule
from kvplan.solver.check.phase_bytes import RankLimits
from kvplan.solver.check.ranges import Decisions, least_kept

Mix = list[tuple[Fraction, BatchNeed]]
Uses = Sequence[tuple[int, int]]
"""Numerator and denominator of the utilization, by pool."""


def mix_of(problem: Problem, rules: Sequence[Rule], pools: int) -> Mix:
    """Shares of the lengths of a mix, each with the need of one such request alone."""
    mix: Mix = []
    for entry in (problem.fill and problem.fill.mix) or ():
        request = Request(capacity=entry.capacity, history=entry.history)
        alone = Batch(name="mix", requests=[request])
        mix.append((entry.share, BatchNeed(rules, pools, alone)))
    return mix


def scale_held(mix: Mix, flight: int, usable: Sequence[int], uses: Uses) -> Fraction | None:
    """min over pools of usable x use / sum(share x raw), of a mix alone; None without one."""
    if not mix:
        return None
    raw = [Fraction(0)] * len(usable)
    for share, need in mix:
        raw = [a + share * b for a, b in zip(raw, need.raw([], flight), strict=True)]
    rows = zip(usable, uses, raw, strict=True)
    return min([n * num / (each * den) for n, (num, den), each in rows if each])


def over_shares(
    problem: Problem,
    limits: RankLimits,
    decisions: Decisions,
    quotas: Sequence[int],
    needs: Sequence[int],
) -> Iterator[tuple[int, str]]:
    """Pools whose usable blocks take more than floor(share x rest) on a rank, one line each.

    The rest is what all but the pools with shares leave, with as few slots kept as may be;
    reserved blocks of these pools come first. Where constraints or goals count blocks, other
    pools are taken at their need alone.
    """
    shares = (problem.fill and problem.fill.shares) or {}
    named = [name for each in problem.constraints for name in each.terms]
    named += [name for each in problem.goals for name in each.maximize]
    coupled = any(name.startswith(("blocks:", "copies:")) for name in named)
    beside = []
    for pool, blocks, need in zip(problem.pools, decisions.blocks, needs, strict=False):
        needed = need + pool.reserved_blocks if coupled else blocks
        beside.append(pool.reserved_blocks if pool.name in shares else min(blocks, needed))
    kept = least_kept(problem.experts, decisions.slots)
    others = decisions._replace(blocks=tuple(beside), kept=kept)
    rests: dict[str, int] = {}
    for rank, phase, free in limits.free(others, quotas):
        if phase != "load":
            rests[rank.name] = min(free, rests.get(rank.name, free))
    for at, pool in enumerate(problem.pools):
        if pool.name not in shares:
            continue
        for index, (rank, quota) in enumerate(zip(problem.ranks, quotas, strict=True)):
            share, rest = shares[pool.name], rests[rank.name]
            taken = limits.taken(at, decisions.blocks[at], index, quota)
            taken -= limits.taken(at, pool.reserved_blocks, index, quota)
            if taken > max(0, share * rest // 1):
                over = f"takes {taken} of {rest} B on {rank.name}, above {share}"
                yield at, f"pool {pool.name} {over}"
