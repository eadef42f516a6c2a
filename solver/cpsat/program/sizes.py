"""Bytes on one rank in one phase, and how much fits in a limit, in plain integers."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.instance import Budget, Buffers, Instance, Part
from kvplan.kernels.values import Point


def budget_bytes(instance: Instance, budget: Budget, point: Point) -> int:
    """What a budget takes at a point, fixed consumers apart."""
    slots = point.kept if budget.lent else point.experts
    taken = pools_bytes(instance, budget, point.usable) + slots_bytes(
        instance, slots, budget.layers
    )
    taken += budget.staging[point.chunk] if budget.staging else 0
    taken += followed_bytes(budget, point.chunk, point.capacities)
    return taken + sum([budget.options[i][option] for i, option in enumerate(point.options)])


def pools_bytes(instance: Instance, budget: Budget, usable: Sequence[int]) -> int:
    """What all pools take of a budget."""
    taken = 0
    for pool, blocks, buffers in zip(instance.pools, usable, budget.pools, strict=False):
        taken += pool_bytes(blocks + pool.reserved, buffers)
    return taken


def pool_bytes(allocated: int, buffers: Buffers) -> int:
    """Sum over the buffers of ceil(n x bytes / granule) x granule, or the next power of two."""
    return sum([allocation(allocated * size, granule) for size, granule in buffers])


def allocation(needed: int, granule: int) -> int:
    """Whole granules; a power of two where there is none (POW2)."""
    if granule:
        return -(-needed // granule) * granule
    return 2 ** (needed - 1).bit_length() if needed > 0 else 0


def blocks_within(limit: int, buffers: Buffers) -> int:
    """The most blocks whose bytes stay within a limit; below 0 where none does.

    All buffers round up by less than a granule each, or to less than twice their bytes: the answer
    lies between two quotients.
    """
    block = sum([size for size, _ in buffers])
    most = sum([size if granule else 2 * size for size, granule in buffers])
    low = max(-1, (limit - sum([granule - 1 for _, granule in buffers if granule])) // most)
    high = max(low, limit // block)
    while low < high:
        middle = (low + high + 1) // 2
        if pool_bytes(middle, buffers) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def followed_bytes(budget: Budget, chunk: int, capacities: Sequence[int]) -> int:
    """What the workspaces of a budget take; of the parts of each the largest counts.

    Parameters
    ----------
    chunk : its index.
    capacities : tokens by variable request.
    """
    taken = 0
    for workspace in budget.workspaces:
        tokens = capacities[workspace.fitted]
        taken += max([_part_bytes(part, chunk, tokens) for part in workspace.parts])
    return taken


def _part_bytes(part: Part, chunk: int, tokens: int) -> int:
    linear = part.bases[chunk] + part.slopes[chunk] * tokens
    listed = [size for most, size in part.table if most >= tokens][:1]
    return allocation(-(-linear // part.den) + sum(listed), part.granule)


def tokens_within(budget: Budget, limit: int, capacities: Sequence[int], fitted: int) -> int:
    """The most tokens of one request whose staging stays within a limit at the smallest chunk.

    Parameters
    ----------
    capacities : tokens by variable request; of this one the most that is asked.
    """
    low, high = 0, capacities[fitted]
    while low < high:
        middle = (low + high + 1) // 2
        at = [*capacities[:fitted], middle, *capacities[fitted + 1 :]]
        if followed_bytes(budget, 0, at) <= limit:
            low = middle
        else:
            high = middle - 1
    return low


def slots_bytes(instance: Instance, slots: int, layers: int) -> int:
    """One allocation for the first slots of every layer, rounded up to the granule."""
    experts = instance.experts
    if experts is None or not layers:
        return 0
    one_layer = one_layer_bytes(experts.sizes, slots)
    return -(-one_layer * layers // experts.granule) * experts.granule


def one_layer_bytes(sizes: Sequence[tuple[int, int]], slots: int) -> int:
    """The first slots of one layer; the last size is open-ended."""
    taken, left = 0, slots
    for count, size in sizes[:-1]:
        taken += min(left, count) * size
        left -= min(left, count)
    return taken + left * sizes[-1][1]


def fewest_kept(instance: Instance, slots: int) -> int:
    """Slots that stay during prefill at least: max(min(E, keep), E - floor(fraction x E))."""
    experts = instance.experts
    if experts is None:
        return 0
    return max(min(slots, experts.keep), slots - slots * experts.lend_num // experts.lend_den)


def slots_within(instance: Instance, limit: int, layers: int, low: int) -> int:
    """The most slots whose bytes stay within a limit; below `low` where not even those do."""
    assert instance.experts is not None
    smallest = min([size for _, size in instance.experts.sizes])
    high = max(low - 1, limit // (smallest * layers))
    low -= 1
    while low < high:
        middle = (low + high + 1) // 2
        if slots_bytes(instance, middle, layers) <= limit:
            low = middle
        else:
            high = middle - 1
    return low
