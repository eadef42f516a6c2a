"""A point that obeys the linear constraints, found by searching again within narrower bounds.

The search knows nothing of linear constraints. Where its point breaks one, the bounds of one of
its variables are tightened just so far that the constraint would hold, and the search runs again:
depth first, for a limited number of searches. What is found is a plan; nothing is proven either
way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.kernels.instance import Budget, Instance, LinearConstraint, Variable
from kvplan.kernels.values import Answer, Point

MOST_SEARCHES = 48  # of an instance with two variable requests at most

_Member = tuple[int, Variable, int]  # coefficient, variable, option


class Questions(NamedTuple):
    """What a repair asks the search."""

    answer: Callable[[Instance], Answer | None]  # without linear constraints; None: nothing fits
    value: Callable[[Point, Variable], int]  # of a variable at a point
    raw: Callable[[Point, int], Sequence[int]]  # blocks of a batch at a point, by pool


class _Broken(NamedTuple):
    """A constraint, read as sum(coefficient x variable) >= least, that misses some."""

    members: tuple[_Member, ...]
    missing: int


def repaired(instance: Instance, start: Answer, ask: Questions) -> Answer | None:
    """The best of the points that obey, as far as some searches reach; None: none was found.

    Parameters
    ----------
    start : the search's answer without linear constraints; its first bound stays valid.
    """
    best: Answer | None = None
    stack = [(instance, start)]
    searches, most = 0, MOST_SEARCHES // max(1, len(instance.fitted) // 2)
    while stack and searches < most:
        narrowed, answer = stack.pop()
        broken = next(_broken_constraints(instance, answer.point, ask), None)
        if broken is None:
            best = answer if best is None or _worth(answer) > _worth(best) else best
            continue
        children = []
        for child in _narrowings(narrowed, broken, answer.point, ask):
            found = ask.answer(child)
            searches += 1
            if found is not None:
                children.append((child, found))
        stack += sorted(children, key=lambda entry: _worth(entry[1]))  # the best one first
    if best is None:
        return None
    first = start.bounds[:1] or (None,) * len(best.values[:1])
    return best._replace(bounds=(*first, *(None for _ in best.values[1:])), exact=False)


def _worth(answer: Answer) -> tuple[Fraction, ...]:
    return tuple(map(Fraction, answer.values))


def _broken_constraints(instance: Instance, point: Point, ask: Questions) -> Iterator[_Broken]:
    for constraint in instance.constraints:
        value = _left_side(constraint, point, ask)
        if constraint.least is not None and value < constraint.least:
            yield _Broken(constraint.members, constraint.least - value)
        if constraint.most is not None and value > constraint.most:
            turned = tuple([(-c, variable, option) for c, variable, option in constraint.members])
            yield _Broken(turned, value - constraint.most)


def _left_side(constraint: LinearConstraint, point: Point, ask: Questions) -> int:
    """sum(coefficient x variable); an option counts 1 where it is chosen."""
    value = 0
    for coefficient, variable, option in constraint.members:
        if option < 0:
            value += coefficient * ask.value(point, variable)
        else:
            value += coefficient * (point.options[variable.position] == option)
    return value


def _narrowings(
    instance: Instance, broken: _Broken, point: Point, ask: Questions
) -> Iterator[Instance]:
    """The instance with one variable's bound tightened until the constraint holds, or half so."""
    for coefficient, variable, option in broken.members:
        if option >= 0:
            if (point.options[variable.position] == option) is (coefficient > 0):
                continue
            yield _with_option(instance, variable.position, option, wanted=coefficient > 0)
            continue
        whole = -(-broken.missing // abs(coefficient)) if coefficient else 0
        for step in {whole, -(-whole // 2)} - {0}:
            value = ask.value(point, variable) + (step if coefficient > 0 else -step)
            bounds = (value, None) if coefficient > 0 else (None, value)
            if variable.kind == "copies":
                yield from _with_copies(instance, point, variable.position, bounds, ask)
            else:
                child = _narrowed(instance, variable, *bounds)
                yield from () if child is None else (child,)


def _with_option(instance: Instance, choice: int, option: int, *, wanted: bool) -> Instance:
    """One option made the only one of its choice, or ruled out: what is out fits nowhere."""

    def ruled(budget: Budget) -> Budget:
        taken = [
            size if (number == option) is wanted else budget.limit_bytes + 1
            for number, size in enumerate(budget.options[choice])
        ]
        options = (*budget.options[:choice], tuple(taken), *budget.options[choice + 1 :])
        return budget._replace(options=options)

    return instance._replace(
        budgets=tuple(map(ruled, instance.budgets)),
        every_budget=tuple(map(ruled, instance.every_budget)),
    )


def _with_copies(
    instance: Instance,
    point: Point,
    batch: int,
    bounds: tuple[int | None, int | None],
    ask: Questions,
) -> Iterator[Instance]:
    """Pools that hold so many copies, or one that holds no more; smaller or larger requests."""
    least, most = bounds
    raw = ask.raw(point, batch)
    child: Instance | None = instance
    for index, (pool, blocks) in enumerate(zip(instance.pools, raw, strict=True)):
        if least is not None and child is not None:
            held = -(-least * blocks * pool.use_den // pool.use_num)
            child = _narrowed(child, Variable("blocks", index), held, None)
        elif most is not None and blocks:
            held = -(-(most + 1) * blocks * pool.use_den // pool.use_num) - 1
            capped = _narrowed(instance, Variable("blocks", index), None, held)
            if capped is not None:
                yield capped
    if least is not None and child is not None:
        yield child
    for index in instance.batches[batch].fitted:
        request = instance.fitted[index]
        variable = Variable("count" if request.is_count else "capacity", index)
        if most is None:
            resized = _narrowed(instance, variable, None, ask.value(point, variable) // 2)
        else:
            resized = _narrowed(instance, variable, request.most, None)
        if resized is not None and resized != instance:
            yield resized


def _narrowed(
    instance: Instance, variable: Variable, least: int | None, most: int | None
) -> Instance | None:
    """The instance with one variable's bounds tightened; None where that cannot be written."""
    kind, index = variable
    if kind == "blocks":
        pool = instance.pools[index]
        pool = pool._replace(least=_higher(pool.least, least), most=_lower(pool.most, most))
        if pool.most is not None and pool.most < pool.least:
            return None
        pools = (*instance.pools[:index], pool, *instance.pools[index + 1 :])
        return instance._replace(pools=pools)
    if kind in ("capacity", "count"):
        request = instance.fitted[index]
        top = _lower(request.most, most)
        request = request._replace(least=_higher(request.least, least), most=top)
        if top is not None and top < request.least:
            return None
        fitted = (*instance.fitted[:index], request, *instance.fitted[index + 1 :])
        return instance._replace(fitted=fitted)
    if kind == "experts" and instance.experts is not None:
        experts = instance.experts
        slots = _lower(experts.most, most)
        experts = experts._replace(least=_higher(experts.least, least), most=slots)
        return (
            None
            if slots is not None and slots < experts.least
            else instance._replace(experts=experts)
        )
    return _with_chunks(instance, most) if kind == "prefill" and most is not None else None


def _with_chunks(instance: Instance, most: int) -> Instance | None:
    """Without the candidates above some tokens; the others keep their numbers."""
    chunks = tuple([chunk for chunk in instance.chunks if chunk <= most])
    if not chunks:
        return None
    number = len(chunks)
    return instance._replace(
        chunks=chunks,
        budgets=tuple(
            [budget._replace(staging=budget.staging[:number]) for budget in instance.budgets]
        ),
        every_budget=tuple(
            [budget._replace(staging=budget.staging[:number]) for budget in instance.every_budget]
        ),
    )


def _higher(least: int, other: int | None) -> int:
    return least if other is None else max(least, other)


def _lower(most: int | None, other: int | None) -> int | None:
    if most is None or other is None:
        return most if other is None else other
    return min(most, other)
