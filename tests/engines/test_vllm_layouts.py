"""vLLM's own pool sizing on random layouts: every figure of 0.19.0, 0.25.1, 0.33.0 and its packed
layout, by kvplan's plan."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines.vllm.adapter import printed
from kvplan.models.engines.vllm.figures import concurrency, printed_tokens
from kvplan.models.engines.vllm.pool_problem import (
    POOL,
    blocks_of_request,
    group_blocks,
    longest_length,
    overridden,
)
from kvplan.solver import plan
from support.vllm import cases

CASES = cases()
LAID_OUT = {name: case for name, case in CASES.items() if case.answer.get("refused") != "groups"}
UNGROUPED = sorted(CASES.keys() - LAID_OUT.keys())
STARTED = {name: case for name, case in LAID_OUT.items() if "refused" not in case.answer}
REFUSED = {name: case for name, case in LAID_OUT.items() if "refused" in case.answer}


def test_the_cases_are_all_there() -> None:
    assert len(CASES) == 400
    assert [len(part) for part in (STARTED, REFUSED, UNGROUPED)] == [309, 83, 8]


@pytest.mark.parametrize("name", LAID_OUT)
def test_groups_pages_and_blocks(name: str) -> None:
    case = LAID_OUT[name]
    layout, serving = case.server.layout, case.server.serving
    length = case.answer.get("length", serving.length_tokens)
    found = [
        (
            group.layers,
            group.spec.block_tokens,
            group.block_bytes if mixed else group.spec.page_bytes,
            group_blocks(group.spec, serving, length),
        )
        for group, mixed in zip(layout.groups, case.mixed, strict=True)
    ]
    assert found == case.groups


@pytest.mark.parametrize("name", LAID_OUT)
def test_bytes_and_the_longest_length(name: str) -> None:
    case = LAID_OUT[name]
    server = case.server
    layout, serving, workers = server.layout, server.serving, server.workers
    block_bytes = [layout.block_bytes(worker.stage) for worker in workers]
    if "block_bytes" in case.answer:
        assert block_bytes == case.for_workers("block_bytes")
    needed = blocks_of_request(layout, serving, serving.length_tokens)
    assert [needed * one for one in block_bytes] == case.for_workers("needed")
    override = case.data.get("num_gpu_blocks_override")
    if override and serving.version.override_replaces_memory:
        workers = overridden(layout, workers, override)
    lengths = [longest_length(layout, serving, [worker]) for worker in workers]
    assert lengths == case.for_workers("longest")


@pytest.mark.parametrize("name", STARTED)
def test_the_plan_is_what_the_engine_does(name: str) -> None:
    case = STARTED[name]
    server = case.server
    layout, serving = server.layout, server.serving
    answer = plan(server.problem())
    blocks, length = answer.blocks[POOL], case.answer["length"]
    assert [blocks] * len(server.workers) == case.for_workers("blocks")
    assert [rank.used for rank in answer.ranks] == case.for_workers("allocated")
    assert concurrency(layout, serving, blocks, length) == case.answer["concurrency"]
    assert printed_tokens(layout, serving, blocks, length) == case.answer["tokens"]
    if "num_gpu_blocks_override" not in case.data:
        assert answer.requests[0].capacity == length
        assert answer.floors[POOL] == blocks_of_request(layout, serving, length)


def test_an_override_of_019_may_hold_less_than_the_length_and_the_plan_says_how_much() -> None:
    case = STARTED["windows-099 0.19.0"]
    server = case.server
    request = plan(server.problem()).requests[0]
    assert case.answer["length"] == 262_144
    held = [n for n in range(300, 500) if blocks_of_request(server.layout, server.serving, n) <= 50]
    assert (request.capacity, request.reduced) == (max(held), True)


@pytest.mark.parametrize("name", STARTED)
def test_the_log_lines_of_a_start(name: str) -> None:
    case = STARTED[name]
    lines = printed(case.server, plan(case.server.problem()))
    assert lines["GPU KV cache size"] == f"{case.answer['tokens']:,} tokens"
    label = f"Maximum concurrency for {case.answer['length']:,} tokens per request"
    assert lines[label] == f"{case.answer['concurrency']:.2f}x"


@pytest.mark.parametrize("name", REFUSED)
def test_a_length_that_does_not_fit_is_refused(name: str) -> None:
    with pytest.raises(Infeasible):
        plan(REFUSED[name].server.problem())


@pytest.mark.parametrize("name", UNGROUPED)
def test_pages_that_do_not_divide_are_refused_by_older_versions(name: str) -> None:
    with pytest.raises(InvalidProblem, match="pages that divide the largest one"):
        _ = CASES[name].server
