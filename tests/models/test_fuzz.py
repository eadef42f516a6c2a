"""Junk in every place of a valid problem: it validates, or it is refused in clear lines."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.models import InvalidProblem, Problem
from support.rich import RICH, STAGED, Path, paths_of, replaced

JUNK: list[Any] = [
    None,
    True,
    False,
    -1,
    0,
    1.5,
    -0.0,
    1e300,
    10**30,
    2**63,
    2**63 - 1,
    float("nan"),
    float("inf"),
    Decimal("NaN"),
    Fraction(1, 3),
    "x",
    "",
    "\n",
    "none",
    "auto",
    "1/0",
    "10 XB",
    "1e999999999",
    [],
    {},
    (),
    ["x"],
    [None],
    [[1, 2]],
    [[[[[[[[]]]]]]]],
    {"a": 1},
    {"name": "x"},
    {"fraction": 2},
    {1: 2},
    {None: 1},
    {(1, 2): 3},
    b"x",
    3 + 4j,
    object(),
]


def lines_of(data: Any) -> list[str]:
    """Faults of a problem; a valid one comes back from plain data as it was."""
    try:
        problem = Problem.model_validate(data)
    except InvalidProblem as error:
        return [str(fault) for fault in error.faults]
    assert Problem.model_validate(problem.model_dump(mode="json")) == problem
    return []


def is_clear(line: str) -> bool:
    return line.isprintable() and len(line) < 400 and "expected " in line and ", got " in line


@pytest.mark.parametrize("name", RICH)
def test_junk_in_any_place(name: str) -> None:
    refused = 0
    for at in paths_of(RICH[name]):
        for junk in JUNK:
            lines = lines_of(replaced(RICH[name], at, junk))
            assert all(map(is_clear, lines)), (at, junk, lines)
            assert len(set(lines)) == len(lines), (at, junk)
            refused += bool(lines)
    assert refused > 1000


@pytest.mark.parametrize("name", RICH)
def test_a_wrong_type_is_one_line_that_names_its_place(name: str) -> None:
    """No line for each branch of a union, and no step in a path that is not in the file."""
    for at in paths_of(RICH[name]):
        lines = lines_of(replaced(RICH[name], at, 3 + 4j))
        assert len(lines) == 1, (at, lines)
        path = lines[0].partition("expected ")[0].removesuffix(": ")
        assert path == "".join(
            f"[{step}]" if isinstance(step, int) and _in_list(RICH[name], at, i) else f".{step}"
            for i, step in enumerate(at)
        ).removeprefix("."), (at, lines)


def _in_list(data: Any, at: Path, depth: int) -> bool:
    for step in at[:depth]:
        data = data[step]
    return isinstance(data, list)


@pytest.mark.parametrize("name", RICH)
def test_a_key_that_is_left_out_or_misspelt(name: str) -> None:
    for at in paths_of(RICH[name]):
        if not at or isinstance(at[-1], int):
            continue
        holder: Any = RICH[name]
        for step in at[:-1]:
            holder = holder[step]
        left_out = {key: value for key, value in holder.items() if key != at[-1]}
        for changed in (left_out, left_out | {f"{at[-1]}s": holder[at[-1]]}):
            lines = lines_of(replaced(RICH[name], at[:-1], changed))
            assert all(map(is_clear, lines)), (at, lines)


PLACES = sorted(paths_of(STAGED), key=str)
VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.decimals(),
        st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,3})?(e[0-9])? ?[kKMGTP]?i?B?", fullmatch=True),
        st.sampled_from(["prefill", "paged", "tp0", "capacity:fitted", "none", "auto", "live"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.text(max_size=4), st.integers(0, 2)), inner, max_size=3),
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=400, derandomize=True)
@given(st.lists(st.tuples(st.sampled_from(PLACES), VALUES), min_size=1, max_size=3))
def test_any_values_in_any_places(changes: list[tuple[Path, Any]]) -> None:
    data: Any = STAGED
    for at, value in changes:
        if at in set(paths_of(data)):
            data = replaced(data, at, value)
    assert all(map(is_clear, lines_of(data)))
