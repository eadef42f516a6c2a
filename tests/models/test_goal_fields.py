"""Goals: weights, curves and how they are written."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.models.goals import Fill, Goal, curve_value

CURVE = (
    (Fraction(4096), Fraction(1778)),
    (Fraction(8192), Fraction(2159)),
    (Fraction(9000), Fraction(5)),
)


def goal(data: Any) -> Goal:
    return Goal.model_validate(data)


@pytest.mark.parametrize(
    ("at", "worth"),
    [
        (0, Fraction(1778)),
        (4096, Fraction(1778)),
        (6144, Fraction(1778 + 2159, 2)),
        (4097, 1778 + Fraction(381, 4096)),
        (8192, Fraction(2159)),
        (8596, Fraction(2159 + 5, 2)),
        (9000, Fraction(5)),
        (10**18, Fraction(5)),
    ],
)
def test_a_curve_is_linear_between_its_points_and_constant_beyond(at: int, worth: Fraction) -> None:
    assert curve_value(CURVE, at) == worth


def test_a_curve_of_one_point_is_constant() -> None:
    points = ((Fraction(5), Fraction(7, 3)),)
    assert {curve_value(points, at) for at in (0, 5, 6)} == {Fraction(7, 3)}


@settings(deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(-9, 9)), min_size=2, unique_by=lambda p: p[0]
    ),
    st.integers(-5, 110),
)
def test_a_curve_stays_between_its_neighbours(points: list[tuple[int, int]], at: int) -> None:
    curve = tuple((Fraction(x), Fraction(y)) for x, y in sorted(points))
    below = [y for x, y in curve if x <= at][-1:] or [curve[0][1]]
    above = [y for x, y in curve if x >= at][:1] or [curve[-1][1]]
    low, high = sorted((below[0], above[0]))
    assert low <= curve_value(curve, at) <= high


def test_a_goal_is_the_sum_of_weights_and_worths() -> None:
    weighted = goal(
        {
            "maximize": {"prefill": "1/2", "experts": 3, "blocks:a": -1},
            "curves": {"prefill": [[4096, 1778], [8192, 2159.5]]},
        }
    )
    values = {"prefill": 6144, "experts": 10, "blocks:a": 7}
    assert weighted.value(values) == Fraction(1, 2) * Fraction("1968.75") + 30 - 7


@pytest.mark.parametrize(
    ("data", "single", "label"),
    [
        ("capacity:long", "capacity:long", "capacity:long"),
        ({"maximize": {"prefill": 1}}, "prefill", "prefill"),
        ({"maximize": {"prefill": 2.5}}, "prefill", "prefill"),
        ({"maximize": {"prefill": -1}}, None, "-1 prefill"),
        ({"maximize": {"prefill": 0}}, None, "0 prefill"),
        ({"maximize": {"prefill": 1, "experts": "3/2"}}, None, "1 prefill + 3/2 experts"),
        ({"maximize": {"prefill": 1}, "curves": {"prefill": [[1, 1]]}}, None, "1 prefill"),
    ],
)
def test_labels_and_plain_goals(data: Any, single: str | None, label: str) -> None:
    assert goal(data).single == single
    assert goal(data).label == label


def test_the_short_form_is_the_long_form() -> None:
    assert goal("prefill") == goal({"maximize": {"prefill": 1}})


def test_fill_forms() -> None:
    assert Fill.model_validate("none").none
    assert Fill.model_validate({"batch": "b"}).batch == "b"
    assert Fill.model_validate({"pools": ["a", "b"]}).pools == ("a", "b")
    shares = Fill.model_validate({"shares": {"a": 0.8, "b": "1/5"}}).shares
    assert shares == {"a": Fraction(4, 5), "b": Fraction(1, 5)}
