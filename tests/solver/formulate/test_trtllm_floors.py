"""Floors of TensorRT-LLM's KVCacheManagerV2 (min_slots), for every configuration at hand."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible
from kvplan.solver import plan
from support.trtllm import CONFIGS, problem_of

# Floors that differ on purpose. "random 34" has scratch reuse beside a shared prefix: the engine
# counts blocks of the prefix as scratch, too, and subtracts them from a request's own blocks (which
# may so fall below zero); here scratch begins behind the prefix.
DIFFERENT = {"random 34": [422, 115, 522]}
LIMITED = [
    name for name, c in CONFIGS.items() if any("max_slots" in layer for layer in c["layers"])
]


@pytest.mark.parametrize("name", [name for name in CONFIGS if name not in LIMITED])
def test_floors_are_the_engines(name: str) -> None:
    answer = plan(problem_of(CONFIGS[name], quota="1PiB"))
    assert [*answer.floors.values()] == DIFFERENT.get(name, CONFIGS[name]["min_slots"])
    assert answer.blocks == answer.floors


def test_only_the_named_floors_differ() -> None:
    different = [name for name in DIFFERENT if DIFFERENT[name] != CONFIGS[name]["min_slots"]]
    assert different == ["random 34"]


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_below_the_floor_is_refused(name: str) -> None:
    config = CONFIGS[name]
    with pytest.raises(Infeasible):
        plan(problem_of(config, quota="1PiB"))
    free = [{k: v for k, v in layer.items() if k != "max_slots"} for layer in config["layers"]]
    answer = plan(problem_of({**config, "layers": free}, quota="1PiB"))
    assert [*answer.floors.values()] == config["min_slots"]
