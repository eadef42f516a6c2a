"""ATOM's plan_pools from its own specs, on figures that its logs record; ATOM was not run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.solver import plan
from kvplan.solver.managers.atom import apply, question

KIMI_BLOCK, KIMI_STATE = 1_769_472, 56_171_520  # Kimi-K3 on eight ranks, 512 sequences
GLM_BLOCK = 1_486_080  # GLM-5.2 in bf16: 41.39 GB give 29,905 blocks


def page(size: int, name: str = "kv") -> Any:
    return SimpleNamespace(pool="PAGE", name=name, entry_bytes=size)


def state(size: int, each: int = 1, extra: int = 0, staging: int = 0, name: str = "kda") -> Any:
    return SimpleNamespace(
        pool=SimpleNamespace(name="STATE"),
        name=name,
        entry_bytes=size,
        entries_per_req=each,
        extra_entries=extra,
        staging_entries=staging,
    )


def sized(specs: list[Any], *available: int, requests: int = 512) -> Any:
    ranks = {f"r{rank}": quota for rank, quota in enumerate(available)}
    asked = question(specs, ranks, max_num_seqs=requests, block_tokens=16)
    return apply(plan(asked), specs)


def test_blocks_of_a_model_without_states() -> None:
    found = sized([page(GLM_BLOCK)], 44_441_222_400)
    assert found == {"num_kvcache_blocks": 29_905, "pool_entries": {}}


def test_states_come_first_and_blocks_take_the_rest() -> None:
    available = 512 * KIMI_STATE + 86_055 * KIMI_BLOCK + 1000
    specs = [state(KIMI_STATE), page(KIMI_BLOCK)]
    found = sized(specs, available)
    assert found == {"num_kvcache_blocks": 86_055, "pool_entries": {"kda": 512}}
    assert f"{512 * KIMI_STATE / 2**30:.2f}" == "26.78"  # as the guide says


def test_draft_tokens_and_spare_entries_are_counted() -> None:
    specs = [page(100), state(1000, each=4, extra=3, staging=2)]
    found = sized(specs, 10 * 4000 + 5000 + 777, requests=10)
    assert found == {"num_kvcache_blocks": 7, "pool_entries": {"kda": 45}}


def test_one_name_is_one_space_whose_bytes_add_up() -> None:
    assert sized([page(60), page(40)], 1000, requests=1)["num_kvcache_blocks"] == 10


def test_the_rank_with_least_decides() -> None:
    assert sized([page(100)], 1000, 899, 950, requests=1)["num_kvcache_blocks"] == 8


@pytest.mark.parametrize(
    ("specs", "text"),
    [
        ([page(1), page(1, "other")], "one PAGE pool, got 2"),
        ([state(1)], "one PAGE pool, got 0"),
        ([page(1), state(1), state(1, each=2)], r"specs\[2\]: expected 1 entries a request"),
        ([SimpleNamespace(pool="RING", name="x", entry_bytes=1)], "PAGE or STATE, got RING"),
    ],
)
def test_what_plan_pools_refuses_is_refused_by_name(specs: list[Any], text: str) -> None:
    with pytest.raises(InvalidProblem, match=text):
        sized(specs, 1000, requests=1)


def test_states_that_leave_no_block_are_refused_with_the_count_that_starts() -> None:
    with pytest.raises(Infeasible) as refused:
        sized([page(100), state(1000)], 10_099, requests=10)
    (fewer,) = [r for r in refused.value.remedies if r.text.startswith("--max-num-seqs")]
    assert fewer.to == 9
