"""What CP-SAT says is not believed blindly: verdicts, values, time, and its independence."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ortools.sat.python import cp_model

import kvplan.solver.cpsat
from kvplan.kernels.values import Answer
from kvplan.solver import plan
from kvplan.solver.cpsat import Verdict, driver, refutes, solve_program
from kvplan.solver.cpsat.driver import Driver
from kvplan.solver.cpsat.model.integer_model import Model, total
from kvplan.solver.cpsat.program.program import least_point
from support.instance import instance_of
from support.instances import small_problem
from support.micro import micro, one, pool
from support.unproven import tied, weighted

SHARED = {"kvplan.kernels.instance", "kvplan.kernels.values"}


def test_it_stands_on_the_instance_alone() -> None:
    """No need, no byte, no bound of the search: the vocabulary and plain points only."""
    for path in Path(kvplan.solver.cpsat.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                module = node.module
                if module.startswith("kvplan.kernels"):
                    assert module in SHARED, path
                assert not module.startswith("kvplan.solver.solve"), path
                assert module != "kvplan.solver.check", path


@pytest.mark.parametrize("seed", range(40))
def test_a_hint_changes_no_answer(seed: int) -> None:
    """The search's point, no point, or one that breaks everything."""
    instance = instance_of(small_problem(seed))
    plain = solve_program(instance)
    point = least_point(instance)
    worst = point._replace(usable=tuple(10**9 for _ in point.usable), experts=10**6, kept=-5)
    values = tuple(0 for _ in instance.objectives)
    for hint in (point, worst):
        wrong = Answer(hint, values, tuple(None for _ in values), exact=True)
        hinted = solve_program(instance, wrong)
        assert hinted.verdict is plain.verdict
        assert hinted.answer == plain.answer


def test_a_bound_of_the_search_is_only_used_where_it_is_asked_for() -> None:
    instance = instance_of(micro(100, **one(40, fit="capacity")))
    plain = solve_program(instance).answer
    assert plain is not None
    lowered = plain._replace(bounds=(20, *plain.bounds[1:]))
    assert solve_program(instance, lowered).answer == plain
    bounded = solve_program(instance, lowered, use_bounds=True).answer
    assert bounded is not None
    assert bounded.values[0] == 20


def verdicts(monkeypatch: pytest.MonkeyPatch, *first: int) -> list[int]:
    """Make CP-SAT claim these statuses first, whatever it found; returns what is left to claim."""
    real, claims = cp_model.CpSolver.solve, [*first]

    def claim(self: cp_model.CpSolver, model: cp_model.CpModel) -> int:
        status = real(self, model)
        return claims.pop(0) if claims else status

    monkeypatch.setattr(cp_model.CpSolver, "solve", claim)
    return claims


def test_an_infeasible_that_nobody_confirms_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = plan(tied())
    left = verdicts(monkeypatch, cp_model.INFEASIBLE)
    assert plan(tied(), solver="cp-sat").digest == best.digest
    assert not left


def test_an_infeasible_beside_a_point_that_holds_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    best = plan(weighted())
    left = verdicts(monkeypatch, cp_model.INFEASIBLE, cp_model.INFEASIBLE)
    assert plan(weighted(), solver="cp-sat").digest == best.digest
    assert not left


def test_an_optimum_below_a_point_that_holds_is_not_believed() -> None:
    model = Model()
    x = model.integer(0, 9, 7)
    model.bound(total([(2, x)]), most=15)
    solver = Driver(model)
    assert solver._taken(x, [3], is_optimal=True) is Verdict.FEASIBLE
    assert model.hints == [7]
    assert solver._taken(x, [7], is_optimal=True) is Verdict.OPTIMAL


def test_a_hint_beyond_a_later_row_is_no_solution() -> None:
    """It reaches the highest value, and breaks the row that made it so (once taken for optimal)."""
    model = Model()
    x, y = model.integer(0, 9, 9), model.integer(0, 9, 0)
    model.bound(total([(1, x), (1, y)]), 9, 9)
    solver = Driver(model, trusts_hint=True)
    assert solver.maximize(total([(1, x), (1, y)])) is Verdict.OPTIMAL
    model.bound(x, most=4)
    assert not model.hint_holds
    assert solver.maximize(x) is Verdict.OPTIMAL
    assert (model.value(x), model.value(y)) == (4, 5)


def test_every_solve_has_both_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    real = cp_model.CpSolver.solve
    limits = []

    def watched(self: cp_model.CpSolver, model: cp_model.CpModel) -> int:
        parameters = self.parameters
        limits.append((parameters.max_deterministic_time, parameters.max_time_in_seconds))
        return real(self, model)

    monkeypatch.setattr(cp_model.CpSolver, "solve", watched)
    plan(weighted())
    plan(tied(), deadline=60)
    refutes(instance_of(weighted()))
    assert len(limits) > 3
    assert all(work <= driver.ALLOWANCE and wall_s <= 60 for work, wall_s in limits)


def test_without_a_deadline_the_work_is_limited() -> None:
    """A knapsack of three coprime sizes, worth a little beside their bytes: a plan and a bound."""
    sizes = {"p": 10_007, "q": 20_011, "r": 30_013}
    goal = {"maximize": {f"blocks:{name}": 70 * size + 1 for name, size in sizes.items()}}
    pools = [{"name": name, "bytes": size} for name, size in sizes.items()]
    solved = solve_program(instance_of(micro(10**9 + 7, pools=pools, caches=[], goals=[goal])))
    assert solved.verdict is Verdict.FEASIBLE
    assert solved.deterministic_time < (driver.ALLOWANCE + driver.AFTER_UNPROVEN) * 1.2
    assert solved.answer is not None
    assert not solved.answer.exact
    value, bound = solved.answer.values[0], solved.answer.bounds[0]
    assert bound is not None
    assert value < bound < value * 1.000_001


def test_a_goal_after_an_unproven_one_is_still_bettered() -> None:
    model = Model()
    x, y = model.integer(0, 50, 3), model.integer(0, 50, 0)
    model.bound(total([(1, x), (1, y)]), most=60)
    solver = Driver(model)
    solver.has_solution = True
    solver._allowance = 0.0
    assert solver.maximize(x) is Verdict.FEASIBLE
    assert solver.bound == 50
    assert solver.maximize(y) is Verdict.OPTIMAL
    assert model.value(x) >= 3
    assert model.value(y) == 50


def test_an_empty_domain_is_a_refusal() -> None:
    assert solve_program(instance_of(micro(9, **one(4)))).verdict is Verdict.INFEASIBLE
    assert refutes(instance_of(micro(9, **one(4))))
    assert refutes(instance_of(micro(100, **one(4)))) is False
    capped = micro(100, **pool(max_blocks=1), **one(40))
    assert solve_program(instance_of(capped)).verdict is Verdict.INFEASIBLE
