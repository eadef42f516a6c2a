"""Goals over chunk and one wide variable: by ranges as chunk by chunk."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from kvplan.kernels.instance import Instance, Objective, Variable
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.enumerated import is_listable, raise_listed
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import term_value
from kvplan.models import InvalidProblem, Problem
from kvplan.solver.formulate.formulation import formulate


def drawn(seed: int) -> Problem:
    """Some tens of chunks beside a capacity, a count or slots, worths that nearly balance."""
    rng = random.Random(seed)
    wide = rng.choice(("capacity:r", "experts", "blocks:p", "count:r"))
    fit = wide.split(":")[0] if wide.endswith(":r") else "none"
    request: dict[str, Any] = {"name": "r", "capacity": rng.randint(3, 90), "fit": fit}
    if fit == "count":
        request["count"] = rng.randint(2, 40)
    per_token, slot = rng.randint(1, 9), rng.randint(1, 30)
    members: dict[str, Any] = {"prefill": rng.choice((0, 1, per_token, -per_token, "3/7"))}
    members |= {wide: rng.choice((0, 1, slot, "5/2"))}
    goal: dict[str, Any] = {"maximize": members}
    if rng.random() < 0.4:
        points = sorted(rng.sample(range(1, 90), 3))
        worths = sorted(rng.randint(0, 60) for _ in points)
        goal["curves"] = {"prefill": [[*pair] for pair in zip(points, worths, strict=True)]}
    data: dict[str, Any] = {
        "ranks": [{"name": "g", "quota": rng.randint(50, 900)}],
        "tokens_per_block": rng.choice((1, 4)),
        "pools": [{"name": "p", "bytes": rng.randint(1, 20), "granule": rng.choice((1, 16))}],
        "caches": [{"name": "c", "kind": rng.choice(("full", "state"))}],
        "batches": [{"name": "b", "requests": [request]}],
        "prefill": {
            "requested": rng.randint(20, 90),
            "min": 1,
            "staging": [{"name": "s", "per_token": per_token, "granule": rng.choice((1, 1, 32))}],
        },
        "experts": {"slot_bytes": slot, "max_slots": rng.randint(1, 40)},
        "goals": [goal],
    }
    if rng.random() < 0.3:
        options = [{"name": "x", "bytes": rng.randint(0, 99)}, {"name": "y"}]
        data["choices"] = [{"name": "o", "options": options}]
        goal["maximize"] |= {"choice:o": rng.randint(0, 50)}
    return Problem.model_validate(data)


class Asked(Search):
    """A search that notes the chunks it looks at."""

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.asked: set[int] = set()

    def largest(self, bounds: Bounds, variable: Variable) -> int | None:
        self.asked.add(bounds.chunk)
        return super().largest(bounds, variable)


def one_by_one(search: Search, goal: Objective) -> tuple[Fraction, set[tuple[int, Any]]]:
    """The best value, and every chunk with options that reaches it."""
    found: dict[tuple[int, Any], Fraction] = {}
    for bounds in search.starts():
        for chunk in range(len(search.instance.chunks)):
            at = bounds._replace(chunk=chunk, chunk_most=chunk)
            if search.possible(at):
                found[chunk, at.options] = sum(
                    (value_in(search, at, term) for term in goal.members), Fraction(0)
                )
    best = max(found.values())
    return best, {place for place, value in found.items() if value == best}


def value_in(search: Search, bounds: Bounds, term: Any) -> Fraction:
    if term.variable.kind == "prefill":
        return term_value(term, search.instance.chunks[bounds.chunk])
    reached = search.largest(bounds, term.variable)
    assert reached is not None
    return term_value(term, reached)


@pytest.mark.parametrize("part", range(4))
def test_ranges_find_what_every_chunk_would(part: int) -> None:
    tried = several = fewer = 0
    for seed in range(100 * part, 100 * part + 100):
        try:
            search = Asked(formulate(drawn(seed)).instance)
        except InvalidProblem:
            continue
        goal = search.instance.objectives[0]
        starts = [bounds for bounds in search.starts() if search.possible(bounds)]
        if not starts or not is_listable(goal):
            continue
        kept, best = raise_listed(search, starts, goal)
        fewer += len(search.asked) < len(search.instance.chunks) // 2
        expected, places = one_by_one(search, goal)
        assert best == expected, seed
        assert {(bounds.chunk, bounds.options) for bounds in kept} == places, seed
        assert all(search.possible(bounds) for bounds in kept), seed
        tried, several = tried + 1, several + (len(kept) > 1)
    assert tried > 60
    assert several > 5
    assert fewer > 20
