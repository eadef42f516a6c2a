"""Answers where figures are wide: worths beyond 2^53, steps of bytes, weights of nothing."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Plan, Problem
from kvplan.models.plan import Solver
from kvplan.solver import plan
from kvplan.solver.oracle import best, check
from support.decisions import expected, found
from support.micro import micro, one

SOLVERS: list[Solver] = ["auto", "cp-sat"]


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_gap_beyond_the_doubles_is_not_closed(solver: Solver) -> None:
    """275400000000000344 and ...352 are the same double."""
    sizes = {"p": 15, "q": 10, "r": 51}
    weights = {"blocks:p": 1500000000000002, "blocks:q": 10**15, "blocks:r": 5100000000000003}
    pools = [{"name": name, "bytes": size} for name, size in sizes.items()]
    answer = plan(micro(2754, pools=pools, caches=[], goals=[{"maximize": weights}]), solver=solver)
    assert answer.proof.bound[0].value == 275400000000000352


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_conditional_row_of_two_variables_is_not_multiplied_out(solver: Solver) -> None:
    """CP-SAT proves false optima where coefficient x bound leaves 64 bits: here a curve's piece."""
    curves = {
        "blocks:p": [["3/2", 4], ["13/2", 15], ["23/2", 37], ["43/2", 59]],
        "experts": [["7/2", "45/7"], ["19/2", "56/1000003"], ["47/2", "56/11"]],
    }
    goal = {"maximize": {"blocks:p": -1, "experts": 1}, "curves": curves}
    pools = [{"name": "p", "bytes": 6, "min_blocks": 4}]
    experts = {"slot_bytes": 5, "max_slots": 9}
    problem = micro(217, pools=pools, experts=experts, goals=[goal], fill="none")
    assert found(plan(problem, solver=solver)) == expected(best(problem))


@pytest.mark.parametrize("solver", SOLVERS)
def test_many_chunks_of_many_bytes_are_compared(solver: Solver) -> None:
    """The same in a stretch of a chunk's bytes: the smallest chunk leaves most for the blocks."""
    table = [[1024, 382963308], [8192, 1073741824], [40000, 2147483648]]
    staging = [{"name": "s", "per_token": 2**20}, {"name": "u", "table": table}]
    problem = micro(
        200789733433,
        tokens_per_block=16,
        pools=[{"name": "p", "bytes": 16384}, {"name": "q", "bytes": 16384}],
        caches=[{"name": "c", "pool": "q", "kind": "window", "keep": "live", "window": 1024}],
        prefill={"requested": 16384, "step": 512, "staging": staging},
        goals=[{"maximize": {"blocks:q": 1, "blocks:p": 2, "capacity:q": 2}}],
        fill={"batch": "b"},
        **one(1048576, fit="capacity"),
    )
    assert plan(problem, solver=solver).prefill_chunk == 512


def test_worlds_below_the_best_are_no_winners() -> None:
    """A goal that weighs two wide variables with 0 leaves its choice to decide."""
    options = [{"name": "a", "bytes": 50}, {"name": "b"}]
    goal = {"maximize": {"choice:c": 1, "experts": 0, "blocks:p": 0}}
    problem = micro(
        choices=[{"name": "c", "options": options}],
        experts={"slot_bytes": 10},
        goals=[goal, "experts"],
    )
    assert plan(problem).choices == {"c": "a"}


@pytest.mark.parametrize("most", [9, 10, 11])
def test_max_blocks_within_a_page_is_a_split_too(most: int) -> None:
    pools = [
        {"name": "p", "bytes": 7, "granule": 50, "max_blocks": most},
        {"name": "q", "bytes": 40},
    ]
    row = [{"terms": {"blocks:p": 1, "blocks:q": 1}, "min": most + 1}]
    problem = micro(140, pools=pools, caches=[], constraints=row, fill="none")
    assert found(plan(problem)) == expected(best(problem))


@pytest.mark.parametrize("solver", SOLVERS)
def test_lent_slots_are_not_multiplied_out(solver: Solver) -> None:
    slots = 160 * 10**9
    lent = (slots * 123456789 - 2**64) // 10**9  # what 64 bits would leave
    problem = micro(
        slots + 1000,
        pools=[{"name": "p", "bytes": 7}, {"name": "q", "bytes": 13}],
        caches=[],
        experts={
            "slot_bytes": 1,
            "min_slots": slots,
            "max_slots": slots,
            "lend": {"fraction": "123456789/1000000000"},
        },
        consumers=[{"name": "c", "bytes": 800 + lent, "phases": ["prefill"]}],
        goals=[{"maximize": {"blocks:p": 1, "blocks:q": 2}}],
    )
    assert plan(problem, solver=solver).blocks == {"p": 1, "q": 76}


