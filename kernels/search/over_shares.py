"""Pools above their share, lowered as far as goals and constraints let them.

A proven answer holds no more than that already. One found by a good guess, or by a solve that was
cut short, may hold blocks that nothing needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.kernels.instance import Variable
from kvplan.kernels.search.bounds import Bounds, LeastDemand
from kvplan.kernels.search.search import Search
from kvplan.kernels.search.shares import most_kept, share_caps
from kvplan.kernels.values import (
    Answer,
    Number,
    Point,
    constraint_value,
    goal_value,
    goal_values,
    holds,
)

_Usable = tuple[int, ...]


def within_shares(search: Search, answer: Answer) -> Answer:
    """The answer with every pool within its share, or where one step less costs something.

    What a step costs is a need, a constraint, or the worth of a goal that no other pool makes up
    for. The bounds of the goals stay what they are.
    """
    if answer.exact or not search.shape.fill_shares:
        return answer
    point = _Lowering(search, answer.point).run()
    values = goal_values(search.shape, search.demand, point)
    return answer._replace(point=point, values=values)


class _Lowering:
    """The blocks of one point, pool by pool in the order of the shares."""

    def __init__(self, search: Search, point: Point) -> None:
        self._search, self._point = search, point
        self._bounds: Bounds = search.starts()[0]._replace(
            chunk=point.chunk, options=point.options, experts=point.experts
        )
        self._floors = search.demand.floors(point.chunk, point.capacities, point.counts)
        is_coupled = search.shape.blocks_are_coupled
        beside = tuple(self._floors) if is_coupled else point.usable
        self._caps = dict(share_caps(search, self._bounds, self._demand(beside)))
        self._reached = self._values(point.usable)

    def run(self) -> Point:
        """The point with fewer blocks, and the most slots kept beside them."""
        usable, order = self._point.usable, list(self._caps)
        for place, pool in enumerate(order):
            usable = self._lowered(usable, pool, order[:place])
        for pool in order:
            usable = self._filled(usable, pool)
        kept = most_kept(self._search, self._bounds, self._demand(usable))
        return self._point._replace(usable=usable, kept=kept)

    def _demand(self, usable: _Usable) -> LeastDemand:
        capacities, counts = self._point.capacities, self._point.counts
        held = self._search.demand.with_contexts(usable, capacities)
        return LeastDemand(capacities, counts, held)

    def _lowered(self, usable: _Usable, pool: int, earlier: list[int]) -> _Usable:
        """One pool lowered in steps that halve, the last of one multiple."""
        multiple = self._search.shape.pools[pool].multiple
        least = max(self._caps[pool], self._floors[pool])
        steps = most = max(0, usable[pool] - least) // multiple
        while steps:
            fewer = self._fewer(usable, pool, steps * multiple, earlier)
            found = next(filter(self._holds, fewer), None)
            if found is None:
                steps //= 2
                continue
            usable, most = found, most - steps
            steps = min(steps, most)
        return usable

    def _filled(self, usable: _Usable, pool: int) -> _Usable:
        """One pool raised to its share, where that breaks nothing."""
        beside = self._search.blocks_beside(self._bounds, self._demand(usable), pool)
        more = min(self._caps[pool], beside)
        raised = (*usable[:pool], more, *usable[pool + 1 :])
        return raised if more > usable[pool] and self._holds(raised) else usable

    def _fewer(
        self, usable: _Usable, pool: int, less: int, earlier: list[int]
    ) -> Iterator[_Usable]:
        """Some blocks of a pool less: alone, or made up for by another pool of the same goal.

        A pool that was lowered before is raised to its share at most.
        """
        lowered = (*usable[:pool], usable[pool] - less, *usable[pool + 1 :])
        yield lowered
        for goal in self._search.shape.objectives:
            weights = {m.variable: m.weight for m in goal.members if m.curve is None}
            lost = less * weights.get(Variable("blocks", pool), 0)
            for (kind, other), weight in weights.items():
                if kind == "blocks" and other != pool and weight > 0 and lost > 0:
                    multiple = self._search.shape.pools[other].multiple
                    more = usable[other] + -(-lost // (weight * multiple)) * multiple
                    if other not in earlier or more <= self._caps[other]:
                        yield (*lowered[:other], more, *lowered[other + 1 :])

    def _holds(self, usable: _Usable) -> bool:
        """Whether blocks fit, keep the constraints, and no goal is worth less."""
        instance, demand = self._search.shape, self._search.demand
        point = self._point._replace(usable=usable)
        return (
            self._search.fits(self._bounds, self._demand(usable))
            and all(
                holds(row, constraint_value(instance, demand, point, row))
                for row in instance.constraints
            )
            and all(
                now >= was for now, was in zip(self._values(usable), self._reached, strict=True)
            )
        )

    def _values(self, usable: _Usable) -> list[Number]:
        """The values of all goals but those of fill."""
        instance, point = self._search.shape, self._point._replace(usable=usable)
        goals = instance.objectives[: instance.fill_from]
        return [goal_value(instance, self._search.demand, point, goal) for goal in goals]
