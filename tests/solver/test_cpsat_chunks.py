"""Many candidates of the prefill chunk: an index and straight stretches in place of literals."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.cpsat import chunks as chunks_module
from kvplan.solver.cpsat.chunks import Stretch, create_chunks, straight
from kvplan.solver.cpsat.model import Model
from support.instances import random_problem
from support.solutions import at, solutions


def test_figures_are_cut_where_their_slope_changes() -> None:
    assert straight([5]) == [Stretch(0, 0, 5, 0)]
    assert straight([5, 5, 5]) == [Stretch(0, 2, 5, 0)]
    assert straight([1, 3, 5, 9, 9, 9]) == [Stretch(0, 2, 1, 2), Stretch(3, 5, 9, 0)]
    assert straight([0, 4, 1]) == [Stretch(0, 1, 0, 4), Stretch(2, 2, 1, 0)]


@pytest.mark.parametrize("seed", range(20))
def test_a_table_over_an_index_gives_every_figure(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "MOST_LITERALS", 1)
    rng = random.Random(seed)
    number = rng.randint(2, 9)
    steps = [rng.choice((0, 0, 3, 3, 10)) for _ in range(number + 2)]  # figures beyond are unused
    values = [sum(steps[:k]) for k in range(number + 2)]
    model = Model()
    chunks = create_chunks(model, number, rng.randrange(number))
    form = chunks.table(model, values)
    assert chunks.table(model, values) == form
    seen = {at(chunks.place, each): at(form, each) for each in solutions(model)}
    assert seen == dict(enumerate(values[:number]))
    assert model.value(form) == values[model.value(chunks.place)]


@pytest.mark.parametrize("seed", range(60))
def test_plans_stay_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem.model_validate(random_problem(seed, prefill=True, staging=True))
    try:
        expected: Any = plan(problem)
    except Infeasible:
        expected = None
    monkeypatch.setattr(chunks_module, "MOST_LITERALS", 1)
    if expected is None:
        with pytest.raises(Infeasible):
            plan(problem, engine="cp-sat")
        return
    found = plan(problem, engine="cp-sat")
    assert (found.status, found.digest) == ("optimal", expected.digest)


def test_every_token_may_be_the_chunk() -> None:
    """Strata's card with 24,576 candidates: a literal each would take minutes."""
    problem = Problem.model_validate(
        {
            "ranks": [{"name": "gpu", "quota": "2GiB"}],
            "prefill": {
                "requested": 24_576,
                "min": 1,
                "step": 1,
                "staging": [
                    {"name": "activations", "base": "64MiB", "per_token": 65_536},
                    {"name": "ring", "table": [[1_023, "16MiB"], [24_576, "398MiB"]]},
                ],
            },
            "experts": {"slot_bytes": "2MiB", "layers": 1, "min_slots": 400},
        }
    )
    found = plan(problem, engine="cp-sat")
    assert (found.status, found.digest) == ("optimal", plan(problem).digest)
    assert found.prefill_chunk is not None
    assert 1 < found.prefill_chunk < 24_576
