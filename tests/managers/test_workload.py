"""Workload files: three forms, one copy of each, and every mistake by its path."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.solver.managers import is_off
from kvplan.solver.managers.environment import MOST_GROUPS, Settings, settings_of
from kvplan.solver.managers.mix import mix_of, requests_at_once
from kvplan.solver.managers.workload import Workload, load_workload


def load(folder: Path, text: str) -> Workload:
    path = folder / "workload.yaml"
    path.write_text(text)
    return load_workload(path)


@pytest.mark.parametrize(
    ("text", "copy"),
    [
        ("requests: [{capacity: 100}, {capacity: 7, count: 3}]", [(100, 1), (7, 3)]),
        ("mix: [{capacity: 10, share: 0.5}, {capacity: 20, share: 1.5}]", [(10, 1), (20, 3)]),
        ("mix: [{capacity: 10, share: 1/3}, {capacity: 20, share: 2/3}]", [(10, 1), (20, 2)]),
        ("quantiles: {p50: 10, p90: 20, p99: 30}", [(10, 5), (20, 4), (30, 1)]),
        ("quantiles: {p99.9: 30, p50: 10}", [(10, 1), (30, 1)]),
        ("quantiles: {p100: 30}", [(30, 1)]),
        ("quantiles: {p50: 10, p50.0: 10, p100: 30}", [(10, 1), (30, 1)]),
    ],
)
def test_one_copy_has_whole_counts_in_proportion(text: str, copy: Any, tmp_path: Path) -> None:
    workload = load(tmp_path, text)
    assert [tuple(alike) for alike in workload.copy_of_it] == copy
    assert workload.longest_tokens == max(capacity for capacity, _ in copy)
    total = sum(count for _, count in copy)
    shares = [Fraction(entry["share"]) for entry in mix_of(workload)]
    assert shares == [Fraction(count, total) for _, count in copy]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("prefixes: 3", "expected one of requests, mix or quantiles, got none"),
        ("{mix: [{capacity: 1, share: 1}], quantiles: {p50: 1}}", "got mix and quantiles"),
        ("mix: []", "mix: expected at least one length"),
        ("mix: [{capacity: 0, share: 1}]", r"mix\[0\]\.capacity: "),
        ("mix: [{capacity: 1, share: 0}]", r"mix\[0\]\.share: expected a share above 0, got 0"),
        ("mix: [{capacity: 1, part: 1}]", r"mix\[0\]\.part: .*got an unknown key"),
        ("quantiles: {half: 10}", "quantiles: expected a quantile above p0.*got 'half'"),
        ("quantiles: {p0: 10}", "a quantile above p0"),
        ("quantiles: {p50: 10, p90: 9}", "p90: expected at least the 10 tokens of p50, got 9"),
        ("[1]", "expected a mapping"),
    ],
)
def test_a_mistake_is_told_by_its_path(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match=fault):
        load(tmp_path, text)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match=r"none\.yaml: expected a readable file"):
        load_workload(tmp_path / "none.yaml")


def test_what_pools_hold_of_a_workload() -> None:
    """A request holds 4 blocks of tokens and a state; reserved blocks hold nothing."""
    data = {
        "tokens_per_block": 16,
        "pools": [{"name": "kv"}, {"name": "state", "reserved_blocks": 1, "multiple_of": 2}],
        "caches": [
            {"name": "kv", "pool": "kv", "kind": "full"},
            {"name": "state", "pool": "state", "kind": "state", "blocks": 2},
        ],
    }
    workload = Workload(requests=[{"capacity": 64, "count": 5}])
    assert requests_at_once(data, {"kv": 40, "state": 21}, workload) == 10
    assert requests_at_once(data, {"kv": 39, "state": 99}, workload) == 39 / 4
    assert requests_at_once(data, {"kv": 99, "state": 8}, workload) == 3  # 7 usable: 6 in pairs
    assert requests_at_once(data, {"kv": 99, "state": 0}, workload) == 0


def test_the_environment() -> None:
    assert settings_of({}) == Settings("off", None, strict=False, most_groups=MOST_GROUPS)
    given = {
        "KVPLAN": "apply",
        "KVPLAN_WORKLOAD": "w.yaml",
        "KVPLAN_STRICT": "1",
        "KVPLAN_MAX_GROUPS": "8",
    }
    assert settings_of(given) == Settings("apply", "w.yaml", strict=True, most_groups=8)
    assert settings_of({"KVPLAN": "", "KVPLAN_STRICT": "0", "KVPLAN_WORKLOAD": ""}) == Settings()
    assert [is_off({"KVPLAN": mode}) for mode in ("off", "", "check", "aply")] == [
        True,
        True,
        False,
        False,
    ]
