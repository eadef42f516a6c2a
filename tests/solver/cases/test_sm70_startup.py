"""1Cat-vLLM on a V100: refused at 0.93, accepted at 0.98, and what its allocator leaves unused."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import oracle, plan
from support.cases import load

STARTUP = Path(__file__).parents[2] / "explain" / "cases" / "sm70_startup.yaml"
GIB, MIB = 2**30, 2**20
AT_98 = ("ranks.gpu.memory.utilization=0.98", "consumers.activations.bytes=1.674GiB")


def startup(*changes: str) -> Problem:
    return Problem.load(STARTUP, changes)


def gib(figure: int) -> str:
    return f"{figure / GIB:.3f}"


def test_093_is_refused_by_the_published_shortfall() -> None:
    with pytest.raises(Infeasible) as error:
        plan(startup())
    assert {gib(entry.bytes) for entry in error.value.shortfall} == {"1.395"}
    remedies = {remedy.change: remedy.to for remedy in error.value.remedies}
    assert remedies["ranks.gpu.memory.utilization"] == "0.98"


def test_098_is_accepted() -> None:
    problem = startup(*AT_98)
    answer = plan(problem)
    assert answer.blocks == {"paged": 140}
    assert answer.floors == {"paged": 137}
    assert answer.choices == {"gate_up": "tiled"}
    assert list(oracle.check(problem, answer)) == []
    fixed = sum(entry.bytes for entry in answer.ranks[0].ledger if entry.source == "declared")
    assert gib(answer.ranks[0].quota - fixed) == "4.405"


def test_a_dense_gemm_leaves_less_and_does_not_start() -> None:
    with pytest.raises(Infeasible):
        plan(startup(*AT_98, "choices.gate_up.options.tiled.bytes=676MiB"))


def test_an_allowance_for_the_allocator_refuses_what_ran_out_of_memory() -> None:
    problem = startup(*AT_98, "consumers.allocator.fraction=0.345")
    kept = problem.consumers[2].bytes
    assert isinstance(kept, int)
    assert 563 * MIB <= kept <= 592 * MIB
    with pytest.raises(Infeasible) as error:
        plan(problem)
    least = min(entry.bytes for entry in error.value.shortfall)
    assert least == kept - (plan(startup(*AT_98)).ranks[0].slack + 3 * 32 * MIB)


def test_context_is_weighed_against_latency() -> None:
    """84 MiB of scratch are 2,048 tokens of context: dear or cheap beside 0.72 % of latency."""
    dear, cheap = load("sm70_scratch"), "goals[0].curves.capacity:long=[[0,0],[65536,16]]"
    answers = [plan(dear), plan(load("sm70_scratch", cheap))]
    assert [answer.choices["down"] for answer in answers] == ["tiled", "dense"]
    assert [answer.requests[0].capacity for answer in answers] == [20_480, 18_432]
    assert {answer.choices["gate_up"] for answer in answers} == {"tiled"}


@pytest.mark.parametrize("fraction", ["0", "1/3", "0.345", "1"])
def test_a_share_is_rounded_up_on_every_rank(fraction: str) -> None:
    data = {
        "ranks": [{"name": f"r{s}", "stage": s, "quota": 1000} for s in (0, 1)],
        "pools": [{"name": "p", "bytes": 10}],
        "caches": [{"name": "c", "kind": "full"}],
        "consumers": [
            {"name": "scratch", "bytes": {"0": 100, "r1": 301}},
            {"name": "allocator", "fraction": fraction, "of": "scratch", "phases": ["prefill"]},
        ],
    }
    problem = Problem.model_validate(data)
    share = problem.consumers[1].fraction
    assert share is not None
    answer = plan(problem)
    used = [rank.phases["prefill"] for rank in answer.ranks]
    blocks = answer.blocks["p"] * 10
    expected = [-(-share.numerator * n // share.denominator) for n in (100, 301)]
    assert used == [100 + expected[0] + blocks, 301 + expected[1] + blocks]
    assert blocks == (1000 - 301 - expected[1]) // 10 * 10
    assert list(oracle.check(problem, answer)) == []
    again = Problem.model_validate(problem.model_dump(mode="json", exclude_unset=True))
    assert again == problem
    assert "bytes" not in problem.model_dump(exclude_unset=True)["consumers"][1]
    assert Problem.model_validate(problem.model_dump(mode="json")) == problem
