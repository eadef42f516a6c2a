"""One goal settled in every world: one variable, or several wide ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

from kvplan.kernels.instance import Objective, ObjectiveTerm, Variable
from kvplan.kernels.nested import Search
from kvplan.kernels.values import rises, term_value
from kvplan.kernels.worlds import Bounds

_MOST_ORDERS = 6


class UnprovenError(Exception):
    """A search meets a weighted goal over several wide variables, which it leaves to others."""


def raise_single(
    nested: Search, worlds: list[Bounds], variable: Variable
) -> tuple[list[Bounds], Fraction | None]:
    """Settle one variable at the largest value that any world allows."""
    reached = [(nested.largest(world, variable), world) for world in worlds]
    values = [value for value, _ in reached if value is not None]
    if not values:  # only under constraints whose mending is a guess
        return worlds, None
    best = max(values)
    kept = [nested.settled(world, variable, best) for value, world in reached if value == best]
    return kept, Fraction(best)


def raise_weighted(
    nested: Search, worlds: list[Bounds], goal: Objective
) -> tuple[list[Bounds], Fraction | None, bool]:
    """Every optimal world of a goal over several wide variables; else a good world and a bound."""
    if not nested.weighs:
        raise UnprovenError
    from kvplan.kernels.weighted import optimal_worlds

    found = optimal_worlds(nested, worlds, goal)
    if found is not None and found.proven:
        return found.worlds, found.value, True
    if found is None:
        return [_greedy(nested, worlds, goal)], _relaxed_bound(nested, worlds, goal), False
    bound = _relaxed_bound(nested, worlds, goal) if found.bound is None else found.bound
    return found.worlds, bound, False


def _relaxed_bound(nested: Search, worlds: list[Bounds], goal: Objective) -> Fraction | None:
    """Sum of what each term could reach alone: an upper bound of a weighted goal."""
    bound = Fraction(0)
    for term in goal.members:
        found = [nested.largest(world, term.variable) for world in worlds]
        tops = [value for value in found if value is not None]
        if not tops:  # only under constraints whose mending is a guess
            return None
        top = max(tops)
        low = min(nested.range_of(world, term.variable)[0] for world in worlds)
        ends = [low, top]
        for x, _ in term.curve or ():
            ends += [end for end in (x // 1, -(-x // 1)) if low <= end <= top]
        bound += max(term_value(term, end) for end in ends)
    return bound


def _greedy(nested: Search, worlds: list[Bounds], goal: Objective) -> Bounds:
    """A good world: the members raised one after the other, in the best of some orders."""
    rising = [term for term in goal.members if rises(term)]
    best: tuple[Fraction, Bounds] | None = None
    for number, order in enumerate(permutations(rising)):
        if number == _MOST_ORDERS:
            break
        kept = worlds
        for term in order:
            kept, _ = raise_single(nested, kept, term.variable)
        world = kept[0]
        value = sum((_reached(nested, world, term) for term in goal.members), Fraction(0))
        if best is None or value > best[0]:
            best = (value, world)
    assert best is not None
    return best[1]


def _reached(nested: Search, world: Bounds, term: ObjectiveTerm) -> Fraction:
    return term_value(term, nested.range_of(world, term.variable)[0])
