"""Many candidates of the prefill chunk: an index and straight stretches in place of literals."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import combinations
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.program import chunks as chunks_module
from kvplan.solver.cpsat.program.chunks import Stretch, create_chunks, lines
from support.instances import random_problem
from support.solutions import at, solutions


def test_figures_are_cut_where_they_leave_a_line() -> None:
    assert lines([5]) == [Stretch(0, 0, 5, 0)]
    assert lines([5, 5, 5]) == [Stretch(0, 2, 5, 0)]
    assert lines([1, 3, 5, 9, 9, 9]) == [Stretch(0, 2, 1, 2), Stretch(3, 5, 9, 0)]
    assert lines([0, 4, 1]) == [Stretch(0, 1, 0, 4), Stretch(2, 2, 1, 0)]
    assert lines([7, 8, 8, 9, 9, 10]) == [Stretch(0, 5, 7, 1, 2, 1)]
    assert lines([-(-k * 1000 // 7) for k in range(500)]) == [Stretch(0, 499, 0, 1000, 7, 6)]


def is_rounded_line(values: list[int]) -> bool:
    """Some slope s and start c have floor(s k + c) = values[k]: no two points forbid all slopes."""
    pairs = list(combinations(enumerate(values), 2))
    above = max(Fraction(b - a - 1, j - i) for (i, a), (j, b) in pairs)
    return above < min(Fraction(b - a + 1, j - i) for (i, a), (j, b) in pairs)


@pytest.mark.parametrize("seed", range(200))
def test_stretches_are_exact_and_as_long_as_they_can_be(seed: int) -> None:
    rng = random.Random(seed)
    values: list[int] = [rng.randint(-9, 9)]
    while len(values) < 40:
        den = rng.randint(1, 12)
        num, offset, start = rng.randint(-30, 60), rng.randrange(den), values[-1]
        piece = [start + (num * k + offset) // den for k in range(1, rng.randint(2, 30))]
        values += piece if rng.random() < 0.8 else [value + rng.randint(0, 1) for value in piece]
    stretches = lines(values)
    written = [
        stretch.value + (stretch.num * (k - stretch.first) + stretch.offset) // stretch.den
        for stretch in stretches
        for k in range(stretch.first, stretch.last + 1)
    ]
    assert written == values
    assert all(stretch.value == values[stretch.first] for stretch in stretches)
    for stretch in stretches[:-1]:
        assert not is_rounded_line(values[stretch.first : stretch.last + 2])


@pytest.mark.parametrize("seed", range(20))
def test_a_table_over_an_index_gives_every_figure(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "MOST_LITERALS", 1)
    rng = random.Random(seed)
    number = rng.randint(2, 9)
    few = rng.choice(((0, 0, 3, 3, 10), (2, 2, 3), (5, 10, 15)))
    steps = [rng.choice(few) for _ in range(number + 2)]  # figures beyond are unused
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
            plan(problem, solver="cp-sat")
        return
    found = plan(problem, solver="cp-sat")
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
    found = plan(problem, solver="cp-sat")
    assert (found.status, found.digest) == ("optimal", plan(problem).digest)
    assert found.prefill_chunk is not None
    assert 1 < found.prefill_chunk < 24_576
