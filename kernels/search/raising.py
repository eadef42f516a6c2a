"""One goal settled: a single variable, or several wide ones by a good guess and a bound."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import islice, permutations

from kvplan.kernels.instance import Objective, ObjectiveTerm, Variable
from kvplan.kernels.search.bounds import Bounds
from kvplan.kernels.search.enumerated import least_reaching
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import rises, term_value

_MOST_ORDERS = 6
_MOST_STARTS = 64  # combinations of options that a guess tries


def raise_single(
    search: Search, bounds: list[Bounds], variable: Variable
) -> tuple[list[Bounds], int | None]:
    """Settle one variable at the largest value that any bounds allow; none are left if none fit."""
    reached = [(search.largest(each, variable), each) for each in bounds]
    best = max((value for value, _ in reached if value is not None), default=None)
    if best is None:
        return [], None
    kept = [search.settled(each, variable, best) for value, each in reached if value == best]
    return kept, best


def raise_weighted(
    search: Search, bounds: list[Bounds], goal: Objective
) -> tuple[list[Bounds], Fraction | None, bool]:
    """A good point of a goal over several wide variables, and an upper bound of the goal."""
    possible = [each for each in bounds if search.possible(each)]
    if not possible:
        return [], None, True
    return [_greedy(search, possible[:_MOST_STARTS], goal)], _bound(search, possible, goal), False


def _bound(search: Search, bounds: list[Bounds], goal: Objective) -> Fraction:
    """Sum of what each member could reach alone."""
    total = Fraction(0)
    for member in goal.members:
        tops = [search.largest(each, member.variable) for each in bounds]
        top = max(value for value in tops if value is not None)
        low = min(search.range_of(each, member.variable)[0] for each in bounds)
        ends = {low, top}
        for x, _ in member.curve or ():
            ends |= {end for end in (x // 1, -(-x // 1)) if low <= end <= top}
        total += max(term_value(member, end) for end in ends)
    return total


def _greedy(search: Search, bounds: list[Bounds], goal: Objective) -> Bounds:
    """The members raised one after the other, in the best of some orders.

    Of orders that are worth the same, pools that fill by shares come last.
    """
    best: tuple[Fraction, Bounds] | None = None
    for order in _orders(search, [member for member in goal.members if rises(member)]):
        kept = bounds
        for member in order:
            kept = _raised(search, kept, member)
        value = sum((_reached(search, kept[0], member) for member in goal.members), Fraction(0))
        if best is None or value > best[0]:
            best = (value, kept[0])
    assert best is not None
    return best[1]


def _orders(search: Search, rising: list[ObjectiveTerm]) -> Iterator[tuple[ObjectiveTerm, ...]]:
    """Some orders of the members, first those with share pools last."""
    shared = tuple([m for m in rising if m.variable in _shared_pools(search)])
    others = [m for m in rising if m not in shared]
    for order in islice(permutations(others), _MOST_ORDERS):
        yield (*order, *shared)
    if shared:
        yield from islice(permutations((*shared, *others)), _MOST_ORDERS)


def _shared_pools(search: Search) -> set[Variable]:
    return {Variable("blocks", pool) for pool, _ in search.shape.fill_shares}


def _raised(search: Search, bounds: list[Bounds], member: ObjectiveTerm) -> list[Bounds]:
    """One member at the most that it can be worth, and no larger than that takes."""
    tops = [(search.largest(each, member.variable), each) for each in bounds]
    best = max(top for top, _ in tops if top is not None)
    worth = term_value(member, best)
    found = []
    for top, each in tops:
        if top == best:
            low, _ = search.range_of(each, member.variable)
            least = least_reaching(member, worth, low, best)
            found.append(search.at_least(each, member.variable, least))
    return found


def _reached(search: Search, bounds: Bounds, member: ObjectiveTerm) -> Fraction:
    return term_value(member, search.range_of(bounds, member.variable)[0])
