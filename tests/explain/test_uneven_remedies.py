"""Remedies where more of a change does not always help: the nearest value is still named."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.explain.conflict import minimal
from kvplan.solver.explain.conflict.minimal import MOST_UNDECIDED, minimal_conflict
from kvplan.solver.explain.feasible import UnprovenError
from kvplan.solver.explain.nearest import first_working, nearest_of_classes
from kvplan.solver.explain.remedies import what_if
from support.draw import Data
from support.infeasible import works
from support.uneven import refusal_of, uneven_problem

MOST_TRIED = 300  # tokens below the capacity now that the judge tries one by one


def remedies(data: Data) -> dict[str, int | str]:
    refusal = refusal_of(data)
    assert refusal is not None
    return {remedy.change: remedy.to for remedy in refusal.remedies}


def test_a_capacity_beside_a_shared_prefix_and_a_live_window() -> None:
    """Ten tokens less drop a block of the prefix's successors; 1,024 tokens do, too."""
    window = {"name": "w", "kind": "window", "window": 1024, "keep": "live", "tokens_per_block": 32}
    requests = [
        {"name": "q", "capacity": 161_354},
        {"name": "s", "capacity": 8_854, "count": 3},
    ]
    data = {
        "ranks": [{"name": "r", "quota": 131}],
        "pools": [{"name": "p", "bytes": 1}],
        "caches": [window],
        "batches": [{"name": "b", "shared_prefix": 100, "requests": requests}],
    }
    found = remedies(data)
    assert found["batches.b.requests.q.capacity"] == 161_344
    assert found["batches.b.requests.s.capacity"] == 8_832


@pytest.mark.parametrize("seed", range(24))
def test_no_nearer_capacity_works(seed: int) -> None:
    data = uneven_problem(seed)
    if refusal_of(data) is None:
        return
    found = remedies(data)
    for request in data["batches"][0]["requests"]:
        path, now = f"batches.b.requests.{request['name']}.capacity", request["capacity"]
        least = max(1, request.get("history", 1), now - MOST_TRIED)
        nearest = next((c for c in range(now - 1, least - 1, -1) if works(data, f"{path}={c}")), 0)
        got = found.get(path, 0)
        assert isinstance(got, int)
        assert got == nearest or (
            not nearest and got < least and (not got or works(data, f"{path}={got}"))
        )


ONE: dict[str, Any] = {
    "tokens_per_block": 1,
    "pools": [{"name": "kv", "bytes": 1}],
    "caches": [{"name": "full", "kind": "full"}],
}


def test_a_request_whose_capacity_is_fitted_may_be_left_out() -> None:
    """At its least it takes 80 B, beside which 50 B do not fit."""
    fitted = {"name": "q", "capacity": 90, "fit": "capacity", "min_capacity": 80, "count": 1}
    batches = [{"name": "b", "requests": [fitted, {"name": "s", "capacity": 50}]}]
    found = remedies({**ONE, "ranks": [{"name": "r", "quota": 100}], "batches": batches})
    assert found["batches.b.requests.q.count"] == 0


PREFILL: dict[str, Any] = {"ranks": [{"name": "r", "quota": 1000}], "pools": ONE["pools"]}


@pytest.mark.parametrize(
    ("prefill", "bounds", "field", "expected"),
    [
        ({"requested": 9}, (3, 5), "prefill.min", 5),
        ({"requested": 9, "min": 7, "step": 2}, (4, 6), "prefill.min", 6),
        ({"requested": 90, "min": 60, "step": 20}, (71, 72), "prefill.min", 52),
        ({"requested": 9, "chunks": [8, 9]}, (2, 6), "prefill.chunks[0]", 6),
        ({"requested": 2**20}, (3, 2**20 - 9), "prefill.requested", 2**20 - 9),
    ],
)
def test_a_lower_chunk_floor_under_a_constraint(
    prefill: Data, bounds: tuple[int, int], field: str, expected: int
) -> None:
    """The grid moves with its floor: 52, 72, ... holds the one chunk that is allowed."""
    terms = {"terms": {"prefill": 1}, "min": bounds[0], "max": bounds[1]}
    data = {**PREFILL, "prefill": prefill, "constraints": [terms]}
    assert remedies(data)[field] == expected
    kinds = {item.kind for item in minimal_conflict(Problem.model_validate(data))}
    assert kinds == {"constraint", "chunk floor"}


