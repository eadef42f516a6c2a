"""Ranges and lists of values: units, steps, and what is refused."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.models.units import parse_bytes
from kvplan.solver.explore import explore
from kvplan.solver.explore.axes import parse_axis
from support.explored import RICH

GIB = 2**30


def exact(values: Any) -> list[Fraction]:
    return [figure.exact for figure in parse_axis("x", values).figures]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("10GiB:11GiB:256MiB", [10 * GIB + i * 2**28 for i in range(5)]),
        ("1GB:1GiB:50MB", [10**9, 10**9 + 5 * 10**7]),  # the last step does not meet B
        ("0:4GiB:2GiB", [0, 2 * GIB, 4 * GIB]),
        ("3:11:4", [3, 7, 11]),
        ("3:10:4", [3, 7]),
        ("5:5:1", [5]),
        ("0.9:1:0.05", [Fraction(9, 10), Fraction(19, 20), 1]),
        ("0.1:0.7:0.1", [Fraction(i, 10) for i in range(1, 8)]),  # floats would lose the last
        (" 1 : 2 : 1 ", [1, 2]),
        ("4096,8192", [4096, 8192]),
        ("8192,4096", [8192, 4096]),
        ("9/19", [Fraction(9, 19)]),
        ("1.5GiB, 0, 2GB", [3 * 2**29, 0, 2 * 10**9]),
        (range(2, 8, 3), [2, 5]),
        (range(8, 2, -3), [8, 5]),
        (
            [0.97, Decimal("0.5"), Fraction(1, 3)],
            [Fraction(97, 100), Fraction(1, 2), Fraction(1, 3)],
        ),
        (np.arange(3), [0, 1, 2]),
        (["1GiB", "2 GiB"], [GIB, 2 * GIB]),
        (iter([7]), [7]),
    ],
)
def test_values(text: Any, values: list[Any]) -> None:
    assert exact(text) == values


def written(values: Any) -> list[Any]:
    return [figure.as_written() for figure in parse_axis("x", values).figures]


def test_values_with_a_unit_are_written_with_one() -> None:
    assert written("1KiB:2KiB:1KiB") == ["1024 B", "2048 B"]
    assert written("0,1KiB") == ["0 B", "1024 B"]
    assert written("9007199254740993B") == ["9007199254740993 B"]  # 2^53 + 1
    assert written("1024,2048") == [1024, 2048]


def test_what_is_left_of_a_byte_is_for_the_field_to_round() -> None:
    (text,) = written("0.3KiB")
    assert text == "307.2 B"
    assert [parse_bytes(text, round_up=up) for up in (False, True)] == [307, 308]


def test_fractions_are_written_exactly() -> None:
    assert written([0.97, Fraction(9, 19), Decimal("1.0")]) == [Decimal("0.97"), "9/19", 1]


@pytest.mark.parametrize("values", ["1:10000000:1", range(1, 10_000_001)])
def test_a_long_range_is_not_stored(values: Any) -> None:
    figures = parse_axis("x", values).figures
    assert len(figures) == 10_000_000
    assert figures[9_999_999].exact == 10_000_000
    with pytest.raises(IndexError):
        figures[10_000_000]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ("", "x: expected A:B:STEP or A,B,C, got ''"),
        ("1:2", "x: expected A:B:STEP or A,B,C, got '1:2'"),
        ("1:2:3:4", "x: expected A:B:STEP or A,B,C, got '1:2:3:4'"),
        ("1::2", "x: expected A:B:STEP or A,B,C, got '1::2'"),
        ("1,,2", "x: expected A:B:STEP or A,B,C, got ''"),
        ("1:9:0", "x: expected a STEP above 0, got '1:9:0'"),
        ("9:1:-1", "x: expected a STEP above 0, got '9:1:-1'"),
        ("9:1:1", "x: expected an A of at most B, got '9:1:1'"),
        ("1:9:1GiB", "x: expected a unit on each of A, B and STEP, or on none, got '1:9:1GiB'"),
        ("1,1GiB", "x: expected a unit on each value, or on none, got both"),
        ("1,2,1.0", "x: expected each value once, got one twice"),
        ("1:nan:1", "x: expected a number, or bytes such as 17179869184"),
        ("1:2XB:1", "x: expected a number, or bytes such as 17179869184"),
        ("1:.inf:1", "x: expected a number, or bytes such as 17179869184"),
        ("a", "x: expected a number, or bytes such as 17179869184"),
        ("1:20000000:1", "x: expected at most 10_000_000 rows, got 20_000_000"),
        ("0:1:1e-9", "x: expected at most 10_000_000 rows, got 1_000_000_001"),
        (range(10_000_001), "x: expected at most 10_000_000 rows, got 10_000_001"),
        ([0] * 10_000_001, "x: expected at most 10_000_000 rows, got 10_000_001"),
        (range(0), "x: expected at least one value, got none"),
        ([], "x: expected at least one value, got none"),
        ([True], "x: expected a number such as 0.97"),
        ([None], "x: expected a number such as 0.97"),
        ([float("nan")], "x: expected a number such as 0.97"),
        (5, "x: expected A:B:STEP or A,B,C, or an iterable of numbers, got 5"),
    ],
)
def test_bad_values_are_one_clear_line(values: Any, line: str) -> None:
    with pytest.raises(InvalidProblem) as caught:
        parse_axis("x", values)
    (fault,) = caught.value.faults
    assert str(fault).startswith(line)
    assert len(str(fault)) < 250


def test_a_name_is_no_figure_however_it_reads() -> None:
    problem = Problem.model_validate(RICH)
    for path in ("ranks.0.name", "choices.0.options.0.name"):
        with pytest.raises(InvalidProblem, match="expected a numeric field, got a text"):
            explore(problem, {path: "1/3,2/3"})


def test_an_array_without_axes_is_no_iterable() -> None:
    with pytest.raises(InvalidProblem, match="or an iterable of numbers"):
        parse_axis("x", np.array(5))
