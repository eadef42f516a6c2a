"""Variants and goal orders in one table: each row is the plan of its own problem."""

from __future__ import annotations

import pandas as pd
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver import plan
from kvplan.solver.explore import explore
from support.cases import CASES, load
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
DATA = {
    "ranks": [{"name": "r", "quota": 10_000}],
    "pools": [{"name": "kv", "bytes": 100}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {"name": "b", "requests": [{"name": "long", "capacity": 2000, "fit": "capacity"}]},
    ],
    "experts": {"slot_bytes": 300, "max_slots": 12},
    "goals": ["capacity:long", "experts"],
    "variants": [
        {"name": "fp8", "set": ["pools.kv.bytes=50"]},
        {"name": "a = b", "set": ["experts=null", "goals=[capacity:long]"]},
    ],
}
PROBLEM = Problem.model_validate(DATA)


def test_every_variant_at_every_quota() -> None:
    table = explore(PROBLEM, {"ranks.r.quota": [4000, 10_000], "variant": ["none", "fp8", "a = b"]})
    assert list(table.columns[:2]) == ["variant", "ranks.r.quota"]
    assert table["variant"].tolist() == ["none", "none", "fp8", "fp8", "a = b", "a = b"]
    # 16 tokens a block: 40 and 100 blocks; twice as many at 50 bytes, and 2,000 tokens need 125.
    assert table["capacity:long"].tolist() == [640, 1600, 1280, 2000, 640, 1600]
    assert table["experts"].tolist()[:4] == [0, 0, 0, 12]
    assert table["experts"].isna().tolist() == [False] * 4 + [True] * 2


def test_every_order_of_the_goals() -> None:
    orders = ["capacity:long > experts", "experts > capacity:long", "experts"]
    table = explore(PROBLEM, {"goals": orders})
    assert table["goals"].tolist() == orders
    assert table["experts"].tolist() == [0, 12, 12]
    # 10,000 - 12 x 300 leaves 64 blocks.
    assert table["capacity:long"].tolist() == [1600, 1024, 1024]


def test_a_row_is_the_plan_of_its_problem() -> None:
    problem = load("strata_765")
    table = explore(problem, {"goals": "experts > prefill", "ranks.*.quota": "15GiB,16GiB"})
    for row in table.to_dict("records"):
        own = load(
            "strata_765", f"ranks.*.quota={row['ranks.*.quota']}", "goals=[experts, prefill]"
        )
        answer = plan(own)
        assert (row["experts"], row["prefill"]) == (answer.expert_slots, answer.prefill_chunk)


def test_parts_kept_on_disk_are_of_each_problem(tmp_path: object) -> None:
    vary = {"goals": "experts > prefill,prefill > experts", "ranks.*.quota": "15GiB,16GiB"}
    told: list[tuple[int, int]] = []
    kept = explore(
        load("strata_765"),
        vary,
        keep_beside=f"{tmp_path}/x.csv",
        progress=lambda *at: told.append(at),
    )
    pd.testing.assert_frame_equal(kept, explore(load("strata_765"), vary))
    assert told[-1] == (4, 4)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({"variant": "fp9"}, "variant: expected 'fp8', got 'fp9'"),
        ({"variant": ""}, "variant: expected names, as A,B,C, got ''"),
        ({"goals": "experts,experts"}, "goals: expected each value once, got one twice"),
        ({"goals": "speed > experts"}, "goals: expected a variable: "),
    ],
)
def test_bad_names(vary: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        explore(PROBLEM, vary)
    assert str(caught.value.faults[0]).startswith(message)


def test_on_the_command_line(capsys: Capture) -> None:
    done = run_kvplan(
        capsys,
        "explore",
        CASES["strata_765"],
        "--vary",
        "goals=experts > prefill,prefill > experts",
    )
    assert (done.code, done.err) == (0, "")
    header, first, second = done.out.splitlines()
    assert header.startswith("goals,status,")
    assert first.startswith("experts > prefill,optimal,")
    assert second.startswith("prefill > experts,optimal,")
