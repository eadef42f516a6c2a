"""kvplan explain, and solve --advise: exit codes, both forms, and what they hold."""

from __future__ import annotations

import io
import json
import shlex
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from kvplan.models import Plan
from kvplan.solver.explain import explain
from kvplan.solver.report import explanation_of
from kvplan.solver.report.terminal import print_document
from support.cases import CASES, load
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
CASE = CASES["strata_765"]
SHORT = ("--set", "ranks.gpu.quota=5.8GiB")
TWO = Path(__file__).parent / "cases" / "two_phases.yaml"


def test_a_plan_is_explained_with_exit_0(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explain", CASE)
    assert (done.code, done.err) == (0, "")
    for title in ("what binds", "where the answer changes next", "what 1 GiB more buys"):
        assert f"\n{title}\n" in done.out
    rows = [line.split() for line in done.out.splitlines()]
    assert ["gpu", "+", "1_844_865", "B", "(1.76", "MiB)", "experts", "3_565", "3_566"] in rows
    experts = next(row for row in rows if row[:1] == ["experts"] and "solved" in row)
    text = " ".join(experts)
    assert "284.48 MiB 53.34 GiB solved" in text, "bytes at the floor, and as asked"


def test_a_plan_is_explained_as_one_document(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explain", CASE, "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert Plan.model_validate(document["plan"]).expert_slots == 3565
    assert document["break_points"][0] == {
        "rank": "gpu",
        "bytes": 1_844_865,
        "changes": [{"goal": "experts", "from": "3565", "to": "3566"}],
    }
    assert document["worth_of_1_gib"][0]["changes"][0]["to"] == "4025"
    lines = {(line["rank"], line["consumer"]): line for line in document["budget"]}
    experts = lines["gpu", "experts"]
    slot = 2_330_461
    assert (experts["floor"], experts["bytes"]) == (128 * slot, 3565 * slot)
    assert experts["requested"] == 24_576 * slot
    assert lines["gpu", "reserve"]["floor"] is None


@pytest.mark.parametrize("command", ["explain", "solve"])
def test_a_refusal_has_conflict_and_remedies(command: str, capsys: Capture) -> None:
    done = run_kvplan(capsys, command, CASE, *SHORT)
    assert (done.code, done.err) == (1, "")
    assert "\ncannot hold together" in done.out
    assert "request context: 524_288 tokens" in done.out
    assert "ranks.gpu.quota=" in done.out
    done = run_kvplan(capsys, command, CASE, *SHORT, "--json")
    document = json.loads(done.out)
    assert {"conflict", "remedies", "ruled_out", "shortfall"} <= document.keys()
    remedy = document["remedies"][0]
    assert remedy.keys() == {"change", "from", "to", "text"}
    assert (
        run_kvplan(capsys, "solve", CASE, "--set", f"{remedy['change']}={remedy['to']}").code == 0
    )


def test_a_remedy_is_followed_from_the_shell_as_it_is_printed(capsys: Capture) -> None:
    done = run_kvplan(capsys, "explain", TWO)
    assert done.code == 1
    table = done.out.split("the smallest change of its kind")[1].split("\n\n")[0]
    flags = [shlex.split(line)[-1] for line in table.splitlines()[3:] if "=" in line]
    assert len(flags) > 4
    for flag in flags:
        assert run_kvplan(capsys, "solve", TWO, "--set", flag).code == 0, flag


def test_advise_prints_a_plan_under_lowered_floors_and_exits_0(capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", TWO, "--advise")
    assert (done.code, done.err) == (0, "")
    assert "NOT what was asked for, these floors were lowered:" in done.out
    done = run_kvplan(capsys, "solve", TWO, "--advise", "--json")
    answer = Plan.model_validate(json.loads(done.out))
    assert answer.relaxed
    assert all(text.startswith(("experts: ", "prefill: ")) for text in answer.relaxed)


def test_advise_without_a_way_out_explains_and_exits_0(capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", TWO, "--advise", "--set", "relax=[experts]")
    assert done.code == 0
    assert "infeasible" in done.out
    assert "cannot hold together" in done.out


def test_a_plan_that_was_not_relaxed_says_nothing(capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", CASE, "--advise", "--json")
    assert json.loads(done.out)["relaxed"] == []
    assert "NOT what" not in run_kvplan(capsys, "solve", CASE, "--advise").out


@pytest.mark.parametrize("width", [50, 80, 200])
def test_an_explanation_fits_a_terminal(width: int) -> None:
    problem = load("strata_765")
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    print_document(explanation_of(explain(problem), problem), console)
    lines = file.getvalue().splitlines()
    assert any(line.startswith("where the answer changes next") for line in lines)
    assert max(cell_len(line) for line in lines if "note:" not in line) <= width
