"""Slots that a batch needs, and the least a pool group has, as KVCacheManagerV2 counts them.

(_storage_manager.py: _compute_slots_for_batch, _compute_slots_from_constraints.) The problem has
the same floors; these are for the engine's ratios, which go by life cycle.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.models.engines.trtllm.cycles import LifeCycle, PoolGroup
from kvplan.models.engines.trtllm.manager import Ask, Constraint, Manager, batch_counts


def stale_range(cycle: LifeCycle, block: int, history: int) -> tuple[int, int]:
    """Blocks without a live page: [min(ceil(H/t), S), max(that, (H + 1 - W) // t))."""
    start = min(-(-history // block), cycle.sink_blocks(block))
    if cycle.window is None:
        return start, start
    return start, max(start, (history + 1 - cycle.window) // block)


def overlap(left: tuple[int, int], right: tuple[int, int]) -> int:
    """Blocks that two ranges have in common."""
    return max(0, min(left[1], right[1]) - max(left[0], right[0]))


def batch_slots(manager: Manager, cycle: LifeCycle, batch: Constraint) -> int:
    """Slots of a life cycle for a batch: shared prefix once, and each request's own blocks."""
    if cycle.state:
        return batch_counts(batch.requests)
    block, prefix = manager.block, (0, batch.shared_prefix // manager.block)
    ranges = [stale_range(cycle, block, ask.history) for ask in batch.requests]
    if not ranges:
        return 0
    common = max(start for start, _ in ranges), min(end for _, end in ranges)
    shared = prefix[1] - overlap(prefix, common)
    return shared + sum(ask.count * _own(manager, cycle, ask, prefix) for ask in batch.requests)


def _own(manager: Manager, cycle: LifeCycle, ask: Ask, prefix: tuple[int, int]) -> int:
    """Blocks of one request beside the prefix, those of scratch shared by layers."""
    stale = stale_range(cycle, manager.block, ask.history)
    blocks = -(-ask.capacity // manager.block)
    live_prefix = prefix[1] - overlap(prefix, stale)
    unique = max(0, blocks - (stale[1] - stale[0]) - live_prefix)
    if manager.max_rewind is None or cycle.window is None:
        return unique
    later = stale_range(cycle, manager.block, max(0, ask.capacity - manager.max_rewind))
    scratch = overlap(later, (-(-ask.history // manager.block), blocks))
    share = scratch * cycle.layer_share
    return unique - scratch - (-share.numerator // share.denominator)


def structural_floor(manager: Manager, cycle: LifeCycle) -> int:
    """Least slots: S + (W + t - 2) // t + 1; without a window the largest of those; a state 1."""
    windows = [
        one.sink_blocks(manager.block) + (one.window + manager.block - 2) // manager.block + 1
        for one in manager.cycles
        if one.window is not None
        if cycle.window is None or one == cycle
    ]
    return 1 if cycle.state else max(windows, default=1)


def divided(manager: Manager, slots: int, *, exempt: bool) -> int:
    """Slots so that at most the resume share of them is in use."""
    share = Fraction(slots) / (1 if exempt else manager.resume)
    return -(-share.numerator // share.denominator)


def cycle_floor(manager: Manager, cycle: LifeCycle, group: PoolGroup) -> int:
    """Least slots of a life cycle by itself: its own division, for ratios."""
    exempt = group.states_only and not manager.state_headroom
    needs = (batch_slots(manager, cycle, batch) for batch in manager.constraints)
    most = max((divided(manager, need, exempt=exempt) for need in needs), default=0)
    return max(structural_floor(manager, cycle), most)


def group_floor(manager: Manager, group: PoolGroup) -> int:
    """Least slots of a group: its life cycles summed first, one division, one ceil."""
    exempt = group.states_only and not manager.state_headroom
    sums = (
        sum(batch_slots(manager, cycle, batch) for cycle in group.cycles)
        for batch in manager.constraints
    )
    most = max((divided(manager, need, exempt=exempt) for need in sums), default=0)
    return max(sum(structural_floor(manager, cycle) for cycle in group.cycles), most)
