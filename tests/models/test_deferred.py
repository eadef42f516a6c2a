"""Plans whose costly fields are written late: nobody can tell from the outside."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import TypeAdapter

from kvplan.models import KvplanError, Plan
from kvplan.solver import Planner
from support.micro import micro, one

PLANNER = Planner(micro(**one(33, fit="capacity")))


def unread() -> Plan:
    return PLANNER.plan(quota=70)


WAYS: list[Callable[[Plan], Any]] = [
    lambda plan: plan.model_dump(),
    lambda plan: plan.model_copy().model_dump(),
    lambda plan: Plan.model_validate(dict(plan)).model_dump(),
    lambda plan: copy.copy(plan).model_dump(),
    lambda plan: copy.deepcopy(plan).model_dump(),
    lambda plan: pickle.loads(pickle.dumps(plan)).model_dump(),
    lambda plan: Plan.model_validate_json(plan.model_dump_json()).model_dump(),
    lambda plan: TypeAdapter(list[Plan]).dump_python([plan])[0],
]


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_see_a_plan_shows_the_whole(way: Callable[[Plan], Any]) -> None:
    whole = unread()
    assert whole.digest
    assert way(unread()) == whole.model_dump()


def test_an_unread_plan_equals_a_read_one() -> None:
    read = unread()
    assert f"digest='{read.digest}'" in repr(unread())
    assert unread() == read
    assert unread() != unread().model_copy(update={"digest": "another"})


def test_a_copy_made_before_reading_can_be_resized_and_a_pickle_cannot() -> None:
    plan = unread()
    for again in (copy.copy(plan), copy.deepcopy(plan), plan.model_copy()):
        assert again.resize(100).blocks == {"p": 10}
    with pytest.raises(KvplanError, match="read from a file"):
        pickle.loads(pickle.dumps(unread())).resize(100)


def test_threads_may_read_one_plan_at_once() -> None:
    expected = unread().digest
    with ThreadPoolExecutor(8) as threads:
        for _ in range(50):
            plan = unread()
            assert set(threads.map(lambda _, p=plan: p.digest, range(8))) == {expected}


def test_what_was_never_given_is_an_attribute_error() -> None:
    assert not hasattr(Plan.model_construct(status="optimal"), "digest")
    assert not hasattr(unread(), "another")
