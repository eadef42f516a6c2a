"""Goal after goal over the nested search, then fill, then the rest: a whole plan in integers."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import permutations

from kvplan.kernels.bytes import expert_bytes, least_kept, most_blocks, pool_bytes
from kvplan.kernels.capacity import bisect_largest
from kvplan.kernels.nested import Nested
from kvplan.kernels.terms import GoalTerm, GoalTerms, Row, Variable
from kvplan.kernels.values import Answer, goal_value, rises, term_value
from kvplan.kernels.worlds import Corner, World, point_at

LISTED = ("prefill", "choice")
"""Variables with few values: they are listed, not bisected."""
_MOST_ORDERS = 6


class UnprovenError(Exception):
    """A search meets a weighted goal over several wide variables, which it leaves to others."""


def solve(nested: Nested) -> Answer | None:
    """Best point in the order of the goals; None when nothing fits.

    `exact` says whether the answer is proven: it is for ordered goals, for weighted ones over
    listed variables and at most one other whose worth never falls, and for those over more where
    the search stays within its limits. Linear constraints are not looked at here.

    Raises
    ------
    UnprovenError : the search does not weigh several wide variables.
    """
    if nested.direct is not None:
        return nested.direct.answer([row.room for row in nested.terms.rows])
    worlds = [world for world in nested.worlds() if nested.possible(world)]
    if not worlds:
        return None
    exact = True
    bounds: list[Fraction | None] = []
    for number, goal in enumerate(nested.terms.goals):
        variable = goal.single
        if _is_tail(nested, worlds, number):
            worlds[0], tops = _fill_tail(nested, worlds[0], number)
            bounds += tops if exact else [None] * len(tops)
            break
        if variable is not None:
            worlds, bound = _raise(nested, worlds, variable)
            if bound is not None:
                bound *= goal.terms[0].weight
        elif _is_listable(goal):
            worlds, bound = _raise_listed(nested, worlds, goal)
        else:
            worlds, bound, proven = _raise_weighted(nested, worlds, goal)
            # What follows an unproven goal is only bounded within the world it ended in.
            bounds.append(bound if exact else None)
            exact = exact and proven
            continue
        bounds.append(bound if exact else None)
    return _best_end(nested, worlds, bounds, exact)


def _best_end(
    nested: Nested, worlds: list[World], bounds: Sequence[Fraction | None], exact: bool
) -> Answer | None:
    """The answer of the world that keeps most experts, then holds the smallest pools in order."""
    if len(worlds) == 1:
        return finish(nested, worlds[0], bounds, exact)
    # What a share is of depends on which world the other pools are smallest in.
    exact = exact and not nested.terms.fill_shares
    ends = [finish(nested, world, bounds, exact) for world in worlds]
    found = [answer for answer in ends if answer is not None]
    if not found:
        return None
    return min(found, key=lambda answer: (-answer.point.kept, answer.point.usable))


def _is_tail(nested: Nested, worlds: list[World], number: int) -> bool:
    """Whether only pools are left to raise, in one world with one least demand."""
    if not nested.fills_in_order or number < nested.terms.fill_from or len(worlds) > 1:
        return False
    goals = nested.terms.goals[number:]
    return all(goal.single is not None and goal.single.kind == "blocks" for goal in goals)


def _fill_tail(nested: Nested, world: World, number: int) -> tuple[World, list[Fraction]]:
    """Raise the pools of the last goals in one pass."""
    corner = next(c for c in nested.corners(world) if nested.fits(world, c))
    pools = [goal.terms[0].variable.position for goal in nested.terms.goals[number:]]
    usable = nested.blocks_in_order(world, corner, pools).usable
    blocks = [*world.blocks]
    for pool in pools:
        blocks[pool] = usable[pool]
    return world._replace(blocks=tuple(blocks)), [Fraction(usable[pool]) for pool in pools]


def complete(nested: Nested, world: World, decided: Sequence[Fraction | None]) -> Answer:
    """Fill and finish a world in which every goal before fill is decided."""
    worlds = [world]
    bounds = list(decided)
    for number, goal in enumerate(nested.terms.goals):
        if number < nested.terms.fill_from:
            continue
        if _is_tail(nested, worlds, number):
            worlds[0], tops = _fill_tail(nested, worlds[0], number)
            bounds += tops
            break
        assert goal.single is not None
        worlds, bound = _raise(nested, worlds, goal.single)
        bounds.append(bound)
    answer = finish(nested, worlds[0], bounds, exact=True)
    if answer is None:
        raise RuntimeError("the decided values do not fit beside each other")
    return answer


def finish(
    nested: Nested, world: World, bounds: Sequence[Fraction | None], exact: bool
) -> Answer | None:
    """Fill by shares, keep experts in prefill, and value every goal."""
    corner = next((c for c in nested.corners(world) if nested.fits(world, c)), None)
    if corner is None:  # only under constraints whose mending is a guess
        return None
    corner = _share_out(nested, world, corner)
    point = point_at(world, corner, most_kept(nested, world, corner))
    terms, demand = nested.terms, nested.demand
    values = tuple(goal_value(terms, demand, point, goal) for goal in terms.goals)
    return Answer(point, values, tuple(bounds), exact)


def _raise(
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


def _is_listable(goal: GoalTerms) -> bool:
    wide = [term for term in goal.terms if term.variable.kind not in LISTED]
    return len(wide) <= 1 and all(map(rises, wide))


def _raise_listed(
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


def _raise_weighted(
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
            kept, _ = _raise(nested, kept, term.variable)
        world = kept[0]
        value = sum((_reached(nested, world, term) for term in goal.terms), Fraction(0))
        if best is None or value > best[0]:
            best = (value, world)
    assert best is not None
    return best[1]


def _reached(nested: Nested, world: World, term: GoalTerm) -> Fraction:
    return term_value(term, nested.range_of(world, term.variable)[0])


def _share_out(nested: Nested, world: World, corner: Corner) -> Corner:
    """Fill by shares: blocks within floor(share x (quota less all but the share pools)).

    A floor above its share stays, and then later pools take what is left.
    """
    terms = nested.terms
    if not terms.fill_shares:
        return corner
    rests = [_rest_of_shares(nested, world, corner, row) for row in terms.rows]
    for pool, share in terms.fill_shares:
        cap = nested.blocks_in_rest(world, corner, pool)
        for row, rest in zip(terms.rows, rests, strict=True):
            if row.pools and row.pools[pool]:
                budget = most_blocks(int(share * rest // 1), row.pools[pool])
                cap = min(cap, budget - terms.pools[pool].reserved)
        cap = cap // terms.pools[pool].multiple * terms.pools[pool].multiple
        usable = corner.usable
        usable = (*usable[:pool], max(usable[pool], cap), *usable[pool + 1 :])
        corner = corner._replace(usable=usable)
    return corner


def _rest_of_shares(nested: Nested, world: World, corner: Corner, row: Row) -> int:
    """Room of a row less everything but the pools that fill by shares."""
    pools = nested.terms.pools
    mine = sum(
        pool_bytes(corner.usable[pool] + pools[pool].reserved, row.pools[pool])
        for pool, _ in nested.terms.fill_shares
        if row.pools
    )
    return row.room - nested.used(row, world, corner) + mine


def most_kept(nested: Nested, world: World, corner: Corner) -> int:
    """Most expert slots that can stay during prefill beside everything else."""
    experts = nested.terms.experts
    if experts is None:
        return 0
    low = least_kept(corner.experts, experts)
    rooms = [
        (
            row.room - nested.used(row, world, corner) + expert_bytes(low, row.layers, experts),
            row.layers,
        )
        for row in nested.terms.rows
        if row.lent and row.layers
    ]
    return bisect_largest(
        lambda kept: all(expert_bytes(kept, layers, experts) <= room for room, layers in rooms),
        low,
        corner.experts,
    )
