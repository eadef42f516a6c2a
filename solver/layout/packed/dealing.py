"""Layers with pages of several sizes dealt to groups, so that the fullest group is smallest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from kvplan.solver.layout.kinds import Array

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

MOST_PATTERNS = 20_000
"""Ways to fill a group beyond which CP-SAT deals layer by layer."""

Dealt = tuple[tuple[int, ...], ...]
"""Layers of each bucket in each group: [group][bucket]."""


def least_fullest(sizes: Sequence[int], counts: Sequence[int], groups: int) -> int:
    """Bytes that the fullest of some groups cannot go below.

    max(ceil(total / groups), ceil(n / groups) x size of each bucket): some group holds so many.
    """
    return int(least_fullest_of(sizes, counts, np.array([groups], dtype=object))[0])


def least_fullest_of(sizes: Sequence[int], counts: Sequence[int], groups: Array) -> Array:
    """The same at several numbers of groups."""
    total = sum(size * count for size, count in zip(sizes, counts, strict=True))
    alike = (-(-count // groups) * size for size, count in zip(sizes, counts, strict=True))
    return np.maximum.reduce([-(-total // groups), *alike])


def dealt_greedily(sizes: Sequence[int], counts: Sequence[int], groups: int) -> Dealt:
    """Deal the largest pages first, each to the emptiest group."""
    held = [[0] * len(sizes) for _ in range(groups)]
    filled = [0] * groups
    for kind in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        for _ in range(counts[kind]):
            group = min(range(groups), key=lambda index: filled[index])
            held[group][kind] += 1
            filled[group] += sizes[kind]
    return tuple(map(tuple, held))


def fullest(sizes: Sequence[int], dealt: Dealt) -> int:
    """Bytes of the fullest group."""
    return max(
        sum(size * count for size, count in zip(sizes, group, strict=True)) for group in dealt
    )


def is_settled(sizes: Sequence[int], counts: Sequence[int], groups: int) -> bool:
    """Whether dealing greedily meets the lower bound, so that it is the best."""
    greedy = dealt_greedily(sizes, counts, groups)
    return fullest(sizes, greedy) == least_fullest(sizes, counts, groups)


@lru_cache(maxsize=4096)
def dealt_best(sizes: tuple[int, ...], counts: tuple[int, ...], groups: int) -> Dealt:
    """Deal so that the fullest group is smallest: greedily, and by CP-SAT down to the bound.

    Capacities between the bound and the greedy dealing are bisected: a larger one holds no less.

    Raises
    ------
    SolverError : CP-SAT settles a capacity neither way.
    """
    best = dealt_greedily(sizes, counts, groups)
    low, high = least_fullest(sizes, counts, groups), fullest(sizes, best)
    while low < high:
        middle = (low + high) // 2
        dealt = dealt_within(sizes, counts, groups, middle)
        if dealt is None:
            low = middle + 1
        else:
            best, high = dealt, fullest(sizes, dealt)
    return best


def dealt_within(
    sizes: Sequence[int], counts: Sequence[int], groups: int, capacity: int
) -> Dealt | None:
    """Deal to groups of at most `capacity` bytes; None where that is proven impossible."""
    ways = prod(
        min(count, capacity // size) + 1 for size, count in zip(sizes[1:], counts[1:], strict=True)
    )
    deal = _by_patterns if ways <= MOST_PATTERNS else _by_groups
    return deal(sizes, counts, groups, capacity)


def _by_patterns(
    sizes: Sequence[int], counts: Sequence[int], groups: int, capacity: int
) -> Dealt | None:
    """x[p] groups hold pattern p, a multiset of layers that fits: sum x <= groups.

    For each bucket, sum of x[p] x its layers in p >= n: what is beyond n is taken out again.
    """
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    patterns = list(_patterns(sizes, counts, capacity))
    uses = [model.new_int_var(0, groups, "") for _ in patterns]
    model.add(sum(uses) <= groups)
    for kind, count in enumerate(counts):
        held = (pattern[kind] * n for pattern, n in zip(patterns, uses, strict=True))
        model.add(sum(held) >= count)
    value = _solved(model)
    if value is None:
        return None
    chosen = [pattern for pattern, n in zip(patterns, uses, strict=True) for _ in range(value(n))]
    return _exactly(chosen, counts, groups)


def _by_groups(
    sizes: Sequence[int], counts: Sequence[int], groups: int, capacity: int
) -> Dealt | None:
    """n[g, k] layers of bucket k in group g: for each g, sum of n x size <= capacity."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    held = [[model.new_int_var(0, count, "") for count in counts] for _ in range(groups)]
    loads = [sum(size * n for size, n in zip(sizes, group, strict=True)) for group in held]
    for load in loads:
        model.add(load <= capacity)
    for before, after in pairwise(loads):
        model.add(before >= after)  # groups are alike
    for kind, count in enumerate(counts):
        model.add(sum(group[kind] for group in held) == count)
    value = _solved(model)
    return None if value is None else tuple(tuple(map(value, group)) for group in held)


def _solved(model: CpModel) -> Callable[[IntVar], int] | None:
    """Solve for any solution; None where there is proven to be none."""
    from ortools.sat.python import cp_model

    from kvplan.models import SolverError

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    status = solver.solve(model)
    if status == cp_model.INFEASIBLE:
        return None
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise SolverError("CP-SAT did not settle whether layers fit in their groups")
    return solver.value


def _patterns(
    sizes: Sequence[int], counts: Sequence[int], capacity: int
) -> Iterator[tuple[int, ...]]:
    """Layers of each bucket that fit in a capacity, as many of the first as do."""
    if len(sizes) == 1:
        yield (min(counts[0], capacity // sizes[0]),)
        return
    for last in range(min(counts[-1], capacity // sizes[-1]) + 1):
        for rest in _patterns(sizes[:-1], counts[:-1], capacity - last * sizes[-1]):
            yield (*rest, last)


def _exactly(chosen: Sequence[tuple[int, ...]], counts: Sequence[int], groups: int) -> Dealt:
    """Take what patterns hold beyond the layers there are out again; fill up with empty groups."""
    left = list(counts)
    dealt = []
    for pattern in chosen:
        held = tuple(min(n, rest) for n, rest in zip(pattern, left, strict=True))
        left = [rest - n for n, rest in zip(held, left, strict=True)]
        dealt.append(held)
    empty = (0,) * len(counts)
    return tuple(dealt + [empty] * (groups - len(dealt)))
