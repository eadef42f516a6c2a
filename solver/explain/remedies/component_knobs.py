"""Floors of chunk, experts and pools, bytes of consumers, bounds of constraints, utilization."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import lcm

from kvplan.models import Problem
from kvplan.models.base import ByStage
from kvplan.models.elastic import Consumer
from kvplan.models.goals import Constraint
from kvplan.models.reading.paths import item_path, pool_path
from kvplan.models.units import LIMIT, exact_bytes
from kvplan.solver.explain.chunk_floor import (
    chunk_floor,
    is_constrained,
    lowest_listed,
    with_floors_from,
)
from kvplan.solver.explain.conflict.items import Item
from kvplan.solver.explain.nearest import first_working, nearest
from kvplan.solver.explain.remedies.knob import Knob, hundredths
from kvplan.solver.explain.remedies.what_if import WhatIf

_MOST = 2**40  # blocks of a pool, or steps of a constraint's bound


def component_knobs(what_if: WhatIf) -> Iterator[Knob]:
    """Every knob that is no rank's and no request's."""
    problem = what_if.problem
    yield from _chunk(problem)
    yield from _experts(problem)
    if problem.resume_utilization < 1:
        yield _utilization(problem)
    for index in range(len(problem.pools)):
        yield from _pool(what_if, index)
    for index, consumer in enumerate(problem.consumers):
        if consumer.of is None:  # a fraction follows the consumer that it is of
            yield from _consumer(what_if, index)
    for index, constraint in enumerate(problem.constraints):
        yield from _constraint(index, constraint)


def _chunk(problem: Problem) -> Iterator[Knob]:
    if problem.prefill is None:
        return
    change, now, least = chunk_floor(problem.prefill)
    yield Knob(
        change,
        now,
        least,
        frozenset({Item("chunk floor")}),
        lambda to: f"prefill: a chunk of at least {to:_} tokens instead of {now:_}",
        find=_nearest_floor if is_constrained(problem) else None,
    )


def _nearest_floor(what_if: WhatIf, knob: Knob) -> int | None:
    """The highest lower floor under a constraint on the chunk: no single floor need be the best.

    All floors down to one, taken together, offer more chunks the lower that one is.
    """
    prefill = what_if.problem.prefill
    assert prefill is not None

    def alone(less: int) -> bool:
        return what_if.fits_with(knob.written(knob.now - less))

    def together(less: int) -> bool:
        wider = with_floors_from(prefill, knob.now - less)
        return what_if.fits_as(what_if.problem.model_copy(update={"prefill": wider}))

    most = knob.now - knob.last
    less = nearest(together, min(most, knob.now - lowest_listed(prefill)))
    if less is None or not alone(less):
        less = nearest(alone, most)  # farther than chunks can be listed
    return None if less is None else knob.now - less


def _experts(problem: Problem) -> Iterator[Knob]:
    experts = problem.experts
    if experts is None:
        return
    now = experts.min_slots
    yield Knob(
        "experts.min_slots",
        now,
        0,
        frozenset({Item("expert floor")}),
        lambda to: f"experts: at least {to:_} {experts.unit} instead of {now:_}",
    )


def _utilization(problem: Problem) -> Knob:
    now = problem.resume_utilization
    return Knob(
        "resume_utilization",
        int(now * 100 // 1),
        100,
        frozenset(),
        lambda to: f"resume utilization: {hundredths(to)} instead of {_decimal(now)}",
        write=hundredths,
        was=str(now),
        find=_each_step,
    )


def _each_step(what_if: WhatIf, knob: Knob) -> int | None:
    """There are a hundred steps at most; bounded copies may fit at one and not at the next."""
    far = first_working(
        lambda more: what_if.fits_with(knob.written(knob.now + more)), knob.last - knob.now
    )
    return None if far is None else knob.now + far


def _decimal(value: Fraction) -> str:
    scaled = value * 100
    return hundredths(int(scaled)) if scaled.denominator == 1 else str(value)


def _pool(what_if: WhatIf, index: int) -> Iterator[Knob]:
    pool, path = what_if.problem.pools[index], pool_path(what_if.problem, index)
    least, most = pool.min_blocks, pool.max_blocks
    if least:
        yield Knob(
            f"{path}.min_blocks",
            least,
            0,
            frozenset({Item("pool minimum", (index,))}),
            lambda to: f"pool {pool.name}: at least {to:_} blocks instead of {least:_}",
        )
    if most is not None:
        hint = what_if.shortage.point.usable[index]
        yield Knob(
            f"{path}.max_blocks",
            most,
            _MOST if max(most, hint) < _MOST else LIMIT - 1,
            frozenset({Item("pool limit", (index,))}),
            lambda to: f"pool {pool.name}: at most {to:_} blocks instead of {most:_}",
            hint=hint,
        )


def _consumer(what_if: WhatIf, index: int) -> Iterator[Knob]:
    consumer, item = what_if.problem.consumers[index], Item("consumer", (index,))
    path = item_path("consumers", what_if.problem.consumers, index)
    for change, where, now in _named(f"{path}.bytes", consumer.bytes):
        hint = now - what_if.short_bytes()
        yield _smaller(consumer, change, where, now, item, hint)
    if consumer.per_request != 0:
        for change, where, now in _named(f"{path}.per_request", consumer.per_request):
            yield _smaller(consumer, change, f"{where} a request", now, item, None)


def _named(path: str, figure: ByStage) -> list[tuple[str, str, int]]:
    """One figure, or one for each stage or rank: its path, where it is, and its bytes."""
    if isinstance(figure, int):
        return [(path, "", figure)]
    return [(f"{path}.{key}", f" on {key}", n) for key, n in figure.items()]


def _smaller(
    consumer: Consumer, change: str, where: str, now: int, item: Item, hint: int | None
) -> Knob:
    def text(to: int) -> str:
        less = f"{exact_bytes(now - to)} less{where}"
        return f"consumer {consumer.name}: {less}, {exact_bytes(to)}" if to else left_out

    left_out = f"consumer {consumer.name}: none{where}, instead of {exact_bytes(now)}"
    return Knob(change, now, 0, frozenset({item}), text, hint=hint)


def _constraint(index: int, constraint: Constraint) -> Iterator[Knob]:
    """A wider bound, in the steps that the coefficients allow."""
    eases = frozenset({Item("constraint", (index,))})
    for field, sign in (("max", 1), ("min", -1)):
        bound: Fraction | None = getattr(constraint, field)
        if bound is None:
            continue
        factors = (*constraint.terms.values(), bound)
        scale = lcm(*(factor.denominator for factor in factors))
        now = int(bound * scale)
        yield Knob(
            f"constraints[{index}].{field}",
            now,
            now + sign * _MOST,
            eases,
            _wording(index, field, bound, scale),
            write=_written(scale),
        )


def _wording(index: int, field: str, bound: Fraction, scale: int) -> Callable[[int], str]:
    return lambda to: f"constraint {index}: {field} {Fraction(to, scale)} instead of {bound}"


def _written(scale: int) -> Callable[[int], str]:
    return lambda to: str(Fraction(to, scale))
