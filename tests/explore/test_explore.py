"""Tables: every row is the plan of its problem, and those without one stay."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver import plan
from kvplan.solver.explore import explore
from support.cases import CASES, load
from support.explored import RICH, expected_row, records

PROBLEM = Problem.model_validate(RICH)
QUOTA = "ranks.*.quota"
CAPACITY = "batches.long.requests.one.capacity"


def check_row(row: dict[str, object], problem: Problem) -> None:
    """A row says what the plan says, and has nothing where the plan has nothing."""
    expected = expected_row(problem)
    decided = {name: value for name, value in row.items() if "." not in name}
    decided.pop("resume_utilization", None)
    for name, value in decided.items():
        if not name.startswith("copies:"):
            assert value == expected.get(name), name


DECLARED = [name for name in CASES if all(rank.quota for rank in load(name).ranks)]


@pytest.mark.parametrize("name", DECLARED)
def test_a_sweep_of_quotas_is_the_plan_of_each(name: str) -> None:
    quota = min(rank.quota or 0 for rank in load(name).ranks)
    values = [quota * share // 8 for share in (1, 4, 7, 8, 9)]
    table = explore(load(name), {QUOTA: values})
    assert list(table[QUOTA]) == values
    for row, value in zip(records(table), values, strict=True):
        check_row(row, load(name, f"{QUOTA}={value}"))


def test_most_cases_declare_their_quota() -> None:
    assert len(DECLARED) >= 8


@pytest.mark.parametrize("name", CASES)
def test_a_sweep_of_another_field_is_the_plan_of_each(name: str) -> None:
    table = explore(load(name), {"resume_utilization": "0.5,0.97,1"})
    assert list(table["resume_utilization"]) == [0.5, 0.97, 1]
    for row, value in zip(records(table), ("0.5", "0.97", "1"), strict=True):
        check_row(row, load(name, f"resume_utilization={value}"))


def test_a_grid_has_a_row_for_each_combination() -> None:
    vary = {
        "ranks.r0.quota": "5MiB:45MiB:20MiB",
        CAPACITY: "20000,40000",
        "experts.min_slots": [4],
    }
    table = explore(PROBLEM, vary)
    quotas, capacities = table["ranks.r0.quota"].tolist(), table[CAPACITY].tolist()
    assert quotas == [5 * 2**20] * 2 + [25 * 2**20] * 2 + [45 * 2**20] * 2
    assert capacities == [20000, 40000] * 3
    for row, quota, capacity in zip(records(table), quotas, capacities, strict=True):
        changes = (f"ranks.r0.quota={quota}", f"{CAPACITY}={capacity}")
        check_row(row, Problem.model_validate(apply_overrides(RICH, changes)))
    assert set(table["status"]) == {"optimal", "infeasible"}


def test_the_columns_are_what_there_is_to_decide() -> None:
    table = explore(PROBLEM, {CAPACITY: [40000]})
    assert list(table) == [
        CAPACITY,
        "status",
        "blocks:kv",
        "blocks:state",
        "capacity:one",
        "count:many",
        "prefill",
        "experts",
        "experts_in_prefill",
        "copies:chat",
        "choice:scratch",
        "slack",
        "shortfall",
        "tightest_rank",
        "tightest_phase",
    ]
    assert {str(table[name].dtype) for name in list(table)[2:10]} == {"Int64"}
    assert list(table["status"].cat.categories) == ["optimal", "feasible", "infeasible"]
    small = explore(load("strata_765"), {"ranks.gpu.quota": ["15.4GiB"]})
    assert [name for name in small if ":" in name] == ["blocks:kv"]
    assert "experts_in_prefill" not in small


def test_copies_are_those_of_the_plan() -> None:
    small = {"batches.long.requests.one.capacity": "1024", "batches.chat.requests.many.count": "9"}
    (row,) = records(explore(PROBLEM, small))
    changes = [f"{path}={value}" for path, value in small.items()]
    answer = plan(Problem.model_validate(apply_overrides(RICH, changes)))
    assert answer.copies is not None
    assert row["copies:chat"] == answer.copies > 1


def test_infeasible_rows_stay_with_what_is_short() -> None:
    table = explore(load("strata_765"), {QUOTA: "5GiB:6GiB:512MiB"})
    assert list(table["status"]) == ["infeasible", "infeasible", "optimal"]
    shortfall = table["shortfall"]
    assert shortfall[0] - shortfall[1] == 2**29
    assert shortfall.isna().tolist() == [False, False, True]
    assert table["slack"].isna().tolist() == [True, True, False]
    assert table["prefill"].isna().tolist() == [True, True, False]
    assert table["tightest_phase"].tolist()[:2] == ["prefill", "prefill"]


def test_a_pool_that_is_limited_lacks_no_bytes() -> None:
    data = {
        "ranks": [{"name": "r", "quota": "1GiB"}],
        "pools": [{"name": "kv", "bytes": 1024, "max_blocks": 10}],
        "caches": [{"name": "c", "kind": "full"}],
        "batches": [{"name": "b", "requests": [{"name": "q", "capacity": 160}]}],
    }
    table = explore(Problem.model_validate(data), {"batches.b.requests.q.capacity": [160, 161]})
    assert list(table["status"]) == ["optimal", "infeasible"]
    assert table.loc[1, ["shortfall", "tightest_rank", "tightest_phase"]].isna().all()


def test_an_auto_granule_follows_the_quota_of_its_row() -> None:
    data = {
        "ranks": [{"name": "r", "quota": "1GiB"}],
        "pools": [{"name": "kv", "bytes": 5000, "granule": "auto"}],
        "caches": [{"name": "c", "kind": "full"}],
    }
    quotas = [2 * 2**30 - 1, 2 * 2**30, 4 * 2**30 - 1, 4 * 2**30 + 3 * 2**20, 2**30]
    table = explore(Problem.model_validate(data), {QUOTA: quotas})
    granules = [2, 4, 4, 8, 2]  # MiB
    blocks = [q // (g << 20) * (g << 20) // 5000 for q, g in zip(quotas, granules, strict=True)]
    assert list(table["blocks:kv"]) == blocks


def test_values_are_whole_numbers_where_they_can_be() -> None:
    table = explore(PROBLEM, {"ranks.r0.quota": "60MiB,61MiB", "resume_utilization": [1, 0.5]})
    assert table["ranks.r0.quota"].dtype == np.int64
    assert table["resume_utilization"].dtype == np.float64
    huge = explore(PROBLEM, {"ranks.r0.quota": [2**53 + 1, 2**62]})
    assert list(huge["ranks.r0.quota"]) == [2**53 + 1, 2**62]
    thirds = explore(PROBLEM, {"experts.lend.fraction": [Fraction(1, 3)]})
    assert list(thirds["experts.lend.fraction"]) == [1 / 3]


def test_progress_counts_the_rows() -> None:
    calls: list[tuple[int, int]] = []
    explore(PROBLEM, {CAPACITY: [1000, 2000, 3000]}, progress=lambda *call: calls.append(call))
    assert calls[-1] == (3, 3)
    assert calls == sorted(calls)


def test_the_problem_is_left_as_it_was() -> None:
    before = PROBLEM.model_copy(deep=True)
    first = explore(PROBLEM, {CAPACITY: [1000, 2000]})
    assert before == PROBLEM
    pd.testing.assert_frame_equal(first, explore(PROBLEM, {CAPACITY: range(1000, 2001, 1000)}))


def test_nothing_heavy_is_imported_before_the_first_table() -> None:
    code = (
        "import sys, kvplan.solver.explore\n"
        "print([n for n in ('ortools', 'pandas', 'pyarrow', 'torch', 'rich') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_shortfall_beyond_64_bits_is_refused_with_its_row() -> None:
    """2^62 blocks of 2^20 bytes are 2^82 bytes, less the quota."""
    data = {
        "ranks": [{"name": "r0", "quota": 1}],
        "tokens_per_block": 1,
        "pools": [{"name": "kv", "bytes": 2**20}],
        "caches": [{"name": "full", "kind": "full"}],
        "batches": [{"name": "b", "requests": [{"capacity": 1}]}],
    }
    vary = {"batches.b.requests.0.capacity": [1, 2**62], "ranks.r0.quota": "0:20:1"}
    with pytest.raises(InvalidProblem) as caught:
        explore(Problem.model_validate(data), vary)
    assert f"got {2**82} (with" in str(caught.value)
    assert f"capacity={2**62}, ranks.r0.quota=0)" in str(caught.value)


def test_arguments_of_another_type_are_refused_in_one_line() -> None:
    with pytest.raises(InvalidProblem, match=r"^problem: expected a Problem .*, got str$"):
        explore("two.yaml", {"tokens_per_block": "1,2"})  # type: ignore[arg-type]
    with pytest.raises(InvalidProblem, match=r"^vary: expected a mapping .*, got list$"):
        explore(PROBLEM, ["ranks.*.quota"])  # type: ignore[arg-type]
