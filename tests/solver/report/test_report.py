"""What a report says and how it is drawn, on plans built by hand."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from rich.cells import cell_len

from kvplan.models import Infeasible, Plan, Problem, Shortfall
from kvplan.models.plan import LedgerLine, RankPlan
from kvplan.solver import plan
from kvplan.solver.report import report
from kvplan.solver.report.machine import json_of
from kvplan.solver.report.phrases import rank_runs, share
from support.plans import GIB, plan_of, rank_plan, refusal

PLAN = """\
optimal (solver cp-sat): every goal proven by CP-SAT, confirmed by the nested search

plan
decision        chosen   asked  unit              remark
---------------------------------------------------------------------
blocks:kv        3_072          blocks allocated  floor 668 usable
prefill          8_192          tokens a chunk
experts            760          slots a layer     129 stay in prefill
capacity:long   10_688  65_536  tokens            reduced
choice:scratch   tiled          option
copies               3          whole batches

budget of r0
consumer         phases                     bytes              of quota  source     note
-------------------------------------------------------------------------------------------
kv               prefill decode   6_442_450_944 B  (6.00 GiB)    37.5 %  solved
arena            all              1_073_741_824 B  (1.00 GiB)     6.3 %  declared
buffers          prefill          2_147_483_648 B  (2.00 GiB)    12.5 %  estimated
-------------------------------------------------------------------------------------------
used in load                      1_073_741_824 B  (1.00 GiB)     6.3 %
used in prefill                   9_663_676_416 B  (9.00 GiB)    56.3 %             binding
used in decode                    7_516_192_768 B  (7.00 GiB)    43.8 %
-------------------------------------------------------------------------------------------
quota                            17_179_869_184 B (16.00 GiB)   100.0 %  declared
slack                             7_516_192_768 B  (7.00 GiB)    43.8 %

what binds
rank  phase              slack             one more of         needs
--------------------------------------------------------------------------------
r0    prefill  7_516_192_768 B (7.00 GiB)  blocks:kv     2_097_152 B  (2.00 MiB)
                                           prefill      67_108_864 B (64.00 MiB)

note: prefill: requested 24576, clamped to 8192: rank r0 is short in prefill

goals, in order of priority
goal            value   bound
-------------------------------------
capacity:long  10_688  10_688  proven

digest 0123456789abcdef
"""

REFUSAL = """\
infeasible: no plan satisfies everything that was asked
  rank r0: short by 1073741824 B in prefill

shortfall, with everything elastic at its floor
rank  phase           short by
-----------------------------------------
r0    prefill  1_073_741_824 B (1.00 GiB)

