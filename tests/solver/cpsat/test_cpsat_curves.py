"""Curves in the model: at every value the worth that a curve says."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.kernels.instance import Objective, ObjectiveTerm, Variable
from kvplan.kernels.values import term_value
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.program.goal_forms import _curve_form, goal_scale
from support.solutions import at, solutions

CURVES: dict[str, list[tuple[int, int]]] = {
    "one point": [(3, 5)],
    "concave": [(1, 0), (4, 9), (9, 14)],
    "convex": [(1, 9), (4, 9), (7, 30)],
    "falling": [(2, 9), (6, 1)],
    "up and down": [(0, 3), (3, 9), (5, -2), (8, 4)],
    "beyond the domain": [(-20, 0), (40, 60)],
}


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("weight", ["1", "-2/3", "5/7"])
@pytest.mark.parametrize(("low", "high"), [(0, 10), (4, 10), (0, 2)])
def test_a_curve_is_worth_what_it_says_at_its_best(
    name: str, weight: str, low: int, high: int
) -> None:
    """At every value the largest worth that the model allows is the curve's."""
    curve = tuple((Fraction(x), Fraction(y)) for x, y in CURVES[name])
    term = ObjectiveTerm(Variable("experts"), Fraction(weight), curve)
    scale = goal_scale(Objective.of("", (term,)))
    model = Model()
    x = model.integer(low, high, low)
    worth = _curve_form(model, term, x, scale)
    best: dict[int, int] = {}
    for values in solutions(model):
        best[at(x, values)] = max(best.get(at(x, values), -(10**9)), at(worth, values))
    assert best == {a: scale * term_value(term, a) for a in range(low, high + 1)}
    assert model.value(worth) == scale * term_value(term, low)
