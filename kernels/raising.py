"""One goal settled in every world: one variable, listed variables with one more, or several."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations

from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import GoalTerm, GoalTerms, Variable
from kvplan.kernels.values import rises, term_value
from kvplan.kernels.worlds import World

LISTED = ("prefill", "choice")
"""Variables with few values: they are listed, not bisected."""
_MOST_ORDERS = 6


class UnprovenError(Exception):
    """A search meets a weighted goal over several wide variables, which it leaves to others."""


def raise_single(
    nested: Nested, worlds: list[World], variable: Variable
) -> tuple[list[World], Fraction | None]:
    """Settle one variable at the largest value that any world allows."""
    reached = [(nested.largest(world, variable), world) for world in worlds]
    values = [value for value, _ in reached if value is not None]
    if not values:  # only under constraints whose mending is a guess
        return worlds, None
    best = max(values)
    kept = [nested.settled(world, variable, best) for value, world in reached if value == best]
    return kept, Fraction(best)


def is_listable(goal: GoalTerms) -> bool:
    """Whether trying every listed value and bisecting one other variable settles a goal."""
    wide = [term for term in goal.terms if term.variable.kind not in LISTED]
    return len(wide) <= 1 and all(map(rises, wide))


def raise_listed(
    nested: Nested, worlds: list[World], goal: GoalTerms
) -> tuple[list[World], Fraction | None]:
    """Try every chunk that matters in every world; the one wide variable is bisected.

    A world is kept for each combination that reaches the best value, the wide variable bounded by
    the least value that still reaches it.
    """
    listed = [term for term in goal.terms if term.variable.kind in LISTED]
    wide = next((term for term in goal.terms if term.variable.kind not in LISTED), None)
    best: Fraction | None = None
    kept: list[tuple[Fraction, World, Fraction]] = []
    for world in worlds:
        ceiling: int | None = None  # more chunk never leaves more for the wide variable
        for chosen in _listed_worlds(world, listed):
            base = sum((_listed_value(nested, chosen, term) for term in listed), Fraction(0))
            if (
                wide is not None
                and ceiling is not None
                and best is not None
                and base + term_value(wide, ceiling) < best
            ):
                continue
            if wide is None:
                if not nested.possible(chosen):
                    break
                value = base
            else:
                ceiling = nested.largest(chosen, wide.variable)
                if ceiling is None:
                    break
                value = base + term_value(wide, ceiling)
            if best is None or value >= best:
                best = value
                kept.append((value, chosen, base))
    if best is None:  # only under constraints whose mending is a guess
        return worlds, None
    winners = [(world, base) for value, world, base in kept if value == best]
    if wide is not None:
        return [_hold(nested, world, wide, best - base) for world, base in winners], best
    return [world for world, _ in winners], best


def _listed_worlds(world: World, listed: list[GoalTerm]) -> list[World]:
    if not any(term.variable.kind == "prefill" for term in listed):
        return [world]
    return [
        world._replace(chunk=chunk, chunk_most=chunk)
        for chunk in range(world.chunk, world.chunk_most + 1)
    ]


def _listed_value(nested: Nested, world: World, term: GoalTerm) -> Fraction:
    if term.variable.kind == "prefill":
        return term_value(term, nested.terms.chunks[world.chunk])
    return term_value(term, -world.options[term.variable.position])


def _hold(nested: Nested, world: World, term: GoalTerm, worth: Fraction) -> World:
    """Bound a variable from below by the least value whose worth reaches `worth`."""
    top = nested.largest(world, term.variable)
    if top is None:  # only under constraints whose mending is a guess
        return world
    low, _ = nested.range_of(world, term.variable)
    spare = bisect_largest(lambda less: term_value(term, top - less) >= worth, 0, top - low)
    return nested.at_least(world, term.variable, top - spare)


def raise_weighted(
    nested: Nested, worlds: list[World], goal: GoalTerms
) -> tuple[list[World], Fraction | None, bool]:
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


def _relaxed_bound(nested: Nested, worlds: list[World], goal: GoalTerms) -> Fraction | None:
    """Sum of what each term could reach alone: an upper bound of a weighted goal."""
    bound = Fraction(0)
    for term in goal.terms:
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


def _greedy(nested: Nested, worlds: list[World], goal: GoalTerms) -> World:
    """A good world: the members raised one after the other, in the best of some orders."""
    rising = [term for term in goal.terms if rises(term)]
    best: tuple[Fraction, World] | None = None
    for number, order in enumerate(permutations(rising)):
        if number == _MOST_ORDERS:
            break
        kept = worlds
        for term in order:
            kept, _ = raise_single(nested, kept, term.variable)
        world = kept[0]
        value = sum((_reached(nested, world, term) for term in goal.terms), Fraction(0))
        if best is None or value > best[0]:
            best = (value, world)
    assert best is not None
    return best[1]


def _reached(nested: Nested, world: World, term: GoalTerm) -> Fraction:
    return term_value(term, nested.range_of(world, term.variable)[0])
