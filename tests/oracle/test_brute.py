"""The oracle's pruning loses nothing: against the plainest enumeration, on tiny instances."""

import pytest

from kvplan.models import Problem
from kvplan.solver.oracle import best
from support.brute import best_candidate, size
from support.instances import small_problem

FEATURES = {
    "goals": {"goals": True},
    "weighted": {"goals": True, "weighted": True, "prefill": True},
    "constraints": {"constraints": True},
    "experts": {"experts": True, "lend": True, "choices": False},
    "prefix": {"prefix": True},
    "memory": {"memory": True, "prefill": True},
    "all": {},
}
PLANS = 4000


def tiny(feature: str, number: int) -> list[Problem]:
    """The first problems that can be enumerated plan by plan (shares are left to test_oracle)."""
    found: list[Problem] = []
    seed = 0
    while len(found) < number:
        problem = small_problem(seed, stages=False, max_blocks=True, **FEATURES[feature])
        if not (problem.fill and problem.fill.shares) and size(problem) <= PLANS:
            found.append(problem)
        seed += 1
    return found


@pytest.mark.parametrize("feature", FEATURES)
def test_best_is_what_brute_force_finds(feature: str) -> None:
    feasible = 0
    for problem in tiny(feature, 15):
        found, expected = best(problem), best_candidate(problem)
        assert (found is None) == (expected is None)
        if found is None or expected is None:
            continue
        feasible += 1
        usable = {p.name: found.blocks[p.name] - p.reserved_blocks for p in problem.pools}
        options = zip(problem.choices, expected.options, strict=True)
        assert usable == expected.usable
        assert found.requests == expected.requests
        assert found.choices == {c.name: c.options[i].name for c, i in options}
        assert found.prefill_chunk == expected.chunk
        assert found.expert_slots == expected.slots
        assert found.expert_slots_in_prefill == expected.kept
        for label, value in zip(found.labels, found.goals, strict=True):
            assert value == expected.variables.get(label, value)
    assert feasible > 3
