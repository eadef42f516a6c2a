"""The best packed block under a cap on groups: parts compete for groups, so they are joined."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.pages import copies_held
from kvplan.solver.layout.found import Objective, Rank, Seen, first_best
from kvplan.solver.layout.kinds import Array
from kvplan.solver.layout.packed.packed_options import Options

SLICE = 1024
"""Blocks that are joined at a time, those of the least bound first."""


class ByGroups(NamedTuple):
    """One part's options at every block: [groups, key].

    Attributes
    ----------
    groups : [groups], ascending.
    blocks : of the option with so many groups that fits and needs the fewest; else `never`.
    at : index of that option.
    """

    groups: Array
    blocks: Array
    at: Array


def _never(options: Sequence[Options]) -> int:
    """Blocks that stand for an option that does not fit: more than any choice needs."""
    return 1 + sum(int(each.blocks.max()) for each in options)


Ranks = Callable[[Array, Array], tuple[Array, Array]]
"""From keys and blocks to rank and bytes at each key, were its block filled."""


def choose_within_cap(
    options: Sequence[Options], ranks: Ranks, seen: Seen, cap: int
) -> list[int] | None:
    """Choose one option a part, of at most `cap` groups together; None where none fit.

    For a block given, least[c] = fewest blocks of the parts so far within c groups; a part joins by
    min over its groups g of least[c - g] + blocks(g). Without the cap the sum of each part's
    fewest blocks is a bound.
    """
    if cap < len(options):
        return None
    cap = min(cap, sum(int(each.groups.max()) for each in options))
    keys = np.unique(np.concatenate([each.keys for each in options]))
    never = _never(options)
    tables = [_by_groups(each, keys, never) for each in options]
    loosest: Any = sum(table.blocks.min(axis=0) for table in tables)
    keep = loosest < never
    keys, loosest = keys[keep], loosest[keep]
    tables = [t._replace(blocks=t.blocks[:, keep], at=t.at[:, keep]) for t in tables]
    bounds, _ = ranks(keys, loosest)
    order = np.argsort(bounds, kind="stable")
    best: tuple[Rank, int] | None = None
    for start in range(0, len(order), SLICE):
        places = order[start : start + SLICE]
        if best is not None:
            reached = bounds[places] <= best[0][0]
            seen.pruned["bound"] += int((~reached).sum())
            places = places[reached]
        if len(places):
            seen.evaluated += len(places)
            found = _best_of(tables, keys, places, ranks, cap, never)
            best = found if best is None or (found is not None and found < best) else best
    return None if best is None else _joined(tables, best[1], cap, never)


def ranks_of(objective: Objective, own_bytes: int) -> Ranks:
    """Rank by what counts: exact for the best one.

    Parameters
    ----------
    own_bytes : in pools of their own, on every stage.
    """

    def ranks(keys: Array, blocks: Array) -> tuple[Array, Array]:
        if len(set(objective.quotas)) > 1:
            return -np.maximum((-keys - objective.reserved) // blocks, 0), blocks
        taken = keys * blocks + own_bytes
        if not objective.quotas:
            return taken, taken
        copies = copies_held(objective.quotas[0], keys, objective.reserved, blocks, own_bytes)
        return -np.maximum(copies, 0), taken

    return ranks


def _by_groups(options: Options, keys: Array, never: int) -> ByGroups:
    counts = np.unique(options.groups)
    blocks = np.full((len(counts), len(keys)), never, dtype=options.blocks.dtype)
    at: Array = np.zeros((len(counts), len(keys)), dtype=np.int64)
    for row, count in enumerate(counts):
        mine = np.flatnonzero(options.groups == count)
        mine = mine[np.argsort(options.keys[mine], kind="stable")]
        place: Array = np.searchsorted(options.keys[mine], keys, side="right") - 1
        fits = place >= 0
        at[row, fits] = mine[place[fits]]
        blocks[row, fits] = options.blocks[at[row, fits]]
    return ByGroups(counts, blocks, at)


def _best_of(
    tables: Sequence[ByGroups],
    keys: Array,
    places: Array,
    ranks: Ranks,
    cap: int,
    never: int,
) -> tuple[Rank, int] | None:
    """Rank and key of the best among some blocks."""
    least = np.zeros((cap + 1, len(places)), dtype=tables[0].blocks.dtype)
    for table in tables:
        joined = np.full_like(least, never)
        for count, row in zip(table.groups, table.blocks[:, places], strict=True):
            if count <= cap:
                np.minimum(joined[count:], least[: cap + 1 - count] + row, out=joined[count:])
        least = joined
    blocks = least.min(axis=0)
    fits = np.flatnonzero(blocks < never)
    if not len(fits):
        return None
    groups = np.argmax(least == blocks, axis=0)[fits]
    primary, taken = ranks(keys[places[fits]], blocks[fits])
    at = first_best(primary, taken, groups, keys[places[fits]])
    rank = (int(primary[at]), int(taken[at]), int(groups[at]), int(keys[places[fits[at]]]))
    return rank, int(places[fits[at]])


def _joined(tables: Sequence[ByGroups], place: int, cap: int, never: int) -> list[int] | None:
    """The options of the fewest blocks at one key, then of the fewest groups."""
    ways: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for table in tables:
        more: dict[int, tuple[int, list[int]]] = {}
        for used, (blocks, chosen) in ways.items():
            for row, count in enumerate(table.groups):
                total, added = used + int(count), int(table.blocks[row, place])
                if total > cap or added >= never:
                    continue
                way = (blocks + added, [*chosen, int(table.at[row, place])])
                if total not in more or way[0] < more[total][0]:
                    more[total] = way
        ways = more
    best = min(((way[0], used) for used, way in ways.items()), default=None)
    return None if best is None else ways[best[1]][1]
