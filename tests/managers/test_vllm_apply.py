"""A plan as vLLM's KVCacheConfigs: on recorded objects, and by vLLM's real planning functions."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from kvplan.models import InvalidProblem, Plan
from kvplan.solver import plan
from kvplan.solver.managers import vllm
from kvplan.solver.managers.guard import LeftAlone
from kvplan.solver.managers.vllm import configs, seams
from kvplan.solver.managers.vllm.configs import allocated_bytes
from kvplan.solver.managers.vllm.start import start_of
from kvplan.solver.managers.workload import Workload
from support.engines import run_script
from support.vllm import cases
from support.vllm_objects import objects
from support.vllm_planning import AVAILABLE, VERSION, Engine, config, specs

EXPECTED = Workload(requests=[{"capacity": 3000}])
OWN, PLANNED = [4, 4, 4, 4, 3, 3, 3, 4], [2] * 12 + [1, 2, 2]
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setitem(sys.modules, seams.UTILS, made)
    return made


def planned(workload: Workload | None) -> Plan:
    return plan(vllm.question(config(), [specs()], [AVAILABLE], workload, version=VERSION))


def applied(answer: Plan, available: int = AVAILABLE) -> Any:
    return vllm.apply(answer, config(), [specs()], [available], version=VERSION)


def sizes(made: Any) -> list[int]:
    return [len(group.layer_names) for group in made.kv_cache_groups]


@pytest.mark.parametrize(("workload", "groups"), [(None, OWN), (EXPECTED, PLANNED)])
def test_the_groups_blocks_and_bytes_are_the_plans(
    workload: Workload | None, groups: list[int], engine: Engine
) -> None:
    kept = engine.get_kv_cache_groups
    answer = planned(workload)
    (made,) = applied(answer)
    assert sizes(made) == groups
    assert made.num_blocks == answer.blocks["paged"]
    assert allocated_bytes(made) == answer.ranks[0].used
    assert engine.get_kv_cache_groups == kept


def test_a_cap_on_the_groups_is_part_of_the_question() -> None:
    given = (config(), [specs()], [AVAILABLE], EXPECTED)
    asked = vllm.question(*given, version=VERSION, most_groups=8)
    assert asked == vllm.question(*given[:3], version=VERSION)


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (
            {"extra_blocks": 1},
            r"kv_cache_configs\[0\]\.num_blocks: expected 4096 blocks.* got 4097",
        ),
        ({"extra_bytes": 7}, r"kv_cache_configs\[0\]\.kv_cache_tensors: expected \d+ B.* got \d+"),
    ],
)
def test_an_engine_that_sizes_otherwise_is_refused(
    more: dict[str, int], where: str, engine: Engine
) -> None:
    vars(engine).update(more)
    with pytest.raises(InvalidProblem, match=where):
        applied(planned(EXPECTED))


@pytest.mark.usefixtures("engine")
def test_a_plan_for_other_bytes_is_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"plan\.question: expected a plan of question"):
        applied(planned(None), AVAILABLE - 1)


def test_groups_that_are_not_the_planned_ones_are_refused(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = engine.get_kv_cache_groups
    monkeypatch.setattr(engine, "get_kv_cache_groups", lambda *_: list(reversed(groups(*_))))
    with pytest.raises(InvalidProblem, match=r"kv_cache_groups: expected groups of \[4, 4"):
        applied(planned(None))


def test_marked_groups_are_left_alone(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = engine.get_kv_cache_groups

    def marked(*given: Any) -> list[Any]:
        found = groups(*given)
        vars(found[0])["is_eagle_group"] = True
        return list(found)

    monkeypatch.setattr(engine, "get_kv_cache_groups", marked)
    with pytest.raises(LeftAlone, match="EAGLE"):
        applied(planned(EXPECTED))


CASES = {
    name: case
    for name, case in cases().items()
    if name.startswith("windows-00") and "refused" not in case.answer
}


@pytest.mark.parametrize("name", CASES)
def test_recorded_starts_find_the_width_that_was_asked(name: str) -> None:
    """What vLLM sized by itself is a plan of its own groups, whatever the version."""
    config, specs, available, version = objects(CASES[name])
    answer = plan(vllm.question(config, specs, available, version=version))
    start = start_of(config, specs, available, version)
    assert configs.planned_width(start, answer) == 0
    assert [answer.blocks["paged"]] * len(available) == CASES[name].for_workers("blocks")
    with pytest.raises(InvalidProblem, match=r"plan\.question"):
        configs.planned_width(replace(start, override_blocks=3), answer)


class Tensor:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


@pytest.mark.parametrize(
    ("tensors", "expected"),
    [
        ([{"size": 60, "layers": []}, {"size": 60, "layers": []}], 60),
        ([{"size": 30, "shared_by": []}, {"size": 30, "shared_by": []}], 60),
        ([{"size": 60, "shared_by": [], "block_stride": 20}] * 2, 60),
    ],
)
def test_bytes_of_the_tensors_of_every_version(
    tensors: list[dict[str, Any]], expected: int
) -> None:
    made = Tensor(num_blocks=3, kv_cache_tensors=[Tensor(**each) for each in tensors])
    assert allocated_bytes(made) == expected


@pytest.mark.parametrize(("sources", "stages"), [("", ()), ("vllm-0.33.0", ("15", "14"))])
def test_vllms_real_planning_arrives_at_the_plan(sources: str, stages: tuple[str, ...]) -> None:
    found = run_script("vllm-0.32.0", "vllm_apply.py", *stages, sources=sources, **QUIET).answer
    for sized in (found["own"], found["workload"]):
        assert sized["types"] == ["KVCacheConfig"]
        assert sized["blocks"] == [sized["planned"]] * max(1, len(stages))
        assert sized["bytes"] == sized["used"]
    assert len(found["own"]["groups"]) == 8
    assert len(found["workload"]["groups"]) == 15
    assert found["workload"]["planned"] > found["own"]["planned"]
    assert "plan.question" in found["refused"]["text"]
