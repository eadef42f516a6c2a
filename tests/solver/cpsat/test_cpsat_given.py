"""Constants of the integer program: given requests against the oracle, in rows and in columns."""

from __future__ import annotations

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver.cpsat.program import given_needs as given_module
from kvplan.solver.cpsat.program.given_needs import Given
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.oracle import needs
from support.instances import random_problem

SEEDS, CHUNK = 384, 64


def problems(start: int) -> list[Problem]:
    """Small problems in which nothing is fitted."""
    found = []
    for seed in range(start, start + CHUNK):
        try:
            found.append(Problem.model_validate(random_problem(seed, fit=False)))
        except InvalidProblem:
            continue
    assert len(found) > CHUNK // 2
    return found


def assert_needs(problem: Problem) -> None:
    """Raw blocks of every batch at every chunk, as the oracle simulates them."""
    instance = formulate(problem).instance
    given = Given(instance)
    candidates = problem.prefill.candidates if problem.prefill else (None,)
    for number, batch in enumerate(problem.batches):
        loads = [
            needs.Load(request.capacity, request.history_tokens, 1 if n is None else n)
            for request in batch.requests
            for n in [request.count]
        ]
        for index, chunk in enumerate(candidates):
            raw = needs.raw_needs(problem, batch, loads, chunk)
            assert given.raw(number, index) == [raw[pool.name] for pool in problem.pools]


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
def test_given_requests_need_what_the_oracle_simulates(start: int) -> None:
    for problem in problems(start):
        assert_needs(problem)


@pytest.mark.parametrize("wide", [0, 2**31])
def test_columns_hold_the_same(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of int64, and of Python integers where the figures are wide."""
    monkeypatch.setattr(given_module, "_COLUMNS_FROM", 1)
    monkeypatch.setattr(given_module, "_WIDE", wide)
    for problem in problems(0):
        assert_needs(problem)


def test_wide_figures_do_not_wrap() -> None:
    rows = [{"name": f"r{k}", "capacity": 2**61 + k, "count": 2**40} for k in range(40)]
    problem = Problem.model_validate(
        {
            "ranks": [{"name": "r", "quota": 1}],
            "tokens_per_block": 1,
            "pools": [{"name": "p", "bytes": 1}],
            "caches": [{"name": "c", "kind": "full"}],
            "batches": [{"name": "b", "requests": rows}],
        }
    )
    [blocks] = Given(formulate(problem).instance).raw(0, 0)
    assert blocks == sum(2**40 * (2**61 + k) for k in range(40))
