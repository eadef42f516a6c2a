"""Bytes of blocks and slots over arrays, and how many fit in a limit."""

from __future__ import annotations

from kvplan.kernels.arrays.arrays import Array, Arrays, Integers
from kvplan.kernels.instance import Buffers, ExpertRule
from kvplan.kernels.need import ceil_div


def rounded_up(value: Integers, multiple: int) -> Integers:
    """Round up to a multiple."""
    if multiple == 1:
        return value
    if multiple & (multiple - 1) == 0:
        return (value + (multiple - 1)) & -multiple
    return ceil_div(value, multiple) * multiple


def floor_units(value: Integers, unit: int) -> Integers:
    """floor(value / unit), a shift where it can be one."""
    return value >> (unit.bit_length() - 1) if unit & (unit - 1) == 0 else value // unit


def buffer_bytes(blocks: Integers, size: int, granule: int) -> Integers:
    """ceil(n x bytes / granule) x granule."""
    taken = blocks * size
    return taken if size % granule == 0 else rounded_up(taken, granule)


def pool_bytes(blocks: Integers, buffers: Buffers) -> Integers:
    """Bytes of all buffers of a pool with so many allocated blocks."""
    total: Integers = 0
    for size, granule in buffers:
        total = total + buffer_bytes(blocks, size, granule)
    return total


def most_blocks(arrays: Arrays, limit: Array, buffers: Buffers) -> Array:
    """Largest n with pool_bytes(n) <= limit; -1 when not even 0 blocks fit.

    Rounding takes less than one granule a buffer, so n lies in the few blocks between
    (limit - sum of granules) // s and limit // s, with s the sum of the block bytes.
    """
    together = sum(size for size, _ in buffers)
    if len(buffers) == 1:
        size, granule = buffers[0]
        most = (limit if granule == 1 else limit // granule * granule) // size
    else:
        high = limit // together
        slack = sum(g - 1 for size, g in buffers if size % g)
        low = arrays.greatest((limit - slack) // together, 0)
        for _ in range((slack // together + 1).bit_length()):
            middle = (low + high + 1) >> 1
            fits = pool_bytes(middle, buffers) <= limit
            low = arrays.pick(fits, middle, low)
            high = arrays.pick(fits, high, middle - 1)
        most = low
    return arrays.pick(limit < 0, -1, most)


def slot_bytes(arrays: Arrays, slots: Integers, sizes: tuple[tuple[int, int], ...]) -> Integers:
    """Bytes of the first `slots` slots of one layer; the last size is open-ended."""
    total: Integers = 0
    for number, size in sizes[:-1]:
        taken = arrays.smallest(slots, number)
        total = total + taken * size
        slots = slots - taken
    return total + slots * sizes[-1][1]


def expert_bytes(arrays: Arrays, slots: Integers, layers: int, experts: ExpertRule) -> Integers:
    """Bytes of all layers' slots on a rank: one allocation, rounded up to the granule."""
    return rounded_up(layers * slot_bytes(arrays, slots, experts.sizes), experts.granule)


def least_kept(arrays: Arrays, slots: Integers, experts: ExpertRule) -> Integers:
    """Slots that stay during prefill at least: max(min(E, keep), E - floor(fraction x E))."""
    lent = slots * experts.lend_num // experts.lend_den
    return arrays.greatest(arrays.smallest(slots, experts.keep), slots - lent)
