"""Where the answer changes as a quota does: exact, found by search on the quota.

Goals are met in order, so with fixed granules the values of the first goals, compared in order,
never fall as the quota grows: the first quota at which they differ is found by bisection. Where
an "auto" granule changes, both sides of the step are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import NamedTuple

from kvplan.models import Problem
from kvplan.solver.explain.nearest import AUTO_STEPS, Works, nearest
from kvplan.solver.explain.sensitivity.moved_quotas import MovedQuotas, Values
from kvplan.solver.formulate.budgets import GIB

EVERY = "every rank"
_MOST_MORE = 2**44  # bytes; nothing is searched beyond


class Change(NamedTuple):
    """A goal before and after."""

    goal: str
    before: Fraction
    after: Fraction


class BreakPoint(NamedTuple):
    """The nearest quota at which a goal (and none before it) changes."""

    rank: str  # or "every rank", each moved by as many bytes
    bytes: int  # more, or fewer (below 0), than the quota now
    changes: tuple[Change, ...]  # goals that differ there, in order; empty: nothing fits


class Worth(NamedTuple):
    """What one GiB more on a rank changes."""

    rank: str
    changes: tuple[Change, ...]


class Target(NamedTuple):
    """Ranks whose quotas are moved together."""

    name: str
    ranks: tuple[int, ...]


class Hints(NamedTuple):
    """Distances at which something probably changes, in bytes."""

    more: frozenset[int] = frozenset()
    fewer: frozenset[int] = frozenset()


class Walk:
    """Looks along the quotas of one target for the next change of a prefix of the goals."""

    def __init__(self, moved: MovedQuotas, target: Target, hints: Hints) -> None:
        self.moved, self.target, self.hints = moved, target, hints
        now = moved.values((), 0)
        assert now is not None
        self.now: Values = now
        self.goals = tuple(goal.label for goal in moved.instance.objectives)

    def at(self, more_bytes: int) -> Values | None:
        """Goal values with so many bytes more on the target."""
        return self.moved.values(self.target.ranks, more_bytes)

    def differs(self, more_bytes: int, goals: int) -> bool:
        """Whether the first goals have other values there, or nothing fits."""
        there = self.at(more_bytes)
        return there is None or there[:goals] != self.now[:goals]

    def changes(self, more_bytes: int) -> tuple[Change, ...]:
        """Goals that differ there."""
        there = self.at(more_bytes)
        if there is None:
            return ()
        rows = zip(self.goals, self.now, there, strict=True)
        return tuple(Change(*row) for row in rows if row[1] != row[2])

    def next(self, sign: int, goals: int, most: int) -> int | None:
        """Smallest distance up to `most` at which the first goals differ."""
        for start, end in self._stretches(sign, most):
            if self.differs(sign * start, goals):
                return start
            found = nearest(
                self._differs_from(sign, start, goals),
                end - start,
                self._hint(sign, start, end, goals),
            )
            if found is not None:
                return start + found
        return None

    def _differs_from(self, sign: int, start: int, goals: int) -> Works:
        return lambda far: self.differs(sign * (start + far), goals)

    def _hint(self, sign: int, start: int, end: int, goals: int) -> int | None:
        """The least guess at which something changes, as a distance from `start`."""
        given = self.hints.more if sign > 0 else self.hints.fewer
        guesses = sorted(far - start for far in given if start < far < end)
        return next((g for g in guesses if self.differs(sign * (start + g), goals)), None)

    def _stretches(self, sign: int, most: int) -> Iterator[tuple[int, int]]:
        """Distances between two steps of any "auto" granule of the target."""
        cuts: set[int] = set()
        if self.moved.automatic:
            for index in self.target.ranks:
                quota = self.moved.problem.ranks[index].quota_bytes
                edges = [step - quota if sign > 0 else quota - step + 1 for step in AUTO_STEPS]
                cuts.update(edge for edge in edges if 0 < edge <= most)
        starts = [0, *sorted(cuts)]
        yield from zip(starts, [*(cut - 1 for cut in starts[1:]), most], strict=True)


def break_points(
    moved: MovedQuotas, targets: tuple[Target, ...], hints: Mapping[str, Hints]
) -> Iterator[BreakPoint]:
    """For every target, direction and goal the nearest change that no earlier goal has nearer."""
    for target in targets:
        yield from break_points_of(Walk(moved, target, hints.get(target.name, Hints())))


def break_points_of(walk: Walk) -> Iterator[BreakPoint]:
    """The same for one target, more quota first."""
    for sign in (1, -1):
        yield from _of_target(walk, sign)


def _of_target(walk: Walk, sign: int) -> Iterator[BreakPoint]:
    """An earlier goal's break-point bounds the search for a later one's.

    No goal but the last changes sooner. With no goals at all, the change is where nothing fits.
    """
    problem = walk.moved.problem
    quotas = [problem.ranks[index].quota_bytes for index in walk.target.ranks]
    furthest = _MOST_MORE if sign > 0 else max(min(quotas), 0)
    found: list[BreakPoint] = []
    seen: int | None = None
    for goals in range(len(walk.goals) + 1):
        far = walk.next(sign, goals, furthest if seen is None else seen)
        if far is None or far == seen:
            continue
        seen = far
        found.append(BreakPoint(walk.target.name, sign * far, walk.changes(sign * far)))
    yield from reversed(found)


def worths(moved: MovedQuotas, targets: tuple[Target, ...]) -> Iterator[Worth]:
    """What one GiB more buys on every target, goal by goal."""
    for target in targets:
        yield Worth(target.name, Walk(moved, target, Hints()).changes(GIB))


def targets_of(problem: Problem, groups: Mapping[tuple[int, ...], str]) -> tuple[Target, ...]:
    """One rank of each group of alike ones, then all together where there are several."""
    singles = [Target(name, members[:1]) for members, name in groups.items()]
    if len(problem.ranks) == 1:
        return tuple(singles)
    return (*singles, Target(EVERY, tuple(range(len(problem.ranks)))))
