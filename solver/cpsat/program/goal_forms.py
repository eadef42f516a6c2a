"""Goals as integer forms: weights and curves scaled to whole numbers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm

from kvplan.kernels.instance import Instance, Objective, ObjectiveTerm, Variable
from kvplan.kernels.values import Point, curve_at, rises, term_value
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total
from kvplan.solver.cpsat.program.constraints import form_of
from kvplan.solver.cpsat.program.decision_variables import Variables
from kvplan.solver.cpsat.program.given_needs import mix_needs


def goal_scale(goal: Objective) -> int:
    """What makes every coefficient of a goal whole: values, and slopes of curves."""
    denominators = [1]
    for term in goal.members:
        if term.curve is None:
            denominators.append(term.weight.denominator)
            continue
        denominators += [(term.weight * y).denominator for _, y in term.curve]
        for x0, slope, y0 in _segments(term):
            denominators += [slope.denominator, (y0 - slope * x0).denominator]
    return lcm(*denominators)


def goal_values(
    instance: Instance, point: Point, raws: Sequence[Sequence[int]]
) -> tuple[Fraction, ...]:
    """Exact value of every goal at a point; `raws` are its raw blocks by batch and pool."""

    def worth(term: ObjectiveTerm) -> Fraction:
        if term.variable.kind == "scale":
            pairs = zip(point.usable, mix_needs(instance, point.chunk), strict=True)
            return min(usable / each for usable, each in pairs if each)
        return term_value(term, variable_value(instance, point, raws, term.variable))

    return tuple([sum(map(worth, goal.members), Fraction(0)) for goal in instance.objectives])


def variable_value(
    instance: Instance, point: Point, raws: Sequence[Sequence[int]], variable: Variable
) -> int:
    """Value of one variable; a choice is worth minus the index of its option."""
    kind, index = variable
    if kind == "copies":
        held = [
            usable * pool.use_num // (raw * pool.use_den)
            for raw, usable, pool in zip(raws[index], point.usable, instance.pools, strict=True)
            if raw
        ]
        return min(held, default=0)
    if kind == "prefill":
        return instance.chunks[point.chunk]
    if kind == "experts":
        return point.experts
    if kind == "choice":
        return -point.options[index]
    by_kind = {"blocks": point.usable, "capacity": point.capacities, "count": point.counts}
    return by_kind[kind][index]


def goal_form(
    model: Model,
    instance: Instance,
    variables: Variables,
    copies: dict[int, Linear],
    goal: Objective,
) -> Linear:
    """scale x goal as a form; a constant 0 for the scale of a mix, which is decided apart."""
    if goal.single is not None and goal.single.kind == "scale":
        return constant(0)
    scale = goal_scale(goal)
    forms = [
        (1, _term_form(model, instance, variables, copies, term, scale)) for term in goal.members
    ]
    return total(forms)


def _term_form(
    model: Model,
    instance: Instance,
    variables: Variables,
    copies: dict[int, Linear],
    term: ObjectiveTerm,
    scale: int,
) -> Linear:
    kind, index = term.variable
    if kind == "prefill":
        tokens = instance.chunks[: variables.chunk.number]
        return variables.chunk.table(model, [int(scale * term_value(term, c)) for c in tokens])
    if kind == "choice":
        literals = variables.options[index]
        values = [int(scale * term_value(term, -o)) for o in range(len(literals))]
        return model.table(literals, values)
    form = form_of(model, instance, variables, copies, kind, index)
    if term.curve is None:
        return total([(int(scale * term.weight), form)])
    return _curve_form(model, term, form, scale)


def _segments(term: ObjectiveTerm) -> list[tuple[Fraction, Fraction, Fraction]]:
    """(x0, weighted slope, weighted y0) of every piece, the flat ends included."""
    assert term.curve is not None
    points = term.curve
    pieces = [(points[0][0], Fraction(0), term.weight * points[0][1])]
    for (x0, y0), (x1, y1) in pairwise(points):
        pieces.append((x0, term.weight * (y1 - y0) / (x1 - x0), term.weight * y0))
    pieces.append((points[-1][0], Fraction(0), term.weight * points[-1][1]))
    return pieces


def _curve_form(model: Model, term: ObjectiveTerm, form: Linear, scale: int) -> Linear:
    """scale x weight x curve(variable): one boolean a piece, exact on each.

    A curve that only flattens (concave) needs no boolean: the worth lies below every piece.
    """
    pieces = _segments(term)
    low, high = model.low(form), model.high(form)
    ends = [-(-x // 1) for x, _ in (term.curve or ())]
    samples = {low, high, *(int(x) for x in ends if low <= x <= high)}
    samples |= {int(x) - 1 for x in ends if low <= x - 1 <= high}
    values = [int(scale * term_value(term, x)) for x in samples]
    hint = int(scale * term.weight * curve_at(term.curve or (), model.value(form)))
    worth = model.integer(min(values), max(values), hint)
    lines = [(int(scale * slope), int(scale * (y0 - slope * x0))) for x0, slope, y0 in pieces]
    rests = [total([(1, worth), (-slope, form), (-1, constant(at_0))]) for slope, at_0 in lines]
    slopes = [slope for _, slope, _ in pieces[1:]]
    if rises(term) and all(left >= right for left, right in pairwise(slopes)) and len(pieces) > 2:
        _below_pieces(model, worth, form, rests, pieces)
        return worth
    _on_one_piece(model, form, rests, pieces)
    return worth


def _below_pieces(
    model: Model,
    worth: Linear,
    form: Linear,
    rests: list[Linear],
    pieces: list[tuple[Fraction, Fraction, Fraction]],
) -> None:
    """worth <= every piece from the first point on; before it the flat end needs a boolean."""
    start = -(-pieces[1][0] // 1)
    if model.low(form) >= start:
        for rest in rests[1:]:
            model.bound(rest, most=0)
        return
    _on_one_piece(model, form, rests, pieces)


def _on_one_piece(
    model: Model,
    form: Linear,
    rests: list[Linear],
    pieces: list[tuple[Fraction, Fraction, Fraction]],
) -> None:
    """Exactly one piece holds: the variable lies on it, and the worth is its line's."""
    value = model.value(form)
    starts = [model.low(form), *(int(x // 1) + 1 for x, _, _ in pieces[1:])]
    ends = [*(int(x // 1) for x, _, _ in pieces[1:]), model.high(form)]
    spans = [
        (max(s, model.low(form)), min(e, model.high(form)))
        for s, e in zip(starts, ends, strict=True)
    ]
    inside = [index for index, (s, e) in enumerate(spans) if s <= e]
    hint = next(i for i, index in enumerate(inside) if spans[index][0] <= value <= spans[index][1])
    literals = model.one_of(len(inside), hint)
    for literal, index in zip(literals, inside, strict=True):
        when = literal if literal.terms else None
        model.bound(form, *spans[index], when=when)
        model.bound(rests[index], 0, 0, when=when)
