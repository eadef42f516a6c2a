"""The given requests of a batch as columns, read once."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.models.demands import Batch, given_columns

ROW = st.fixed_dictionaries(
    {"capacity": st.integers(1, 9)},
    optional={
        "history": st.integers(0, 1),
        "count": st.integers(1, 3),
        "fit": st.sampled_from(["none", "capacity", "count"]),
    },
)


def batch(*requests: dict[str, Any]) -> Batch:
    return Batch.model_validate({"name": "b", "requests": requests})


def test_defaults_are_written_out_and_fitted_requests_left_out() -> None:
    columns = batch(
        {"capacity": 9},
        {"capacity": 8, "fit": "count"},
        {"capacity": 0, "count": 0},
        {"capacity": 7, "history": 2, "count": 3},
    ).given
    assert columns == ([9, 0, 7], [8, 0, 2], [1, 0, 3], (1,))


def test_no_request_is_no_row() -> None:
    assert batch().given == ([], [], [], ())
    assert batch({"capacity": 8, "fit": "count"}).given == ([], [], [], (0,))


@settings(deadline=None)
@given(st.lists(ROW, max_size=6))
def test_columns_are_what_the_requests_say(rows: list[dict[str, Any]]) -> None:
    requests = batch(*rows).requests
    plain = [request for request in requests if request.fit == "none"]
    assert given_columns(requests) == (
        [request.capacity for request in plain],
        [request.history_tokens for request in plain],
        [1 if request.count is None else request.count for request in plain],
        tuple(at for at, request in enumerate(requests) if request.fit != "none"),
    )


def test_they_are_kept_and_belong_to_this_batch_alone() -> None:
    one = batch({"capacity": 9}, {"capacity": 8})
    before = one.model_dump()
    assert one.given is one.given
    assert one.model_dump() == before
    assert one == batch({"capacity": 9}, {"capacity": 8})
    shorter = one.model_copy(update={"requests": one.requests[:1]})
    assert shorter.given.capacities == [9]
    for again in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert (again, again.given) == (one, one.given)
    with pytest.raises((AttributeError, ValueError)):
        one.given = shorter.given  # type: ignore[misc]
