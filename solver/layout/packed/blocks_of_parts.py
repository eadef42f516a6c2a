"""Pages of several sizes side by side in a block: every block size that some groups can fill."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.solver.layout.found import Found, Objective, Rank, Seen
from kvplan.solver.layout.layout_candidates import Arrangement
from kvplan.solver.layout.packed.beside_own import best_beside_own
from kvplan.solver.layout.packed.best_key import best_by_key, found_at
from kvplan.solver.layout.packed.capped import choose_within_cap, ranks_of
from kvplan.solver.layout.packed.dealing import dealt_best, fullest, is_settled, least_fullest
from kvplan.solver.layout.packed.packed_options import Options, Proven, options_of, unit_pages


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
    search = _best_block if len(set(arrangement.own_bytes)) == 1 else best_beside_own
    while True:
        found = search(options, arrangement, objective, seen, best)
        if found is None or (best is not None and found.rank >= best):
            return None
        if not _unsettled(found, proven, seen):
            return found
        options = [options_of(part, objective, proven) for part in arrangement.parts]


def _best_block(
    options: Sequence[Options],
    arrangement: Arrangement,
    objective: Objective,
    seen: Seen,
    _: Rank | None,
) -> Found | None:
    if objective.max_groups is None:
        return best_by_key(options, arrangement, objective, seen)
    cap = objective.max_groups - len(arrangement.own)
    ranks = ranks_of(objective, arrangement.own_bytes[0])
    chosen = choose_within_cap(options, ranks, seen, cap)
    return None if chosen is None else found_at(options, chosen, arrangement, objective)


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
