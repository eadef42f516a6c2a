"""The layer over CP-SAT: every form against Python, over all solutions."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest

from kvplan.solver.cpsat.model.integer_model import (
    ContradictionError,
    Linear,
    Model,
    TooLargeError,
    constant,
    total,
)
from support.solutions import at, solutions


def table_of(model: Model, form: Linear, result: Linear) -> dict[int, set[int]]:
    """Values of a result by the value of its argument."""
    table: dict[int, set[int]] = {}
    for values in solutions(model):
        table.setdefault(at(form, values), set()).add(at(result, values))
    return table


# --- rows ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "most"), [(None, 3), (-2, None), (-5, 5), (0, 0), (-100, 100), (4, 7), (None, None)]
)
def test_a_row_keeps_what_lies_within_its_bounds(least: int | None, most: int | None) -> None:
    model = Model()
    x, y = model.integer(-3, 4, 0), model.integer(0, 3, 0)
    form = total([(6, x), (-4, y), (1, constant(1))])
    model.bound(form, least, most)
    inside = {
        (a, b)
        for a, b in product(range(-3, 5), range(4))
        if (least is None or least <= 6 * a - 4 * b + 1)
        and (most is None or 6 * a - 4 * b + 1 <= most)
    }
    assert solutions(model) == inside


def test_a_row_that_the_domains_imply_is_left_out() -> None:
    model = Model()
    model.bound(model.integer(0, 5, 0), least=0, most=5)
    assert not model.cp.proto.constraints


def test_a_row_that_can_never_hold_is_a_contradiction() -> None:
    model = Model()
    x = model.integer(0, 5, 0)
    with pytest.raises(ContradictionError):
        model.bound(x, least=6)
    with pytest.raises(ContradictionError):
        model.bound(constant(7), most=6)
    with pytest.raises(ContradictionError):
        model.integer(3, 2, 3)


@pytest.mark.parametrize("least", [2, 9])
def test_a_row_under_a_boolean(least: int) -> None:
    model = Model()
    x, literal = model.integer(0, 5, 0), model.boolean(False)
    model.bound(x, least=least, when=literal)
    assert solutions(model) == {(a, b) for a in range(6) for b in (0, 1) if not b or a >= least}


def test_one_value_is_a_constant_and_no_variable() -> None:
    model = Model()
    assert model.integer(4, 4, 4) == constant(4)
    assert not model.variables


def test_a_row_beyond_64_bits_is_refused() -> None:
    model = Model()
    x, y = model.integer(0, 2**40, 0), model.integer(0, 2**40, 0)
    model.bound(total([(2**20, x), (1, y)]), most=2**59)
    with pytest.raises(TooLargeError):
        model.bound(total([(2**21 + 1, x), (2**21, y)]), most=2**59)
    with pytest.raises(TooLargeError):
        model.integer(0, 2**62, 0)
    model.bound(total([(2**61, x), (2**61, y)]), most=2**62)  # divided by the gcd first
    assert len(model.cp.proto.constraints) == 2


def test_forms_know_their_range_and_their_value() -> None:
    model = Model()
    x, y = model.integer(-3, 4, 2), model.integer(1, 3, 3)
    form = total([(2, x), (-5, y), (3, constant(7)), (1, x)])
    assert (model.low(form), model.high(form), model.value(form)) == (
        -9 - 15 + 21,
        12 - 5 + 21,
        6 - 15 + 21,
    )
    assert total([(1, x), (-1, x)]) == constant(0)


# --- ceil and floor -----------------------------------------------------------------------------


@pytest.mark.parametrize("divisor", [1, 2, 3, 7])
@pytest.mark.parametrize(("low", "high"), [(-9, 9), (-9, -2), (0, 8)])
def test_ceil_and_floor_below_zero_too(divisor: int, low: int, high: int) -> None:
    rules: list[tuple[Callable[[Model], Callable[[Linear, int], Linear]], Callable[[int], int]]] = [
        (lambda model: model.ceil_div, lambda a: -(-a // divisor)),
        (lambda model: model.floor_div, lambda a: a // divisor),
    ]
    for divide, expected in rules:
        model = Model()
        x = model.integer(low, high, low)
        form = total([(1, x), (1, constant(1))])
        quotient = divide(model)(form, divisor)
        table = table_of(model, form, quotient)
        assert table == {a: {expected(a)} for a in range(low + 1, high + 2)}
        assert model.value(quotient) == expected(low + 1)


def test_quotients_are_shared() -> None:
    model = Model()
    x = model.integer(0, 50, 0)
    assert model.ceil_div(x, 7) == model.ceil_div(x, 7)
    assert model.ceil_div(x, 7) != model.floor_div(x, 7)
    assert len(model.variables) == 3


# --- max, min and product -----------------------------------------------------------------------


@pytest.mark.parametrize("shift", [-9, -2, 0, 5])
def test_largest_and_smallest(shift: int) -> None:
    for name, choose in (("largest", max), ("smallest", min)):
        model = Model()
        x, y = model.integer(-2, 3, 1), model.integer(-1, 2, 0)
        forms = (x, total([(2, y), (1, constant(shift))]), constant(1))
        result = getattr(model, name)(*forms)
        for values in solutions(model):
            assert at(result, values) == choose(at(form, values) for form in forms)
        assert model.value(result) == choose(map(model.value, forms))
        assert len({values[:2] for values in solutions(model)}) == 6 * 4


def test_a_maximum_that_the_domains_decide_takes_no_variable() -> None:
    model = Model()
    x = model.integer(3, 8, 4)
    assert model.largest(constant(0), x) == x
    assert model.smallest(constant(9), x) == x
    assert len(model.variables) == 1


def test_product() -> None:
    model = Model()
    x, y = model.integer(-2, 3, 1), model.integer(-1, 2, 2)
    left = total([(1, x), (1, constant(1))])
    result = model.product(left, y)
    seen = {(v[0], v[1]): at(result, v) for v in solutions(model)}
    assert seen == {(a, b): (a + 1) * b for a in range(-2, 4) for b in range(-1, 3)}
    assert model.value(result) == 4
    assert model.product(constant(3), y) == total([(3, y)])
    assert model.product(y, constant(3)) == total([(3, y)])


# --- one of several -----------------------------------------------------------------------------


@pytest.mark.parametrize("values", [[5, 5, 9], [7, -3, 0, 4]])
def test_a_table_has_the_value_beside_the_literal_that_holds(values: list[int]) -> None:
    model = Model()
    literals = model.one_of(len(values), 1)
    plain, tight = model.table(literals, values), model.tabled(literals, values)
    seen = set()
    for solution in solutions(model):
        [chosen] = [i for i, literal in enumerate(literals) if at(literal, solution)]
        assert at(plain, solution) == at(tight, solution) == values[chosen]
        seen.add(chosen)
    assert seen == set(range(len(values)))
    assert (model.low(tight), model.high(tight)) == (min(values), max(values))
    assert model.value(plain) == model.value(tight) == values[1]


def test_one_of_one_is_certain() -> None:
    model = Model()
    assert model.one_of(1, 0) == [constant(1)]
    assert model.table(model.one_of(1, 0), [8]) == constant(8)
