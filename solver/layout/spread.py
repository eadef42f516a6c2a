"""Layers with pages of several sizes dealt to groups, so that the fullest group is smallest."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

Dealt = tuple[tuple[int, ...], ...]
"""Layers of each bucket in each group: [group][bucket]."""


def least_fullest(sizes: Sequence[int], counts: Sequence[int], groups: int) -> int:
    """Bytes that the fullest of some groups cannot go below.

    max(ceil(total / groups), ceil(n / groups) x size of each bucket): some group holds so many.
    """
    total = sum(size * count for size, count in zip(sizes, counts, strict=True))
    alike = (-(-count // groups) * size for size, count in zip(sizes, counts, strict=True))
    return max(-(-total // groups), *alike)


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
    """Deal so that the fullest group is smallest; by CP-SAT where greed does not prove it.

    minimise z with, for each group, sum of size x layers <= z; layers of each bucket add up.

    Raises
    ------
    SolverError : CP-SAT proves no optimum.
    """
    greedy = dealt_greedily(sizes, counts, groups)
    if fullest(sizes, greedy) == least_fullest(sizes, counts, groups):
        return greedy
    return _dealt_by_cpsat(sizes, counts, groups, greedy)


def _dealt_by_cpsat(
    sizes: tuple[int, ...], counts: tuple[int, ...], groups: int, greedy: Dealt
) -> Dealt:
    from ortools.sat.python import cp_model

    from kvplan.models import SolverError

    model = cp_model.CpModel()
    most = fullest(sizes, greedy)
    top = model.new_int_var(least_fullest(sizes, counts, groups), most, "top")
    held = [[model.new_int_var(0, n, "") for n in counts] for _ in range(groups)]
    loads = [sum(size * n for size, n in zip(sizes, group, strict=True)) for group in held]
    for load in loads:
        model.add(load <= top)
    for before, after in pairwise(loads):
        model.add(before >= after)  # groups are alike
    for kind, count in enumerate(counts):
        model.add(sum(group[kind] for group in held) == count)
    model.minimize(top)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    if solver.solve(model) != cp_model.OPTIMAL:
        raise SolverError(f"CP-SAT did not deal {counts} layers to {groups} groups")
    return tuple(tuple(solver.value(n) for n in group) for group in held)
