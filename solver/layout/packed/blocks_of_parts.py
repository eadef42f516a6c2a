"""Pages of several sizes side by side in a block: every block size that some groups can fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvplan.solver.layout.found import Found, Objective, Rank, Seen, first_best
from kvplan.solver.layout.layout_candidates import Arrangement
from kvplan.solver.layout.packed.capped import choose_within_cap
from kvplan.solver.layout.packed.dealing import dealt_best, fullest, is_settled, least_fullest
from kvplan.solver.layout.packed.packed_options import (
    Options,
    Proven,
    frontier,
    options_of,
    unit_pages,
)


def search_packed(
    arrangement: Arrangement, objective: Objective, seen: Seen, best: Rank | None
) -> Found | None:
    """Find the best block of an arrangement; None where nothing beats `best`.

    A smaller block that still fits the chosen groups costs less, so the best block is as large as
    some part's widest group. For a block given, parts are independent: each takes the groups and
    block tokens of the fewest blocks that fit. Where buckets of several pages share groups, the
    widest group stands at its lower bound until an answer uses it; then it is solved.
    """
    proven: Proven = {}
    options = [options_of(part, objective, proven) for part in arrangement.parts]
    spanned = sum(max(part.layers) * len(part.tokens) for part in arrangement.parts)
    seen.candidates += spanned
    seen.pruned["equal needs or groups"] += spanned - sum(len(each.keys) for each in options)
    while True:
        found = _best_block(options, arrangement, objective, seen)
        if found is None or (best is not None and found.rank >= best):
            return None
        if not _unsettled(found, proven, seen):
            return found
        options = [options_of(part, objective, proven) for part in arrangement.parts]


def _best_block(
    options: Sequence[Options], arrangement: Arrangement, objective: Objective, seen: Seen
) -> Found | None:
    if objective.max_groups is not None:
        cap = objective.max_groups - len(arrangement.own)
        chosen = choose_within_cap(options, objective, seen, cap, arrangement.own_bytes)
        return None if chosen is None else found_at(options, chosen, arrangement, objective)
    kept = [frontier(each) for each in options]
    seen.pruned["dominated"] += sum(len(each.keys) for each in options) - sum(
        len(each.keys) for each in kept
    )
    keys = np.unique(np.concatenate([each.keys for each in kept]))
    places = [np.searchsorted(each.keys, keys, side="right") - 1 for each in kept]
    fits = np.logical_and.reduce([at >= 0 for at in places])
    keys, places = keys[fits], [at[fits] for at in places]
    seen.evaluated += len(keys)
    if not len(keys):
        return None
    blocks: Any = sum(each.blocks[at] for each, at in zip(kept, places, strict=True))
    groups: Any = sum(each.groups[at] for each, at in zip(kept, places, strict=True))
    sizes = np.maximum.reduce([each.sizes[:, at] for each, at in zip(kept, places, strict=True)])
    primary, taken = objective.keys(sizes, blocks, arrangement.own_bytes)
    at = first_best(primary, taken, groups, sizes.max(axis=0))
    return found_at(kept, [int(place[at]) for place in places], arrangement, objective)


def found_at(
    options: Sequence[Options],
    chosen: Sequence[int],
    arrangement: Arrangement,
    objective: Objective,
) -> Found:
    """The layout of one option for each part."""
    pairs = list(zip(options, chosen, strict=True))
    blocks = sum(int(each.blocks[at]) for each, at in pairs)
    groups = sum(int(each.groups[at]) for each, at in pairs) + len(arrangement.own)
    sizes = np.maximum.reduce([each.sizes[:, at] for each, at in pairs])[:, None]
    primary, taken = objective.keys(sizes, np.array([blocks], sizes.dtype), arrangement.own_bytes)
    return Found(
        (int(primary[0]), int(taken[0]), groups, int(sizes.max())),
        arrangement,
        tuple(int(each.groups[at]) for each, at in pairs),
        tuple(int(each.at[at]) for each, at in pairs),
    )


def _unsettled(found: Found, proven: Proven, seen: Seen) -> bool:
    """Solve the widest groups that an answer took at their bound; whether one grew."""
    grew = False
    for part, groups, at in zip(found.arrangement.parts, found.groups, found.at, strict=True):
        if len(part.kinds) == 1:
            continue
        pages, _ = unit_pages(part, at)
        for stage in range(len(part.layers)):
            counts = tuple(kind.layers[stage] for kind in part.kinds)
            key = (pages, counts, groups)
            if key in proven or is_settled(pages, counts, groups):
                continue
            proven[key] = fullest(pages, dealt_best(*key))
            seen.packed_by_cpsat += 1
            grew |= proven[key] > least_fullest(pages, counts, groups)
    return grew