SETTINGS: list[dict[str, Any]] = [
    {"pools": [], "caches": [], **one(8, fit="capacity")},
    {"pools": [], "caches": [], **one(8, count=5, fit="count")},
]


@pytest.mark.parametrize("sections", SETTINGS)
def test_a_request_without_pools_is_weighed(sections: dict[str, Any]) -> None:
    fit = sections["batches"][0]["requests"][0]["fit"]
    goal = {"maximize": {f"{fit}:q": 1, "experts": 1}}
    problem = micro(experts={"slot_bytes": 10}, goals=[goal], **sections)
    answer = plan(problem)
    assert (answer.proof.certificate, found(answer)) == ("cp-sat", expected(best(problem)))


def test_a_weight_beyond_64_bits_on_nothing() -> None:
    goal = {"maximize": {"experts": 2**62, "blocks:p": "1/3"}}
    answer = plan(micro(experts={"slot_bytes": 1000}, goals=[goal]))
    assert answer.blocks == {"p": 10}


def test_a_worth_beyond_64_bits_is_written_and_read() -> None:
    goal = {"maximize": {"blocks:p": 2**62, "experts": "-1/7"}}
    answer = plan(Problem.model_validate(micro(experts={"slot_bytes": 10}, goals=[goal])))
    again = Plan.model_validate_json(answer.model_dump_json())
    assert again.proof.bound[0].value == answer.proof.bound[0].value == 10 * 2**62


@pytest.fixture
def _a_gibibyte_more() -> Iterator[None]:
    """No more than 1 GiB of memory beside what the process has mapped already."""
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**30, hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (before, hard))


CREEPING: dict[str, Any] = {
    "ranks": [{"name": "r0", "quota": 375520933382}],
    "tokens_per_block": 16,
    "resume_utilization": "3/7",
    "pools": [
        {
            "name": "p0",
            "buffers": [
                {"name": "a", "bytes": 2, "granule": 2},
                {"name": "b", "bytes": 4, "granule": 4},
            ],
            "reserved_blocks": 1,
            "multiple_of": 2,
        },
        {"name": "p1", "bytes": 4, "granule": 2},
    ],
    "caches": [
        {"name": "c0", "pool": "p1", "groups": 2}
        | {"kind": "window", "keep": "live", "window": 3 * 10**10},
        {"name": "c1", "pool": "p0", "kind": "window", "keep": "live"}
        | {"window": 10**10, "sink": 40000000003},
    ],
    "batches": [
        {
            "name": "b0",
            "requests": [
                {"name": "q00", "capacity": 10**11, "count": 3},
                {"name": "q01", "capacity": 6 * 10**10}
                | {"fit": "capacity", "min_capacity": 4 * 10**10, "count": 1},
            ],
        },
        {
            "name": "b1",
            "requests": [{"name": "q10", "capacity": 10**11, "fit": "count", "count": 3 * 10**10}],
        },
    ],
    "goals": [
        {
            "maximize": {"count:q10": "1/2", "blocks:p0": 1, "blocks:p1": 2},
            "curves": {
                "count:q10": [[0, -3 * 10**10]],
                "blocks:p1": [[10**10, 5e10], [5 * 10**10, -3e10], [8 * 10**10, -2e10]],
            },
        },
        "capacity:q01",
    ],
    "fill": "none",
}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.usefixtures("_a_gibibyte_more")
def test_bounds_that_creep_through_huge_domains_take_neither_memory_nor_minutes(
    solver: Solver,
) -> None:
    """Three linear rows lower each other's bounds by one, over 10^10 values: 5 GB within a call."""
    problem = Problem.model_validate(CREEPING)
    began = time.process_time()
    answer = plan(problem, solver=solver, deadline=2)
    assert time.process_time() - began < 4
    assert check(problem, answer) == []
    bound = answer.proof.bound[0]
    assert bound.bound is not None
    assert bound.value <= bound.bound <= 3 * bound.value
