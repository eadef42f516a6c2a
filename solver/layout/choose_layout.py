"""The best layout over every arrangement that is permitted."""

from __future__ import annotations

import numpy as np

from kvplan.models.layouts import LayoutQuestion
from kvplan.solver.layout.found import Found, Objective, Rank, Seen, first_best, objective_of
from kvplan.solver.layout.layout_candidates import Arrangement, arrangements, part_of
from kvplan.solver.layout.packed.blocks_of_parts import search_packed
from kvplan.solver.layout.uniform import search_uniform


def best_found(question: LayoutQuestion, seen: Seen) -> Found | None:
    """Search every arrangement; None where no layout is permitted."""
    objective = objective_of(question)
    best: Found | None = None
    for arrangement in arrangements(question):
        for found in _searched(question, arrangement, objective, seen, best and best.rank):
            if found is not None and (best is None or found.rank < best.rank):
                best = found
    return best


def _searched(
    question: LayoutQuestion,
    arrangement: Arrangement,
    objective: Objective,
    seen: Seen,
    best: Rank | None,
) -> list[Found | None]:
    if not arrangement.parts:
        return [_alone(arrangement, objective, seen)]
    search = search_packed if question.pages == "packed" else search_uniform
    found = [search(arrangement, objective, seen, best)]
    if _is_one_family(arrangement):
        found.append(_one_group(arrangement, objective, seen))
    return found


def _is_one_family(arrangement: Arrangement) -> bool:
    kinds = [kind for part in arrangement.parts for kind in part.kinds]
    return len(kinds) > 1 and len({kind.family for kind in kinds}) == 1


def _alone(arrangement: Arrangement, objective: Objective, seen: Seen) -> Found | None:
    """Every bucket in a pool of its own: nothing is shared."""
    seen.candidates += 1
    seen.evaluated += 1
    groups = len(arrangement.own)
    if objective.max_groups is not None and groups > objective.max_groups:
        return None
    nothing = np.zeros((len(arrangement.own_bytes), 1), dtype=object)
    primary, taken = objective.keys(nothing, nothing[0], arrangement.own_bytes)
    return Found((int(primary[0]), int(taken[0]), groups, 0), arrangement, (), ())


def _one_group(arrangement: Arrangement, objective: Objective, seen: Seen) -> Found | None:
    """All layers in one group, each with its own page: a block is the sum of the pages.

    Needs one retention rule for all; the engine lays such models out so, whatever the pages.
    """
    kinds = [kind for part in arrangement.parts for kind in part.kinds]
    whole = part_of(kinds)
    if whole is None or (objective.max_groups or 2) < 1 + len(arrangement.own):
        return None
    sizes = np.array(
        [
            sum(kind.layers[stage] * kind.pages for kind in whole.kinds)
            for stage in range(len(whole.layers))
        ]
    )
    seen.candidates += sizes.shape[1]
    seen.evaluated += sizes.shape[1]
    primary, taken = objective.keys(sizes, whole.blocks, arrangement.own_bytes)
    at = first_best(primary, taken, sizes.max(axis=0))
    groups = 1 + len(arrangement.own)
    rank = (int(primary[at]), int(taken[at]), groups, int(sizes[:, at].max()))
    return Found(rank, arrangement._replace(parts=(whole,)), (1,), (at,))
