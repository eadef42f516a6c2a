"""Bytes of blocks and slots on one rank, and how many fit in a limit."""

from __future__ import annotations

from typing import Literal, Protocol

from kvplan.kernels.instance import ExpertRule

_PAGES_TRIED = 4  # a page at a time from below: enough where the granules are alike


class Growth(Protocol):
    """In place of a granule: bytes that are no multiple of the blocks.

    It is false as POW2 is, so that plain granules are told apart as fast as without it.
    """

    def __bool__(self) -> Literal[False]: ...

    def taken(self, count: int, /) -> int:
        """Bytes of a count; never less for more."""

    def most(self, limit: int, /) -> int:
        """The largest count within a limit; -1 where none is."""


Granule = int | Growth
Allocations = tuple[tuple[int, Granule], ...]
"""(block bytes, granule bytes) of every allocation, as `Buffers`, or blocks with a growth."""


def paged(total_bytes: int, granule: Granule) -> int:
    """Round an allocation up to its granule, or to a power of two (POW2); nothing stays nothing."""
    if granule:
        return -(-total_bytes // granule) * granule
    if not isinstance(granule, int):
        return granule.taken(total_bytes)
    return 1 << (total_bytes - 1).bit_length() if total_bytes else 0


def _whole_within(limit: int, granule: Granule) -> int:
    """The largest power of two within a limit, 0 where there is none; or what a growth has."""
    if not isinstance(granule, int):
        return granule.most(limit)
    return 1 << limit.bit_length() - 1 if limit else 0


def pool_bytes(allocated_blocks: int, buffers: Allocations) -> int:
    """Sum over the buffers of ceil(n x bytes / granule) x granule, or the next power of two."""
    total = 0
    for size, granule in buffers:
        taken = allocated_blocks * size
        total += -(-taken // granule) * granule if granule else paged(taken, granule)
    return total


def most_blocks(limit: int, buffers: Allocations) -> int:
    """Largest n with pool_bytes(n) <= limit; -1 when not even 0 blocks fit."""
    if limit < 0:
        return -1
    if len(buffers) == 1:
        size, granule = buffers[0]
        return (limit // granule * granule if granule else _whole_within(limit, granule)) // size
    block = doubled = rounding = 0
    for size, granule in buffers:
        block += size
        if granule:
            rounding += granule - 1
        else:
            doubled += size
    # Rounding takes less than one granule a buffer, or than the buffer, so n lies in between.
    low, high = (limit - rounding) // (block + doubled), limit // block
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


def last_in_pages(held: int, buffers: Allocations) -> int:
    """Most blocks that fit in the pages of some blocks."""
    size, granule = buffers[0]
    taken = held * size
    last = (-(-taken // granule) * granule if granule else paged(taken, granule)) // size
    for size, granule in buffers[1:]:
        taken = held * size
        most = (-(-taken // granule) * granule if granule else paged(taken, granule)) // size
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
