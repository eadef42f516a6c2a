"""`--set path=value`: changes of single fields before validation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvplan.models import InvalidProblem, Problem
from kvplan.models.reading.overrides import apply_overrides, split_path
from support.rich import STAGED


@pytest.mark.parametrize(
    ("override", "where", "value"),
    [
        ("name=other", ("name",), "other"),
        ("ranks.0.quota=10GiB", ("ranks", 0, "quota"), "10GiB"),
        ("ranks[0].quota=10GiB", ("ranks", 0, "quota"), "10GiB"),
        ("ranks.tp0.quota=10GiB", ("ranks", 0, "quota"), "10GiB"),
        (
            "batches.chat.requests.fitted.capacity=4096",
            ("batches", 0, "requests", 1, "capacity"),
            4096,
        ),
        ("batches[0].requests[1].capacity=4096", ("batches", 0, "requests", 1, "capacity"), 4096),
        ("pools.paged.buffers.keys.bytes.0=7", ("pools", 0, "buffers", 0, "bytes", 0), 7),
        ("fill=none", ("fill",), "none"),
        ("fill={pools: [paged]}", ("fill",), {"pools": ["paged"]}),
        ("goals=[prefill, experts]", ("goals",), ["prefill", "experts"]),
        ("goals[0]=prefill", ("goals", 0), "prefill"),
        ("ranks.tp1.memory.other.new=1GiB", ("ranks", 1, "memory", "other", "new"), "1GiB"),
        ("constraints.0.terms.blocks:paged=2", ("constraints", 0, "terms", "blocks:paged"), 2),
        (" tokens_per_block = 32 ", ("tokens_per_block",), 32),
        ("experts=", ("experts",), None),
    ],
)
def test_an_override_sets_one_place(override: str, where: tuple[Any, ...], value: Any) -> None:
    before = copy.deepcopy(STAGED)
    changed = apply_overrides(STAGED, [override])
    at = changed
    for step in where[:-1]:
        at = at[step]
    assert at.pop(where[-1]) == value
    assert before == STAGED
    original: Any = copy.deepcopy(STAGED)
    for step in where[:-1]:
        original = original[step]
    if where[-1] in original or isinstance(original, list):
        original.pop(where[-1])
    assert at == original


TERMS = {"constraints": [{"terms": {"choice:s=a": 5, "choice:s=v1.2": 6}, "max": 3}], "name": "x"}

AT_TERMS = ("constraints", 0, "terms")


@pytest.mark.parametrize(
    ("override", "where", "value"),
    [
        ("constraints[0].terms.choice:s=a=1", (*AT_TERMS, "choice:s=a"), 1),
        ("constraints[0].terms.choice:s=b=1", (*AT_TERMS, "choice:s=b"), 1),
        ("constraints[0].terms.choice:s=b=c=1", (*AT_TERMS, "choice:s=b=c"), 1),
        (
            "constraints[0].terms['choice:s=v1.2']=1",
            (*AT_TERMS, "choice:s=v1.2"),
            1,
        ),
        (
            'constraints[0].terms["choice:t=v2.0"]=1',
            (*AT_TERMS, "choice:t=v2.0"),
            1,
        ),
        ("constraints[0].max = 4", ("constraints", 0, "max"), 4),
        ("name=a=b", ("name",), "a=b"),
    ],
)
def test_a_key_that_holds_an_equals_sign_is_reached(
    override: str, where: tuple[Any, ...], value: Any
) -> None:
    at: Any = apply_overrides(TERMS, [override])
    for step in where:
        at = at[step]
    assert at == value


def test_a_star_is_every_item() -> None:
    data = apply_overrides(STAGED, ["pools.*.min_blocks=5", "experts.layers.*=3"])
    assert [pool["min_blocks"] for pool in data["pools"]] == [5, 5]
    assert data["experts"]["layers"] == {0: 3, 1: 3}


def test_overrides_come_before_validation_and_in_order() -> None:
    changes = ("resume_utilization=0.5", "resume_utilization=0.97", "ranks[*].stage=0")
    data = apply_overrides({"ranks": [{"name": "r", "quota": 1}]}, changes)
    assert Problem.model_validate(data).resume_utilization.as_integer_ratio() == (97, 100)


def test_items_that_are_one_object_are_changed_one_by_one() -> None:
    rank = {"name": "r", "quota": 1}
    data = {"ranks": [rank, rank]}
    changed = apply_overrides(data, ["ranks.0.quota=2"])
    assert [each["quota"] for each in changed["ranks"]] == [2, 1]
    changed = apply_overrides(data, ["ranks.*.memory={free: 1}", "ranks.0.memory.free=2"])
    assert [each["memory"]["free"] for each in changed["ranks"]] == [2, 1]


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("ranks", "--set: expected path=value, got 'ranks'"),
        ("=1", "--set: expected path=value, got '=1'"),
        ("", "--set: expected path=value, got ''"),
        ("a..b=1", "--set: expected a path such as ranks.0.quota, got 'a..b'"),
        ("ranks[x].quota=1", "--set: expected a path such as ranks.0.quota, got 'ranks[x].quota'"),
        (
            "ranks.tp9.quota=1",
            "ranks.tp9.quota: expected one of tp0, tp1, or an index below 2, got 'tp9'",
        ),
        (
            "ranks.2.quota=1",
            "ranks.2.quota: expected one of tp0, tp1, or an index below 2, got '2'",
        ),
        (
            "ranks.-1.quota=1",
            "ranks.-1.quota: expected one of tp0, tp1, or an index below 2, got '-1'",
        ),
        ("poools.0.bytes=1", "poools.0.bytes: expected 'pools', got 'poools'"),
        (
            "version.x=1",
            "version.x: expected a mapping or a list before the last key, got 1",
        ),
        ("name=[", "--set name: expected JSON or YAML, got "),
        ("name=!!python/none x", "--set name: expected plain values, got the tag"),
        (
            "ranks." + "9" * 5000 + ".x=1",
            "9.x: expected one of tp0, tp1, or an index below 2, got '999",
        ),
    ],
)
def test_an_override_that_leads_nowhere_is_one_clear_line(override: str, line: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        apply_overrides(STAGED, [override])
    (fault,) = caught.value.faults
    assert line in str(fault)
    assert str(fault).isprintable()
    assert len(str(fault)) < 400


def test_a_star_over_nothing_is_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"pools.\*.min_blocks: expected a path that leads"):
        apply_overrides({"pools": []}, ["pools.*.min_blocks=1"])


@pytest.mark.parametrize("data", [None, [], "text", 5])
def test_overrides_of_what_is_no_mapping(data: Any) -> None:
    with pytest.raises(InvalidProblem, match=r"a.b: expected a .*, got "):
        apply_overrides(data, ["a.b=1"])


def test_paths_split_alike_in_both_forms() -> None:
    assert split_path("ranks[0].memory.total") == split_path("ranks.0.memory.total")
    assert split_path("*") == ["*"]


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.one_of(st.text(alphabet="ranks.[]*0123=:{} \n", max_size=30), st.text(max_size=30)))
@example("ranks.0=")
@example("*=1")
@example("*.*=1")
@example("ranks[*].*=")
@example("\ud800=\ud800")
def test_any_override_changes_a_copy_or_is_refused(override: str) -> None:
    before = copy.deepcopy(STAGED)
    try:
        apply_overrides(STAGED, [override])
    except InvalidProblem as error:
        faults = [str(fault) for fault in error.faults]
    else:
        faults = []
    assert all(fault.isprintable() for fault in faults)
    assert before == STAGED


@pytest.mark.parametrize(
    ("change", "kept"),
    [("ranks.*.quota=8GiB", "quota"), ("ranks.0.memory={free: 9GiB}", "memory")],
)
def test_a_quota_and_readings_take_each_others_place(change: str, kept: str) -> None:
    """What `kvplan model` prints has readings; --set ranks.*.quota=... is what people type."""
    for rank in ({"name": "r", "quota": 1}, {"name": "r", "memory": {"free": "1GiB"}}):
        changed = apply_overrides({"ranks": [rank]}, [change])
        assert changed["ranks"][0].keys() == {"name", kept}
        assert Problem.model_validate(changed).ranks[0].quota_bytes >= 8 * 2**30
