"""Bytes: quotas from readings, pages of granules, staging, slots, consumers, phases."""

from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.models.ranks import Rank
from kvplan.solver.oracle import memory
from support.micro import micro, pool

MIB, GIB = 2**20, 2**30


def quota(**readings: Any) -> Any:
    return memory.quota_of(Rank.model_validate({"name": "r", "memory": readings}))


def test_a_declared_quota() -> None:
    declared: Any = memory.quota_of(Rank.model_validate({"name": "r", "quota": 7}))
    assert declared == (7, {"declared"}, None)


def test_every_term_is_charged_once() -> None:
    terms = {"peak_torch": 1, "non_torch": 20, "graphs": 300, "connector": 4000}
    other = {"x": 50_000, "y": 600_000}
    shares = {"total": 10_000_001, "utilization": "1/2", "safety": 7_000}
    assert quota(**shares, **terms, other=other).bytes == 5_000_000 - 661_321
    assert quota(free=9_000, connector=4_000, prefill_headroom=500).bytes == 4_500


def test_the_smaller_share_rules() -> None:
    readings = {"total": 1000, "utilization": 0.9}
    assert quota(**readings, free=950) == (900, {"utilization"}, None)
    assert quota(**readings, free=850) == (850, {"physical"}, None)
    assert quota(**readings, free=900) == (900, {"utilization", "physical"}, None)
    # A fraction of a byte counts as taken: 0.0005 of 1000 is one byte.
    assert quota(**readings, safety={"fraction": "1/2000"}).bytes == 899
    assert quota(total=1000, free=900, prefill_headroom={"fraction": 0.0801}).bytes == 819
    assert quota(total=100, utilization=1, peak_torch=90, non_torch=40).bytes == -30


def test_headroom_from_staging_leaves_a_limit_of_its_own() -> None:
    staged = {"prefill_headroom": "from_staging", "connector": 100}
    assert quota(total=1000, utilization=0.9, free=990, **staged) == (800, {"utilization"}, 890)
    assert quota(total=1000, utilization=0.9, **staged) == (800, {"utilization"}, None)


@pytest.mark.parametrize(
    ("needed", "granule", "laid_out"), [(0, 7, 0), (1, 7, 7), (7, 7, 7), (8, 7, 14), (5, 1, 5)]
)
def test_pages(needed: int, granule: int, laid_out: int) -> None:
    assert memory.pages(needed, granule) == laid_out


@pytest.mark.parametrize(
    ("bytes_", "granule"),
    [
        (-5, 2),
        (0, 2),
        (GIB, 2),
        (2 * GIB - 1, 2),
        (2 * GIB, 4),
        (4 * GIB, 8),
        (8 * GIB, 16),
        (16 * GIB - 1, 16),
        (16 * GIB, 32),
        (200 * GIB, 32),
    ],
)
def test_auto_granule(bytes_: int, granule: int) -> None:
    assert memory.auto_granule(bytes_) == granule * MIB


def test_every_buffer_is_an_allocation_of_its_own() -> None:
    buffers = [{"bytes": 10, "granule": 16}, {"bytes": 3, "granule": 16}, {"bytes": 1}]
    spot = micro(**pool(buffers=buffers)).pools[0]
    assert memory.pool_bytes(spot, 0, 100, 4) == 48 + 16 + 4
    assert memory.pool_bytes(spot, 0, 100, 0) == 0
    auto = micro(**pool(bytes=MIB, granule="auto")).pools[0]
    assert memory.pool_bytes(auto, 0, GIB, 3) == 4 * MIB
    assert memory.pool_bytes(auto, 0, 16 * GIB, 3) == 32 * MIB


def staged(*entries: dict[str, Any], stages: int = 1) -> Problem:
    ranks = [{"name": f"r{i}", "stage": i, "quota": 100} for i in range(stages)]
    named = [{"name": str(index), **entry} for index, entry in enumerate(entries)]
    return micro(ranks=ranks, prefill={"requested": 8, "staging": named})


def test_staging_is_rounded_up_once_and_laid_out() -> None:
    assert memory.staging_bytes(staged({"base": 5, "per_token": "4/3"}), 0, 8) == 16
    assert memory.staging_bytes(staged({"per_token": "4/3"}, {"per_token": "4/3"}), 0, 7) == 20
    assert memory.staging_bytes(staged({"base": 5, "granule": 4}), 0, 8) == 8
    assert memory.staging_bytes(micro(), 0, None) == 0


@pytest.mark.parametrize(("chunk", "taken"), [(1, 10), (2, 10), (3, 30), (8, 31)])
def test_staging_by_table(chunk: int, taken: int) -> None:
    assert memory.staging_bytes(staged({"table": [[2, 10], [4, 30], [9, 31]]}), 0, chunk) == taken


def test_staging_by_group_and_stage() -> None:
    entries = ({"base": 5}, {"base": 30, "group": "g"}, {"base": 70, "group": "g", "stage": 1})
    problem = staged(*entries, stages=2)
    assert [memory.staging_bytes(problem, stage, 8) for stage in (0, 1)] == [35, 75]


def test_slots_of_several_sizes() -> None:
    experts = {"slot_bytes": [[2, 10], [1, 5]], "layers": {"0": 3, "1": 0}, "granule": 4}
    ranks = [{"name": f"r{i}", "stage": i, "quota": 100} for i in range(2)]
    known = micro(ranks=ranks, experts=experts).experts
    assert known is not None
    assert [memory.expert_bytes(known, 0, slots) for slots in range(4)] == [0, 32, 60, 76]
    assert memory.expert_bytes(known, 1, 3) == 0


def test_a_rank_of_its_own_name_goes_before_its_stage() -> None:
    ranks = [{"name": name, "stage": stage, "quota": 1} for name, stage in (("a", 0), ("b", 0))]
    ranks.append({"name": "c", "stage": 1, "quota": 1})
    consumer = {"name": "w", "bytes": {"b": 3, "0": 7}}
    problem = micro(ranks=ranks, pools=[], caches=[], consumers=[consumer])
    taken = [memory.fixed_bytes(problem.consumers[0], rank) for rank in problem.ranks]
    assert taken == [7, 3, 0]


def test_what_lives_in_which_phase() -> None:
    problem = micro(
        consumers=[{"name": "w", "bytes": 1000}, {"name": "d", "bytes": 2000, "phases": ["draft"]}],
        choices=[{"name": "c", "options": [{"name": "o", "bytes": 40_000, "phases": ["load"]}]}],
        prefill={"requested": 8, "staging": [{"name": "s", "base": 100_000}]},
        experts={"slot_bytes": 100, "lend": {}},
    )
    residents = memory.Residents({"p": 5}, 8, 7, 3, problem.choices[0].options)
    assert memory.usage(problem, problem.ranks[0], residents) == {
        "load": 41_000,
        "prefill": 1000 + 50 + 300 + 100_000,
        "decode": 1000 + 50 + 700,
        "draft": 3000 + 50 + 700,
    }
