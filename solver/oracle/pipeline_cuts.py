"""Pipeline partitions by enumeration: every cut, and every order of the stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, permutations


def every_cut(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Layers by stage, each stage with at least one."""
    for cuts in combinations(range(1, layers), stages - 1):
        yield tuple(end - start for start, end in pairwise((0, *cuts, layers)))


def blocks_of(
    layers: Sequence[tuple[int, Sequence[int]]],
    quotas: Sequence[int],
    counts: Sequence[int],
    ends: tuple[int, int] = (0, 0),
    draft: Sequence[int] = (),
) -> int:
    """Blocks that the poorest stage holds, layer by layer; -1 where not even its layers fit.

    Parameters
    ----------
    layers : (weights, bytes of a block by cache) of each; a block is used by one cache at a time.
    quotas : bytes by stage, in pipeline order.
    ends : bytes beside the first and the last stage.
    draft : bytes of a block beside the last stage, by cache.
    """
    held, queue = [], list(layers)
    for position, (quota, count) in enumerate(zip(quotas, counts, strict=True)):
        mine, queue = queue[:count], queue[count:]
        left = quota - sum(weights for weights, _ in mine)
        left -= ends[0] if position == 0 else 0
        left -= ends[1] if position == len(counts) - 1 else 0
        caches = len(mine[0][1])
        widths = [sum(blocks[cache] for _, blocks in mine) for cache in range(caches)]
        if draft and position == len(counts) - 1:
            widths = [width + own for width, own in zip(widths, draft, strict=True)]
        if left < 0:
            return -1
        if max(widths):
            held.append(left // max(widths))
    return min(held, default=0)


def best_blocks(
    layers: Sequence[tuple[int, Sequence[int]]],
    quotas: Sequence[int],
    ends: tuple[int, int] = (0, 0),
    draft: Sequence[int] = (),
) -> tuple[int, int]:
    """The most blocks over all cuts, and the fewest layer bytes of a largest stage with them."""
    found = []
    for counts in every_cut(len(layers), len(quotas)):
        queue, largest = [weights for weights, _ in layers], 0
        for count in counts:
            largest, queue = max(largest, sum(queue[:count])), queue[count:]
        found.append((blocks_of(layers, quotas, counts, ends, draft), -largest))
    blocks, largest = max(found)
    return blocks, -largest


def best_in_any_order(
    layers: Sequence[tuple[int, Sequence[int]]],
    quotas: Sequence[int],
    ends: tuple[int, int] = (0, 0),
) -> int:
    """The most blocks over all cuts and all orders of the stages."""
    return max(best_blocks(layers, order, ends)[0] for order in permutations(quotas))
