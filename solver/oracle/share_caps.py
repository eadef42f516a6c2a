"""Share caps of the fill, checked on a plan. A finding is (rule, where, text)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from kvplan.models.goals import Goal
from kvplan.models.pools import Pool
from kvplan.models.ranks import Rank
from kvplan.models.units import exact_bytes
from kvplan.solver.oracle import rules
from kvplan.solver.oracle.linear import goal_form
from kvplan.solver.oracle.memory import pool_bytes, quota_of, staging_bytes, usage
from kvplan.solver.oracle.replay import Replay


def shares(replay: Replay) -> Iterator[rules.Found]:
    """Usable blocks of a pool of `fill: {shares}` stay, on each rank, within its share of the rest.

    A share caps what fill gives: a pool that a goal raised, or that may not have fewer blocks, may
    lie above it.
    """
    share_of = _shares(replay)
    for pool in replay.problem.pools:
        if pool.name not in share_of or not _may_shrink(replay, pool):
            continue
        for rank in replay.problem.ranks:
            cap = max(0, math.floor(share_of[pool.name] * _rest(replay, rank, set(share_of))))
            quota, allocated = quota_of(rank).bytes, replay.plan.blocks[pool.name]
            taken = pool_bytes(pool, rank, quota, allocated)
            taken -= pool_bytes(pool, rank, quota, pool.reserved_blocks)
            if taken > cap:
                text = f"expected at most {exact_bytes(cap)}, got {exact_bytes(taken)}"
                yield "shares", f"{pool.name}/{rank.name}", text


def _shares(replay: Replay) -> Mapping[str, Fraction]:
    fill = replay.problem.fill
    return {} if fill is None else fill.shares or {}


def _may_shrink(replay: Replay, pool: Pool) -> bool:
    """Whether a pool could have a step of blocks less, every rule kept and every goal reached."""
    problem = replay.problem
    reached = [_value(replay, goal) for goal in problem.goals]
    for blocks in _with_fewer(replay, pool):
        less = Replay(problem, replay.plan.model_copy(update={"blocks": blocks}))
        broken = (
            *rules.blocks(problem, less.plan),
            *rules.floors(less),
            *rules.running(less),
            *rules.constraints(less),
            *rules.quotas(less),
        )
        values = [_value(less, goal) for goal in problem.goals]
        if not broken and all(now >= was for now, was in zip(values, reached, strict=True)):
            return True
    return False


def _with_fewer(replay: Replay, pool: Pool) -> Iterator[dict[str, int]]:
    """Blocks with a step of one pool less; alone, or made up for by another that shares a goal.

    Not by a pool whose share comes first: that one has taken what it may already.
    """
    blocks = dict(replay.plan.blocks)
    blocks[pool.name] -= pool.multiple_of
    yield blocks
    order = list(_shares(replay))
    earlier = order[: order.index(pool.name)]
    for goal in replay.problem.goals:
        lost = goal.maximize.get(f"blocks:{pool.name}", 0) * pool.multiple_of
        for other in replay.problem.pools:
            weight = goal.maximize.get(f"blocks:{other.name}", 0)
            if other is not pool and other.name not in earlier and weight > 0 and lost > 0:
                steps = math.ceil(lost / weight / other.multiple_of)
                yield {**blocks, other.name: blocks[other.name] + steps * other.multiple_of}


def _value(replay: Replay, goal: Goal) -> Fraction:
    form = goal_form(goal)
    return form.value({name: replay.value(name) for name in form.weights})


def _rest(replay: Replay, rank: Rank, sharing: set[str]) -> int:
    """What all but the sharing pools leave of a rank: the least over its phases but load.

    Reserved blocks of the sharing pools are not shared out. Slots kept in prefill count at their
    fewest. Constraints and goals may tie other pools to these; then the others count at their
    floors, and the rest is no smaller than what was shared.
    """
    problem, plan, quota = replay.problem, replay.plan, quota_of(rank)
    reserved = {pool.name: pool.reserved_blocks for pool in problem.pools}
    beside = {n: reserved[n] if n in sharing else count for n, count in plan.blocks.items()}
    tied = [name for each in problem.constraints for name in each.terms]
    tied += [name for goal in problem.goals for name in goal.maximize]
    if any(name.startswith(("blocks:", "copies:")) for name in tied):
        for name in beside.keys() - sharing:
            beside[name] = min(beside[name], plan.floors[name] + reserved[name])
    fewest = replace(replay.residents, allocated=beside, slots_in_prefill=_fewest(replay))
    used = usage(problem, rank, fewest)
    left = [quota.bytes - used[phase] for phase in problem.phases if phase != "load"]
    if quota.physical is not None:
        contexts = replay.residents.contexts
        staging = staging_bytes(problem, rank.stage, plan.prefill_chunk, contexts)
        for phase in problem.phases:
            if phase != "load":
                left.append(quota.physical - used[phase] - (0 if phase == "prefill" else staging))
    return min(left)


def _fewest(replay: Replay) -> int | None:
    """Slots that prefill must be left with."""
    experts, slots = replay.problem.experts, replay.plan.expert_slots
    if experts is None or slots is None:
        return None
    if experts.lend is None:
        return slots
    return min(slots, max(experts.lend.keep, math.ceil(slots * (1 - experts.lend.fraction))))
