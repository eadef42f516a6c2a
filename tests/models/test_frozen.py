"""A problem and a plan are immutable to their leaves."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from kvplan.models import Plan, Problem
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.solver import plan
from support.micro import micro, one
from support.rich import RICH

LIVING = (str, int, float, bool, type(None))


def containers(value: Any) -> Iterator[Any]:
    """Every value inside a model that could hold others, the model too."""
    if isinstance(value, BaseModel):
        yield value
        for _, part in value:
            yield from containers(part)
    elif isinstance(value, dict):
        yield value
        for part in value.values():
            yield from containers(part)
    elif isinstance(value, tuple | list | set):
        yield value
        for part in value:
            yield from containers(part)


@pytest.mark.parametrize("name", RICH)
def test_nothing_in_a_problem_can_change(name: str) -> None:
    problem = Problem.model_validate(RICH[name])
    kinds = {type(part) for part in containers(problem) if not isinstance(part, BaseModel)}
    assert kinds <= {tuple, FrozenDict}
    for part in containers(problem):
        if isinstance(part, BaseModel):
            with pytest.raises(ValidationError, match="frozen"):
                part.name = "another"  # type: ignore[attr-defined]


def test_nothing_in_a_plan_can_change() -> None:
    choices = [{"name": "c", "options": [{"name": "o", "bytes": 1}]}]
    answer = plan(micro(100, choices=choices, **one(33, fit="capacity")))
    assert answer.floors == {"p": 9}
    kinds = {type(part) for part in containers(answer) if not isinstance(part, BaseModel)}
    assert kinds == {tuple, FrozenDict}
    read = Plan.model_validate_json(answer.model_dump_json())
    assert read == answer
    assert isinstance(read.blocks, FrozenDict)


CHANGES: list[Callable[[Any], Any]] = [
    lambda mapping: mapping.__setitem__("0", 20),
    lambda mapping: mapping.__delitem__("0"),
    lambda mapping: mapping.__ior__({"0": 20}),
    lambda mapping: mapping.update({"0": 20}),
    lambda mapping: mapping.setdefault("1", 20),
    lambda mapping: mapping.pop("0"),
    lambda mapping: mapping.popitem(),
    lambda mapping: mapping.clear(),
]


@pytest.mark.parametrize("change", CHANGES)
def test_bytes_by_stage_refuse_every_change(change: Callable[[Any], Any]) -> None:
    problem = Problem.model_validate(
        {"ranks": [{"name": "r", "quota": 100}], "pools": [{"name": "p", "bytes": {"0": 10}}]}
    )
    with pytest.raises(TypeError, match="read-only mapping"):
        change(problem.pools[0].bytes)
    assert problem.pools[0].bytes == {"0": 10}


def test_a_frozen_mapping_is_a_dict_in_every_other_way() -> None:
    frozen = FrozenDict(a=1, b=2)
    assert frozen == {"b": 2, "a": 1}
    assert hash(frozen) == hash(FrozenDict(b=2, a=1))
    assert json.dumps(frozen) == '{"a": 1, "b": 2}'
    assert frozen | {"c": 3} == {"a": 1, "b": 2, "c": 3}
    for again in (pickle.loads(pickle.dumps(frozen)), copy.deepcopy(frozen), frozen.copy()):
        assert (again, type(again)) == (frozen, FrozenDict)


@pytest.mark.parametrize("name", RICH)
def test_a_problem_can_be_a_key(name: str) -> None:
    problem, again = (Problem.model_validate(RICH[name]) for _ in range(2))
    assert len({problem, again, copy.deepcopy(problem)}) == 1
    assert Problem.model_validate(problem.model_dump()) == problem


def test_a_copy_with_changes_is_frozen_too() -> None:
    answer = plan(micro(100, **one(33)))
    changed = answer.model_copy(update={"blocks": {"p": 1}})
    assert isinstance(changed.blocks, FrozenDict)
