"""The best packed block by one key: for each key every part takes its fewest blocks that fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kvplan.solver.layout.found import Found, Objective, Seen, first_best
from kvplan.solver.layout.layout_candidates import Arrangement
from kvplan.solver.layout.packed.packed_options import Options, frontier


def best_by_key(
    options: Sequence[Options], arrangement: Arrangement, objective: Objective, seen: Seen
) -> Found | None:
    """Scan all keys; None where no key lets every part fit."""
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