budget of r0: over its quota
"""


def lines_with(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]


def test_plain_report_of_a_plan() -> None:
    assert report(plan_of()) == PLAN


def test_plain_report_of_a_refusal_names_what_is_short_and_marks_it() -> None:
    text = report(refusal())
    assert text.startswith(REFUSAL)
    (line,) = lines_with(text, "used in prefill")
    assert line.endswith("112.5 %             OVER by 1_073_741_824 B (1.00 GiB)")
    (line,) = lines_with(text, "slack")
    assert line.endswith("-1_073_741_824 B (-1.00 GiB)   -12.5 %")


def test_refusal_without_budget_has_its_reasons_only() -> None:
    text = report(Infeasible(["constraints[0] cannot hold"]))
    assert text == (
        "infeasible: no plan satisfies everything that was asked\n  constraints[0] cannot hold\n"
    )


def test_plain_text_is_ascii_where_names_are_and_has_no_trailing_space() -> None:
    for answer in (plan_of(), refusal()):
        text = report(answer)
        assert text.isascii()
        assert "\x1b" not in text
        assert not re.search(r" +$", text, re.MULTILINE)


def test_the_problem_adds_its_name_and_what_was_asked() -> None:
    problem = Problem.model_validate(
        {
            "name": "my card",
            "ranks": [{"name": "r0", "quota": "16GiB"}],
            "pools": [{"name": "kv", "bytes": "2MiB"}],
            "batches": [{"name": "busy", "requests": []}],
            "prefill": {"requested": 24_576, "min": 256, "step": 256},
            "experts": {"slot_bytes": "2MiB", "max_slots": 900},
            "choices": [{"name": "scratch", "options": [{"name": "dense"}, {"name": "tiled"}]}],
            "fill": {"batch": "busy"},
        }
    )
    text = report(plan_of(), problem)
    assert text.startswith("my card\noptimal (solver cp-sat)")
    assert "prefill          8_192  24_576  tokens a chunk    reduced" in text
    assert "experts            760     900  slots             129 stay in prefill, reduced" in text
    assert "choice:scratch   tiled   dense  option            not the best" in text
    assert "copies:busy          3" in text


def test_huge_names_are_neither_cut_nor_wrapped() -> None:
    name = "n" * 200
    line = LedgerLine(consumer=name, bytes=1, source="solved", phases=("decode",))
    rank = rank_plan(name, ledger=(line, *rank_plan().ledger))
    rows = report(plan_of(rank, blocks={name: 5}, floors={name: 5})).splitlines()
    assert any(row.startswith(f"blocks:{name}  ") for row in rows)
    assert f"budget of {name}" in rows
    (row,) = [row for row in rows if row.startswith(f"{name} ") and "decode" in row]
    (other,) = [row for row in rows if row.startswith("kv ")]
    assert row.index(" B ") == other.index(" B "), "integers end in one column"


@pytest.mark.parametrize("quota", [0, -5 * GIB])
def test_a_quota_of_nothing_or_less_has_no_shares(quota: int) -> None:
    rank = rank_plan(quota=quota)
    text = report(refusal(rank))
    (row,) = lines_with(text, "kv ")
    assert row.endswith("-  solved")
    assert f"{quota:_} B" in text


def test_alike_ranks_share_a_table_and_are_counted() -> None:
    text = report(plan_of(*[rank_plan(f"r{i}") for i in range(64)]))
    assert "budget of r0..r63 (64 ranks alike)" in text
    assert text.count("budget of") == 1
    assert "tightest" not in text


def test_of_unlike_ranks_the_tightest_is_marked() -> None:
    ranks = [rank_plan(f"r{i}", quota=(15 if i == 5 else 16) * GIB) for i in range(8)]
    text = report(plan_of(*ranks))
    assert "budget of r0..r4, r6, r7 (7 ranks alike)" in text
    assert "budget of r5: tightest" in text
    (row,) = lines_with(text, "r5 ")
    assert row.endswith("6_442_450_944 B (6.00 GiB)  tightest")


def test_many_unlike_ranks_have_a_row_each_and_the_tightest_their_tables() -> None:
    ranks = [rank_plan(f"r{i}", quota=16 * GIB + (i * 7) % 64) for i in range(64)]
    text = report(plan_of(*ranks))
    assert all(len(lines_with(text, f"r{i} ")) >= 1 for i in range(64))
    assert text.count("budget of") == 8
    assert "the 8 tightest of 64 different budgets follow; --json has all" in text
    assert "budget of r0: tightest" in text
    assert "budget of r9\n" not in text, "63 B more than the tightest"


def test_a_binding_rank_is_marked_in_the_table_of_its_group() -> None:
    ranks = [rank_plan(f"r{i}") for i in range(3)]
    binding = [{"rank": "r2", "phase": "decode", "slack": 5, "next": {}}]
    text = report(plan_of(*ranks, binding=binding))
    (row,) = lines_with(text, "used in decode")
    assert row.endswith("binding")
    (row,) = lines_with(text, "r2 ")
    assert row == "r2    decode    5 B"


def test_no_pools_no_requests_no_consumers() -> None:
    bare: dict[str, Any] = {
        "blocks": {},
        "floors": {},
        "prefill_chunk": None,
        "expert_slots": None,
        "expert_slots_in_prefill": None,
        "choices": {},
        "copies": None,
        "requests": [],
        "binding": [],
        "notes": [],
    }
    rank = rank_plan(ledger=(), phases={"load": 0}, used=0, slack=GIB, quota=GIB)
    text = report(plan_of(rank, **bare))
    budget = text[text.index("budget of r0") :].split("\n\n")[0].splitlines()
    assert [row.split("  ")[0] for row in budget[2:] if row[0] != "-"] == [
        "used in load",
        "quota",
        "slack",
    ]
    assert "plan\n" not in text
    assert "what binds" not in text


def test_unicode_names_keep_the_columns_aligned() -> None:
    line = LedgerLine(consumer="注意力缓存", bytes=GIB, source="solved", phases=("decode",))
    rank = rank_plan(ledger=(line, *rank_plan().ledger))
    rows = [row for row in report(plan_of(rank)).splitlines() if row.startswith(("注", "kv "))]
    ends = {cell_len(row[: row.index(" B ")]) for row in rows if " B " in row}
    assert len(ends) == 1


def test_a_derived_quota_shows_its_terms_and_the_bound_that_ruled() -> None:
    readings = (
        LedgerLine(consumer="total", bytes=80 * GIB, source="measured"),
        LedgerLine(
            consumer="utilization share", bytes=16 * GIB, source="solved", note="sets the quota"
        ),
    )
    rank = rank_plan(bound="utilization", ledger=(*readings, *rank_plan().ledger))
    rows = report(plan_of(rank)).splitlines()
    (share_row,) = [row for row in rows if row.startswith("utilization share")]
    assert share_row.endswith("solved             sets the quota")
    (quota,) = [row for row in rows if row.startswith("quota ")]
    assert quota.endswith("100.0 %  utilization share")
    assert rows.index(share_row) > rows.index(next(r for r in rows if r.startswith("used in")))


def request(**fields: Any) -> dict[str, Any]:
    asked = {"capacity": 4096, "history": 4095, "count": 1, **fields.pop("requested", {})}
    base = {"batch": "one", "name": "a", "capacity": 4096, "history": 4095, "count": 1}
    return {**base, "requested": asked, "reduced": False, **fields}


def test_counts_are_shown_where_they_are_not_the_one_that_was_asked() -> None:
    requests = [
        request(name="open", count=387, requested={"count": None}),
        request(name="cut", count=279, requested={"count": 512}, reduced=True, batch="two"),
        request(name="one"),
    ]
    text = report(plan_of(requests=requests))
    assert re.search(r"^count:open +387 +any +requests +in one$", text, re.MULTILINE)
    assert re.search(r"^count:cut +279 +512 +requests +in two, reduced$", text, re.MULTILINE)
    assert "count:one" not in text


def test_of_many_requests_the_reduced_ones_are_listed_and_the_others_counted() -> None:
    requests = [request(name=f"q{i}") for i in range(1_023)]
    cut = request(name="cut", capacity=100, history=99, reduced=True)
    text = report(plan_of(requests=[*requests, cut]))
    assert "capacity:cut" in text
    assert "capacity:q0" not in text
    assert re.search(r"^1_023 further requests +as asked$", text, re.MULTILINE)


def test_a_plan_that_is_not_proven_says_what_is_open() -> None:
    proof = {
        "solver": "bisect",
        "status": "feasible",
        "bound": [
            {"goal": "prefill", "value": 4096, "bound": 4096},
            {"goal": "1/3 experts", "value": "700/3", "bound": "710/3"},
            {"goal": "blocks:kv", "value": 7, "bound": None},
        ],
        "certificate": "search",
        "deterministic_time": 0,
    }
    text = report(plan_of(status="feasible", proof=proof))
    assert text.startswith(
        "feasible (solver bisect): 1 of 3 goals proven, the others within their bounds\n"
    )
    assert "1/3 experts  700/3  710/3  not proven" in text
    assert "blocks:kv        7   none  not proven" in text


@pytest.mark.parametrize(
    ("count", "quota", "text"),
    [
        (1, 3, "33.3 %"),
        (1, 2_000, "0.1 %"),
        (1, 2_001, "0.0 %"),
        (3, 2, "150.0 %"),
        (-1, 3, "-33.3 %"),
        (-1, 10_000, "0.0 %"),
        (2**62, 2**63 - 1, "50.0 %"),
        (5, 0, "-"),
    ],
)
def test_share(count: int, quota: int, text: str) -> None:
    assert share(count, quota) == text


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ("0", "r0"),
        ("01", "r0, r1"),
        ("0123", "r0..r3"),
        ("0126", "r0..r2, r6"),
        ("02468", "r0, r2, r4, r6, r8"),
        ("0134679", "r0, r1, r3, r4, r6, r7, ..."),
    ],
)
def test_rank_runs(members: str, text: str) -> None:
    names = [f"r{i}" for i in range(10)]
    assert rank_runs(names, {f"r{i}" for i in members}) == text


def test_json_of_a_plan_reads_back_as_the_plan() -> None:
    plan = plan_of(rank_plan("注意"))
    text = json_of(plan)
    assert text.isascii()
    assert Plan.model_validate(json.loads(text)) == plan


def test_json_of_a_refusal() -> None:
    document = json.loads(json_of(refusal()))
    advice = {"conflict", "remedies", "ruled_out"}
    assert set(document) == {"status", "reasons", "shortfall", *advice, "ranks"}
    assert document["status"] == "infeasible"
    assert document["reasons"] == ["rank r0: short by 1073741824 B in prefill"]
    assert document["shortfall"] == [{"rank": "r0", "phase": "prefill", "bytes": GIB}]
    assert RankPlan.model_validate(document["ranks"][0]) == rank_plan(quota=8 * GIB)


def test_alike_shortfalls_are_one_row() -> None:
    ranks = [rank_plan(f"r{i}", quota=8 * GIB) for i in range(8)]
    text = report(refusal(*ranks))
    assert "r0..r7  prefill  1_073_741_824 B (1.00 GiB)" in text
    other = report(Infeasible(["x"], [Shortfall("only", "load", 5)]))
    assert "only  load        5 B" in other


def test_of_very_many_reasons_the_first_are_listed_and_the_others_counted() -> None:
    text = report(refusal(*[rank_plan(f"r{i}", quota=8 * GIB) for i in range(64)]))
    assert len(lines_with(text, "  rank r")) == 8
    assert "\n  and 56 more; the tables below group them, --json has all\n" in text
    assert "r0..r63  prefill  1_073_741_824 B (1.00 GiB)" in text


def test_a_weighted_goal_shows_what_each_part_is_worth() -> None:
    curve = {"prefill": [[256, 10], [1024, 30]]}
    data = SHAPE | {"goals": [{"maximize": {"prefill": 2, "experts": "1/2"}, "curves": curve}]}
    problem = Problem.model_validate(data)
    answer = plan(problem)
    (row,) = [line for line in report(answer, problem).splitlines() if "2 prefill +" in line]
    slots = answer.expert_slots
    assert slots is not None
    half = f"{slots // 2}" if slots % 2 == 0 else f"{slots}/2"
    assert row.endswith(f"2 x (1_024 prefill) = 60, 1/2 x {slots} experts = {half}")


@pytest.mark.parametrize(
    ("more", "hinted"),
    [({}, True), ({"experts": {"slot_bytes": 1}}, False), ({"goals": ["blocks:kv"]}, False)],
)
def test_where_nothing_is_fitted_the_next_question_is_named(
    more: dict[str, Any], hinted: bool
) -> None:
    problem = Problem.model_validate(GIVEN | more)
    assert ("fit: capacity (or fit: count) on a request" in report(plan(problem), problem)) == (
        hinted
    )


GIVEN: dict[str, Any] = {
    "ranks": [{"name": "r", "quota": 1000}],
    "pools": [{"name": "kv", "bytes": 10}],
    "caches": [{"name": "c", "kind": "full"}],
    "batches": [{"name": "b", "requests": [{"name": "q", "capacity": 100}]}],
}
SHAPE: dict[str, Any] = GIVEN | {
    "prefill": {"requested": 1024, "min": 256, "step": 256},
    "experts": {"slot_bytes": 10, "max_slots": 50},
}
