"""The search under linear constraints: a plan and a bound, or the word that it does not know."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, KvplanError, SolverError, Undecided
from kvplan.solver import plan
from kvplan.solver.cli.run import run
from kvplan.solver.oracle import check
from support.micro import micro, one

SLOTS = {"slot_bytes": 10, "max_slots": 8}
PREFILL = {"requested": 40, "min": 4, "step": 4, "staging": [{"name": "s", "per_token": 1}]}
WAYS = [{"name": "w", "options": [{"name": "x", "bytes": 9}, {"name": "y"}]}]
ODD = [{"terms": {"blocks:p": 2, "experts": -2}, "min": 1, "max": 1}]


@pytest.mark.parametrize(
    "row",
    [
        {"terms": {"blocks:p": 1}, "max": 3},
        {"terms": {"blocks:p": 1, "experts": 1}, "max": 4},
        {"terms": {"experts": 1, "blocks:p": -1}, "min": 1},
        {"terms": {"capacity:q": 1}, "max": 9},
        {"terms": {"prefill": 1, "experts": 4}, "max": 30},
        {"terms": {"choice:w=y": 1}, "min": 1},
        {"terms": {"choice:w=x": -1, "blocks:p": 1}, "max": 2},
        {"terms": {"copies:b": 1}, "max": 1},
        {"terms": {"copies:b": 1}, "min": 2},
        {"terms": {"capacity:q": 1, "blocks:p": -3}, "max": 0},
    ],
)
def test_a_broken_row_is_mended(row: dict[str, Any]) -> None:
    problem = micro(
        100,
        experts=SLOTS,
        prefill=PREFILL,
        choices=WAYS,
        constraints=[row],
        **one(24, fit="capacity"),
    )
    answer, best = plan(problem, solver="bisect"), plan(problem)
    assert check(problem, answer) == []
    first = answer.proof.bound[0]
    assert first.bound is not None
    assert first.value <= best.proof.bound[0].value <= first.bound
    if answer.status == "optimal":
        assert answer.digest == best.digest


def test_what_the_search_does_not_find_stays_undecided() -> None:
    problem = micro(100, experts=SLOTS, constraints=ODD)
    with pytest.raises(
        Undecided, match="cannot prove that there is none; solver cp-sat can"
    ) as caught:
        plan(problem, solver="bisect")
    assert isinstance(caught.value, KvplanError)
    assert not isinstance(caught.value, SolverError)
    for solver in ("auto", "cp-sat"):
        with pytest.raises(Infeasible, match="the linear constraints cannot hold together"):
            plan(problem, solver=solver)


def test_undecided_is_exit_code_1_and_one_line(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.json"
    path.write_text(micro(100, experts=SLOTS, constraints=ODD).model_dump_json(exclude_unset=True))
    assert run(["solve", str(path), "--solver", "bisect"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("kvplan: undecided: the search found no plan that obeys")
    assert captured.err.count("\n") == 1
