"""The sections `relax` and `variants` of a problem: what is refused, and how it is said."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan import Infeasible, InvalidProblem, Problem, plan

DATA: dict[str, Any] = {
    "ranks": [{"name": "r0", "quota": 1000}],
    "pools": [{"name": "kv", "bytes": 1}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [
        {
            "name": "b",
            "requests": [
                {"name": "twice", "capacity": 4},
                {"name": "fitted", "capacity": 9, "fit": "capacity"},
                {"capacity": 4},
            ],
        },
        {"name": "c", "requests": [{"name": "twice", "capacity": 4}]},
    ],
}


def faults(**parts: Any) -> list[str]:
    with pytest.raises(InvalidProblem) as caught:
        Problem.model_validate({**DATA, **parts})
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("relax", "line"),
    [
        (["blocks:kw"], "relax[0]: expected a variable with a floor: 'blocks:kv', got 'blocks:kw'"),
        (["experts"], "relax[0]: expected a variable with a floor: one of blocks:kv,"),
        (["capacity:twice"], "relax[0]: expected a variable with a floor"),
        (["count:fitted"], "relax[0]: expected a variable with a floor"),
        (["blocks:kv", "blocks:kv"], "relax[1]: expected each floor once, got 'blocks:kv' again"),
        (
            ["capacity:b.2", "count:b.2"],
            "relax[1]: expected one of capacity and count of a request, got 'capacity:b.2' too",
        ),
        ("blocks:kv", "relax: expected a list, got 'blocks:kv'"),
    ],
)
def test_bad_floors_to_relax(relax: Any, line: str) -> None:
    [fault] = faults(relax=relax)
    assert fault.startswith(line)


def test_every_floor_can_be_named() -> None:
    relax = ("blocks:kv", "capacity:fitted", "count:b.2")
    assert Problem.model_validate({**DATA, "relax": relax}).relax == relax


@pytest.mark.parametrize(
    ("variants", "line"),
    [
        ([{"name": "a", "set": []}], "variants[0].set: expected a list of \"path=value\", got []"),
        ([{"name": "a", "set": ["x"]}], "variants[0].set[0]: expected path=value, got 'x'"),
        ([{"name": "a", "set": ["=1"]}], "variants[0].set[0]: expected path=value, got '=1'"),
        ([{"name": "a"}], "variants[0].set: expected a value, got none"),
        (
            [{"name": "a", "set": ["x=1"]}, {"name": "a", "set": ["x=1"]}],
            "variants[1].name: expected a unique name, got 'a' again",
        ),
    ],
)  # fmt: skip
def test_bad_variants(variants: Any, line: str) -> None:
    assert faults(variants=variants) == [line]


def test_neither_section_changes_the_plan() -> None:
    plain = plan(Problem.model_validate(DATA))
    parts = {"relax": ["blocks:kv"], "variants": [{"name": "a", "set": ["ranks.r0.quota=9"]}]}
    assert plan(Problem.model_validate({**DATA, **parts})).digest == plain.digest


def test_a_variant_that_does_not_help_is_named() -> None:
    """A name with a dot is no path, so the path is its index; the reason has the name."""
    named = {"name": "--share 0.95", "set": ["ranks.r0.quota=1"]}
    short = {**DATA, "ranks": [{"name": "r0", "quota": 0}], "variants": [named]}
    with pytest.raises(Infeasible) as refusal:
        plan(Problem.model_validate(short))
    (reason,) = (r.reason for r in refusal.value.ruled_out if r.change == "variants[0]")
    assert reason.startswith("--share 0.95 does not help: ")