def test_copies_that_are_bounded_from_above_want_more_of_the_batch() -> None:
    """Too few requests are more copies than are allowed; too many take all blocks."""
    batch = {"name": "b", "requests": [{"name": "q", "capacity": 10}]}
    other = {"name": "o", "requests": [{"name": "s", "capacity": 101}]}
    data = {
        **ONE,
        "ranks": [{"name": "r", "quota": 100}],
        "batches": [batch, other],
        "constraints": [{"terms": {"copies:b": 1}, "max": 10}],
    }
    assert remedies(data)["batches.o.requests.s.capacity"] == 100
    below = {"terms": {"copies:b": 1}, "min": 1, "max": 3}
    data = {
        **data,
        "batches": [{**batch, "requests": [{"name": "q", "capacity": 10, "count": 12}]}],
    }
    data["constraints"] = [below]
    found = remedies(data)
    assert found["batches.b.requests.q.count"] == 10


@pytest.mark.parametrize("history", [{}, {"history": 0}])
def test_more_of_a_batch_is_not_ruled_out_where_copies_are_bounded_from_above(
    history: Data,
) -> None:
    """8 blocks hold 8 copies of one request, 4 of two alike or of one twice as large."""
    request = {"name": "q", "capacity": 1, "count": 1, **history}
    data = {
        **ONE,
        "ranks": [{"name": "r", "quota": 8}],
        "pools": [{"name": "p", "bytes": 1, "min_blocks": 8}],
        "batches": [{"name": "b", "requests": [request]}],
        "constraints": [{"terms": {"copies:b": 1}, "max": 4}],
    }
    with pytest.raises(Infeasible) as caught:
        plan(Problem.model_validate(data))
    ruled_out = {entry.change.rpartition(".")[2] for entry in caught.value.ruled_out}
    assert "quota" in ruled_out
    assert not {"count", "capacity"} & ruled_out
    for more in ({"count": 2}, {"capacity": 2}):
        larger = {**data, "batches": [{"name": "b", "requests": [{**request, **more}]}]}
        assert plan(Problem.model_validate(larger)).status == "optimal"


@pytest.mark.parametrize("seed", range(40))
def test_the_nearest_of_classes_is_what_trying_each_finds(seed: int) -> None:
    """Within a class of residues whatever lies beyond a distance that works does, too."""
    draw = random.Random(seed)
    most, period = draw.randint(1, 60), draw.randint(1, 7)
    first = [draw.randint(1, 80) for _ in range(period)]

    def holds(distance: int) -> bool:
        return distance >= first[distance % period]

    classes = {(distance, period) for distance in range(1, period + 1)}
    assert nearest_of_classes(holds, most, classes) == first_working(holds, most)


UNPROVEN: Data = {
    "ranks": [{"name": "r0", "quota": 68}],
    "tokens_per_block": 3,
    "pools": [{"name": "p", "bytes": 6, "multiple_of": 3}],
    "caches": [
        {"name": "c", "extra_blocks": 1, "kind": "window", "keep": "live", "window": 4},
        {"name": "s", "tokens_per_block": 1, "groups": 2, "kind": "state"},
    ],
    "batches": [
        {"name": "a", "requests": [{"name": "q", "capacity": 6}]},
        {"name": "b", "requests": [{"name": "z", "capacity": 7, "fit": "capacity"}]},
    ],
    "constraints": [{"terms": {"copies:a": 2, "copies:b": -2}, "min": 9}],
}
"""Copies of a never exceed those of b; at a dropped quota CP-SAT cannot prove that."""


def explained(data: Data) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        plan(Problem.model_validate(data))
    return caught.value


def test_a_question_that_stays_open_spoils_no_explanation() -> None:
    refusal = explained(UNPROVEN)
    kinds = {claim.kind for claim in refusal.conflict}
    assert kinds == {"constraint", "request", "quota"}, "nobody knows whether it fits without it"
    assert {remedy.change: remedy.to for remedy in refusal.remedies} == {"constraints[0].min": "0"}
    assert "ranks.r0.quota" not in {entry.change for entry in refusal.ruled_out}


def test_few_open_questions_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes about a second."""
    asked = []

    def undecided(*_: Any) -> bool:
        asked.append(1)
        raise UnprovenError

    for module in (minimal, what_if):
        monkeypatch.setattr(module, "fits", undecided)
    refusal = explained(UNPROVEN)
    assert len(refusal.conflict) == 4
    assert refusal.remedies == refusal.ruled_out == ()
    assert len(asked) <= 2 * MOST_UNDECIDED + 1
