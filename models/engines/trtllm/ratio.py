"""How KVCacheManagerV2 splits a quota: a ratio by bytes, then whole grains, then slots.

(_storage_manager.py: ratio_from_batch, pool_group_ratio; _storage/_core.py:
ratio_to_slot_count_list, _grains_to_slots)
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvplan.models.engines.trtllm.cycles import PoolGroup
from kvplan.models.engines.trtllm.manager import Ask, Constraint, Manager, granule_bytes
from kvplan.models.engines.trtllm.slots import batch_slots, cycle_floor, group_floor
from kvplan.models.errors import InvalidProblem

FALLBACK = Constraint((Ask(2049, 2048),))


def group_bytes(group: PoolGroup, slots: int, granule: int) -> int:
    """Bytes of so many slots, each pool rounded up to the granule."""
    return sum(-(-slots * size // granule) * granule for size in group.slot_sizes)


def planned_quota(manager: Manager, quota: int) -> int:
    """Bytes that are allocated: max(bytes of the least slots, the quota rounded up)."""
    granule = granule_bytes(quota)
    least = sum(
        group_bytes(group, group_floor(manager, group), granule) for group in manager.groups
    )
    return max(least, -(-quota // granule) * granule)


def group_ratios(manager: Manager, granule: int) -> list[Fraction]:
    """Share of each pool group.

    A given ratio by life cycle, the typical step, the constraints, or one request (2049, 2048), in
    this order; slots of each life cycle in bytes rounded up to the granule, summed by group.
    """
    if manager.cycle_ratio is not None:
        weights = iter(manager.cycle_ratio)
        shares = {cycle: next(weights) for cycle in manager.cycles}
        found = [sum((shares[c] for c in group.cycles), Fraction(0)) for group in manager.groups]
    else:
        found = [
            Fraction(sum(_weight(manager, group, index, granule) for index in range(_size(group))))
            for group in manager.groups
        ]
    total = sum(found)
    return [share / total for share in found]


def _size(group: PoolGroup) -> int:
    return len(group.cycles)


def _weight(manager: Manager, group: PoolGroup, index: int, granule: int) -> int:
    cycle = group.cycles[index]
    if manager.typical is not None:
        slots = batch_slots(manager, cycle, manager.typical)
    elif manager.constraints:
        slots = cycle_floor(manager, cycle, group)
    else:
        slots = batch_slots(manager, cycle, FALLBACK)
    return group_bytes(group, slots, granule)


def slot_counts(manager: Manager, quota: int) -> list[int]:
    """Slots of each pool group for a quota.

    Groups in ascending ratio take round(grains left x ratio / ratio left) grains; those that come
    out at or below their floor (or at their limit) are pinned there and the others split again.

    Raises
    ------
    InvalidProblem : a limit below a floor, or a group that the ratio leaves nothing for.
    """
    granule = granule_bytes(quota)
    groups, ratios = manager.groups, group_ratios(manager, granule)
    floors = [group_floor(manager, group) for group in groups]
    _check(groups, floors, ratios)
    grains = planned_quota(manager, quota) // granule
    held: dict[int, int] = {}
    open_ones = list(range(len(groups)))
    while open_ones:
        split = _split(groups, ratios, open_ones, grains, granule)
        pinned = {i: _pinned(groups[i], split[i], floors[i]) for i in open_ones}
        fixed = {i: slots for i, slots in pinned.items() if slots is not None}
        if not fixed:
            held |= split
            break
        for i, slots in fixed.items():
            used = group_bytes(groups[i], slots, granule) // granule
            grains -= used
            held[i] = _largest(groups[i], used, granule)
        open_ones = [i for i in open_ones if i not in fixed]
    return [_limited(groups[i], held[i]) for i in range(len(groups))]


def _check(groups: Sequence[PoolGroup], floors: Sequence[int], ratios: Sequence[Fraction]) -> None:
    """Refuse what the engine asserts: limits above the floors, and a share for each group."""
    for group, floor, ratio in zip(groups, floors, ratios, strict=True):
        if group.max_slots is not None and group.max_slots < floor:
            expected = f"at least the floor {floor}"
            raise InvalidProblem.at("max_slots", expected, str(group.max_slots))
        if not ratio:
            raise InvalidProblem.at("typical step", "a share for each pool group", "none for one")


def _split(
    groups: Sequence[PoolGroup],
    ratios: Sequence[Fraction],
    members: Sequence[int],
    grains: int,
    granule: int,
) -> dict[int, int]:
    """Deal grains to groups in ascending ratio; only those that slots use are gone."""
    left = sum((ratios[i] for i in members), Fraction(0))
    found = {}
    for i in sorted(members, key=lambda one: ratios[one]):
        share = round(grains * ratios[i] / left)
        found[i] = _largest(groups[i], share, granule)
        grains -= group_bytes(groups[i], found[i], granule) // granule
        left -= ratios[i]
    return found


def _pinned(group: PoolGroup, slots: int, floor: int) -> int | None:
    if slots <= floor:
        return floor
    return group.max_slots if group.max_slots is not None and slots >= group.max_slots else None


def _limited(group: PoolGroup, slots: int) -> int:
    return slots if group.max_slots is None else min(slots, group.max_slots)


def _largest(group: PoolGroup, grains: int, granule: int) -> int:
    """Most slots whose pools fit in so many grains, one grain each at least."""
    low, high = 0, grains * granule // min(group.slot_sizes)
    while low < high:
        middle = (low + high + 1) // 2
        if group_bytes(group, middle, granule) <= grains * granule:
            low = middle
        else:
            high = middle - 1
    return low
