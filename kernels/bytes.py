"""Bytes of blocks and slots on one rank, and how many fit in a limit."""

from __future__ import annotations

from kvplan.kernels.instance import Buffers, ExpertRule

_PAGES_TRIED = 4  # a page at a time from below: enough where the granules are alike


def paged(total_bytes: int, granule: int) -> int:
    """Round an allocation up to its granule."""
    return -(-total_bytes // granule) * granule


def pool_bytes(allocated_blocks: int, buffers: Buffers) -> int:
    """Sum over the buffers of ceil(n x bytes / granule) x granule."""
    total = 0
    for size, granule in buffers:
        total += -(-allocated_blocks * size // granule) * granule
    return total


def most_blocks(limit: int, buffers: Buffers) -> int:
    """Largest n with pool_bytes(n) <= limit; -1 when not even 0 blocks fit."""
    if limit < 0:
        return -1
    if len(buffers) == 1:
        size, granule = buffers[0]
        return limit // granule * granule // size
    block = rounding = 0
    for size, granule in buffers:
        block += size
        rounding += granule - 1
    # Rounding takes less than one granule a buffer, so the answer lies in between.
    low, high = (limit - rounding) // block, limit // block
    if low < 0:
        low = 0
    for _ in range(_PAGES_TRIED):
        low = last_in_pages(low, buffers) + 1
        if pool_bytes(low, buffers) > limit:
            return low - 1
    while low < high:
        middle = (low + high + 1) // 2
        if pool_bytes(middle, buffers) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def last_in_pages(held: int, buffers: Buffers) -> int:
    """Most blocks that fit in the pages of some blocks."""
    size, granule = buffers[0]
    last = -(-held * size // granule) * granule // size
    for size, granule in buffers[1:]:
        most = -(-held * size // granule) * granule // size
        if most < last:
            last = most
    return last


def slot_bytes(slots: int, sizes: tuple[tuple[int, int], ...]) -> int:
    """Bytes of the first `slots` slots of one layer; the last size is open-ended."""
    total, left = 0, slots
    for count, size in sizes[:-1]:
        taken = min(left, count)
        total += taken * size
        left -= taken
    return total + left * sizes[-1][1]


def expert_bytes(slots: int, layers: int, experts: ExpertRule) -> int:
    """Bytes of all layers' slots on a rank: one allocation, rounded up to the granule."""
    return paged(layers * slot_bytes(slots, experts.sizes), experts.granule)


def most_slots(limit: int, layers: int, experts: ExpertRule) -> int:
    """Most slots of each of `layers` layers within a limit; -1 when not even 0 fit."""
    if limit < 0:
        return -1
    left = limit // experts.granule * experts.granule // layers
    slots = 0
    for count, size in experts.sizes[:-1]:
        if left < count * size:
            return slots + left // size
        slots, left = slots + count, left - count * size
    return slots + left // experts.sizes[-1][1]


def least_kept(slots: int, experts: ExpertRule) -> int:
    """Slots that stay during prefill at least: max(min(E, keep), E - floor(fraction x E))."""
    lent = slots * experts.lend_num // experts.lend_den
    return max(min(slots, experts.keep), slots - lent)
