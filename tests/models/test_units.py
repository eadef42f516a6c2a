"""Bytes, whole numbers and exact fractions as people write them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.models.messages import Misfit
from kvplan.models.units import (
    exact_bytes,
    human_bytes,
    parse_bytes,
    parse_fraction,
    parse_integer,
    parse_rate,
    parse_ratio,
)

HUGE = pytest.param(10**5000, id="10^5000")
LONG = pytest.param("1" * 5000, id="5000 digits")
SCALES = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "KiB": 1024,
    "MB": 1000**2,
    "MiB": 1024**2,
    "GB": 1000**3,
    "GiB": 1024**3,
    "TB": 1000**4,
    "TiB": 1024**4,
    "PB": 1000**5,
    "PiB": 1024**5,
}


@pytest.mark.parametrize("unit", SCALES)
def test_decimal_and_binary_units_are_kept_apart(unit: str) -> None:
    assert parse_bytes(f"3{unit}", round_up=True) == 3 * SCALES[unit]
    assert parse_bytes(f" 3 {unit} ", round_up=False) == 3 * SCALES[unit]


@pytest.mark.parametrize(
    ("text", "down", "up"),
    [
        ("0.3B", 0, 1),
        ("1.5 GB", 1_500_000_000, 1_500_000_000),
        ("0.0001kB", 0, 1),
        ("1.0005KiB", 1024, 1025),
        ("54.23GiB", 58_229_019_115, 58_229_019_116),
        ("1e3", 1000, 1000),
        ("17179869184", 17_179_869_184, 17_179_869_184),
        ("0B", 0, 0),
        (".5kB", 500, 500),
    ],
)
def test_a_supply_rounds_down_and_a_demand_up(text: str, down: int, up: int) -> None:
    assert parse_bytes(text, round_up=False) == down
    assert parse_bytes(text, round_up=True) == up


@given(st.integers(0, 8000), st.integers(0, 10**6 - 1), st.sampled_from(sorted(SCALES)))
def test_rounding_brackets_the_exact_figure(whole: int, part: int, unit: str) -> None:
    exact = (whole + Fraction(part, 10**6)) * SCALES[unit]
    text = f"{whole}.{part:06d}{unit}"
    down, up = parse_bytes(text, round_up=False), parse_bytes(text, round_up=True)
    assert down <= exact <= up
    assert up - down == (0 if exact.denominator == 1 else 1)


@pytest.mark.parametrize(
    "junk",
    [
        "10 XB",
        "10G",
        "10gib",
        "GiB",
        "",
        " ",
        "1,024",
        "1_000",
        "0x10",
        "1.5",
        "-1GiB",
        "-0.3B",
        "nan",
        "inf",
        "9223372036854775808",
        "8192PiB",
        "1e999999999",
        "1e99999999999999999999B",
        LONG,
        "1/2",
        "٣GiB",
        "1 GiB GiB",
        "1.5.5GiB",
    ],
)
def test_nonsense_is_no_byte_figure(junk: str) -> None:
    for round_up in (False, True):
        with pytest.raises(Misfit, match=r"^expected .*bytes.*, got '"):
            parse_bytes(junk, round_up=round_up)


@pytest.mark.parametrize(
    "junk", [None, True, False, -1, 1.5, 2**63, HUGE, float("nan"), float("-inf"), [], {}, b"1"]
)
def test_other_types_are_no_byte_figure(junk: Any) -> None:
    with pytest.raises(Misfit, match=r"^expected (whole )?bytes.*, got "):
        parse_bytes(junk, round_up=True)


def test_a_figure_that_is_written_too_long_is_told_so() -> None:
    with pytest.raises(Misfit, match=r'"16GiB", in at most 60 characters, got \'999'):
        parse_bytes("9" * 61, round_up=True)


def test_the_largest_figure_is_below_2_to_the_63() -> None:
    assert parse_bytes(2**63 - 1, round_up=False) == 2**63 - 1
    assert parse_bytes("9223372036854775807B", round_up=True) == 2**63 - 1
    with pytest.raises(Misfit):
        parse_bytes("9223372036854775807.5B", round_up=True)
    assert parse_bytes("9223372036854775807.5B", round_up=False) == 2**63 - 1


@pytest.mark.parametrize("written", [0.97, "0.97", Decimal("0.97"), "97/100", np.float64(0.97)])
def test_a_fraction_is_the_decimal_that_was_written(written: Any) -> None:
    assert parse_fraction(written) == Fraction(97, 100)


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("9/19", Fraction(9, 19)),
        (" 9 / 19 ", Fraction(9, 19)),
        ("-1/3", Fraction(-1, 3)),
        (3, Fraction(3)),
        (0.1 + 0.2, Fraction("0.30000000000000004")),
        ("1e-3", Fraction(1, 1000)),
        (Fraction(2, 7), Fraction(2, 7)),
    ],
)
def test_fractions(written: Any, exact: Fraction) -> None:
    assert parse_fraction(written) == exact


@given(st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) > 1e-2))
def test_a_python_float_stands_for_what_prints_it(number: float) -> None:
    try:
        assert parse_fraction(number) == Fraction(repr(number))
    except Misfit:  # more digits than a fraction of numbers below 2^63 holds
        assert max(abs(n) for n in Fraction(repr(number)).as_integer_ratio()) >= 2**63


@pytest.mark.parametrize(
    "junk",
    [
        None,
        True,
        "x",
        "",
        "1/0",
        "9/-19",
        "1/2/3",
        "97%",
        "nan",
        float("nan"),
        float("inf"),
        [],
        {},
        "1e999999999",
        "1e30",
        "1e-30",
        f"1/{2**63}",
        f"{2**63}",
        2**63,
        HUGE,
        Fraction(1, 2**63),
    ],
)
def test_nonsense_is_no_fraction(junk: Any) -> None:
    with pytest.raises(Misfit, match=r"^expected a number such as 0.97 or \"9/19\".*, got "):
        parse_fraction(junk)


@pytest.mark.parametrize("junk", [0, -1, 1.01, "20/19"])
def test_a_ratio_is_above_0_and_at_most_1(junk: Any) -> None:
    with pytest.raises(Misfit, match="a share above 0 and at most 1"):
        parse_ratio(junk)


@pytest.mark.parametrize(
    ("written", "exact"),
    [
        ("64KiB", Fraction(65536)),
        ("0.3KiB", Fraction(1536, 5)),
        ("0.3B", Fraction(3, 10)),
        ("1/3", Fraction(1, 3)),
        (0.5, Fraction(1, 2)),
        ("1.5kB", Fraction(1500)),
    ],
)
def test_bytes_a_token_are_exact(written: Any, exact: Fraction) -> None:
    assert parse_rate(written) == exact


@pytest.mark.parametrize("junk", [-1, "-1KiB", "1XB", "KiB", None, True, "1e20PiB"])
def test_nonsense_is_no_rate(junk: Any) -> None:
    with pytest.raises(Misfit):
        parse_rate(junk)


def test_whole_numbers() -> None:
    assert parse_integer(16) == 16
    assert parse_integer(16.0) == 16
    assert parse_integer(Decimal("1E+3")) == 1000
    assert parse_integer(np.int64(7)) == 7
    wrong: tuple[Any, ...] = ("16", True, 0.5, -1, 2**63, None, [], np.bool_(True))
    for junk in wrong:
        with pytest.raises(Misfit, match=r"^expected a whole number .*, got "):
            parse_integer(junk)


@pytest.mark.parametrize(
    ("count", "human", "exact"),
    [
        (0, "0 B", "0 B"),
        (1023, "1023 B", "1023 B"),
        (1024, "1.00 KiB", "1_024 B (1.00 KiB)"),
        (17_179_869_184, "16.00 GiB", "17_179_869_184 B (16.00 GiB)"),
        (-(3 * 2**29), "-1.50 GiB", "-1_610_612_736 B (-1.50 GiB)"),
        (2**60, "1024.00 PiB", "1_152_921_504_606_846_976 B (1024.00 PiB)"),
    ],
)
def test_bytes_are_rendered_as_integer_and_human_form(count: int, human: str, exact: str) -> None:
    assert human_bytes(count) == human
    assert exact_bytes(count) == exact
