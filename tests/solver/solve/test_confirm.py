"""solve_confirmed: two solvers, one answer, or an error that prints both."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.kernels.search.search import Search
from kvplan.models import CheckFailed, Disagreement, Infeasible, Problem, SolverError
from kvplan.solver import plan, solve_confirmed
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.cpsat.program import constraints as rules
from kvplan.solver.cpsat.program import program
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.solve import choose, confirm
from kvplan.solver.solve.bisect import incumbent_of
from support.micro import micro, one, pool

PREFILL = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}


def problem(**sections: Any) -> Problem:
    return micro(100, prefill=PREFILL, **one(60, fit="capacity"), **sections)


def test_a_plan_of_cp_sat_that_the_search_confirms_says_both() -> None:
    answer = solve_confirmed(problem())
    assert (answer.status, answer.proof.solver) == ("optimal", "cp-sat")
    assert answer.proof.certificate == "cp-sat+nested"
    assert answer.digest == plan(problem()).digest


def test_where_the_search_proves_nothing_cp_sat_stands_alone() -> None:
    goal = {"maximize": {"capacity:q": 1, "prefill": 2, "blocks:p": -1}}
    answer = solve_confirmed(problem(goals=[goal]))
    assert (answer.status, answer.proof.certificate) == ("optimal", "cp-sat")


@pytest.mark.parametrize("solver", ["auto", "bisect"])
def test_other_solvers_are_not_confirmed(solver: Any) -> None:
    assert solve_confirmed(problem(), solver=solver).proof.certificate == "nested"


def test_a_deadline_leaves_nothing_to_confirm() -> None:
    answer = solve_confirmed(problem(), deadline=0)
    assert (answer.status, answer.proof.certificate) == ("optimal", "nested")


def test_a_search_that_stops_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model's box leaves room beyond what the search says, so CP-SAT goes there."""
    real = Search.largest

    def too_small(self: Search, bounds: Any, variable: Any) -> int | None:
        found = real(self, bounds, variable)
        return found if found is None or variable.kind != "capacity" else found - 1

    monkeypatch.setattr(Search, "largest", too_small)
    with pytest.raises(Disagreement) as caught:
        solve_confirmed(problem())
    text = str(caught.value)
    assert text.startswith("cp-sat: {")
    assert '"capacity":36' in text
    assert "; search: {" in text
    assert '"capacity":35' in text


def test_a_program_without_its_floors_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT then promises a capacity that no pool holds."""
    monkeypatch.setattr(program, "add_floors", lambda *_: None)
    with pytest.raises(SolverError):
        solve_confirmed(problem(fill="none"))


def test_a_program_that_is_too_strict_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    real = rules.budget_bytes

    def seven_bytes_more(*arguments: Any) -> Any:
        form = real(*arguments)
        return form._replace(constant=form.constant + 7)

    monkeypatch.setattr(rules, "budget_bytes", seven_bytes_more)
    with pytest.raises(Disagreement):
        solve_confirmed(problem())


def test_a_plan_where_the_search_finds_none_is_a_disagreement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Search] = []

    def second_time_blind(search: Search) -> Any:
        asked.append(search)
        return incumbent_of(search) if len(asked) == 1 else None

    for module in (choose, confirm):
        monkeypatch.setattr(module, "incumbent_of", second_time_blind)
    with pytest.raises(Disagreement, match="cp-sat found a plan where the search found none"):
        solve_confirmed(problem())
    assert len(asked) == 2


def test_a_search_that_refuses_too_soon_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "incumbent_of", lambda _: None)
    with pytest.raises(Disagreement, match="the search proves that none exists"):
        solve_confirmed(problem())
    with pytest.raises(Infeasible):
        plan(problem())  # solver auto has nobody to ask


def test_a_refusal_is_confirmed_by_cp_sat() -> None:
    for solver in ("cp-sat", "auto", "bisect"):
        with pytest.raises(Infeasible, match="rank r0 is short by 3 B in prefill"):
            plan(micro(11, prefill=PREFILL, **one(60, fit="capacity")), solver=solver)


# --- the check behind every plan ----------------------------------------------------------------


def broken(update: dict[str, Any], **sections: Any) -> str:
    """What the check says of a proven point after some of it was changed."""
    given = problem(
        experts={"slot_bytes": 2, "max_slots": 9, "lend": {"keep": 1, "fraction": "1/2"}},
        constraints=[{"terms": {"blocks:p": 1}, "max": 9}],
        **{**pool(multiple_of=3), **sections},
    )
    formulation = formulate(given)
    search = Search(formulation.instance)
    found = incumbent_of(search)
    assert found is not None
    assemble(formulation, search, found, Credit("auto", "nested"))
    wrong = found._replace(point=found.point._replace(**update))
    with pytest.raises(CheckFailed) as caught:
        assemble(formulation, search, wrong, Credit("auto", "nested"))
    assert isinstance(caught.value, SolverError)
    return str(caught.value).removeprefix("the computed plan is wrong and was not returned: ")


@pytest.mark.parametrize(
    ("update", "text"),
    [
        ({"usable": (3,)}, "pool p has 3 usable blocks, 9 are needed"),
        ({"usable": (8,)}, "pool p has 8 blocks: not a multiple, or above max_blocks"),
        ({"usable": (12,)}, "rank r0 exceeds its quota by 30 B in prefill"),
        ({"usable": (12,)}, "rank r0 exceeds its quota by 24 B in decode"),
        ({"usable": (12,)}, "constraint 0 is 12, outside None to 9"),
        ({"capacities": (61,)}, "q = 61 is outside 1 to 60"),
        ({"capacities": (0,)}, "q = 0 is outside 1 to 60"),
        ({"chunk": 9}, "rank r0 exceeds its quota by 32 B in prefill"),
        ({"experts": 10, "kept": 5}, "10 expert slots are outside 0 to 9"),
        ({"experts": 3, "kept": 4}, "4 of 3 expert slots stay during prefill"),
        ({"experts": 4, "kept": 1}, "1 of 4 expert slots stay during prefill"),
    ],
)
def test_the_check_names_each_rule_that_a_point_breaks(update: dict[str, Any], text: str) -> None:
    assert text in broken(update)
