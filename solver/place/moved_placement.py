"""What limits a placement: the nearest quotas at which another one is better, or none as good.

More bytes on a rank never make an earlier goal worse, so each point is bisected; a probe asks one
question of the search, not for a whole plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from kvplan.models import Problem
from kvplan.models.place import PLACE_GOALS
from kvplan.solver.explain.nearest import nearest
from kvplan.solver.explain.sensitivity.break_points import EVERY, BreakPoint, Change, Worth
from kvplan.solver.explain.sensitivity.findings import Explained
from kvplan.solver.formulate.budgets import GIB
from kvplan.solver.place.search.placement_search import Placed, PlaceSearch, Step
from kvplan.solver.place.search.spread import Spreading, measure
from kvplan.solver.solve.plan import plan

MOST_MORE = 2**44
UNITS = {
    "speed": "picoseconds a token",
    "layers_on_gpu": "layers on the host",
    "experts_on_gpu": "experts on the host",
}


def explain_placed(problem: Problem) -> Explained:
    """Explain what limits a plan with a placement.

    Raises
    ------
    Infeasible, InvalidProblem, SolverError : as `plan` does.
    """
    answer = plan(problem)
    moved = MovedPlacement(problem)
    names = [rank.name for rank in problem.ranks]
    targets: list[tuple[str, tuple[int, ...]]] = [(n, (at,)) for at, n in enumerate(names)]
    if len(names) > 1:
        targets.append((EVERY, tuple(range(len(names)))))
    points = [point for target in targets for point in moved.points(*target)]
    worth = [Worth(name, moved.changes(ranks, GIB)) for name, ranks in targets]
    return Explained(answer, tuple(points), tuple(worth), {name: (name,) for name in names})


class MovedPlacement:
    """Answers of one problem's search at other quotas."""

    def __init__(self, problem: Problem) -> None:
        self.search = PlaceSearch(problem)
        found = self.search.best()
        assert found is not None
        self.found, self.steps = found, tuple(self.search.steps)

    def goals(self, found: Placed, steps: tuple[Step, ...]) -> dict[str, Fraction]:
        """Values of the goals as a report shows them; times and what stays off a card: lower."""
        told = dict[str, Fraction]()
        for step in steps:
            if step.goal == "speed":
                told[UNITS[step.goal]] = Fraction(self._picoseconds(found))
            elif step.goal in PLACE_GOALS:
                told[UNITS[step.goal]] = Fraction(step.reached[len(step.done) - 1])
            else:
                told[step.goal] = Fraction(self.search.value_of(found.values, step.goal))
        return told

    def _picoseconds(self, found: Placed) -> int:
        """A token's time, as the plan shows it."""
        spread = self.search.program.spread(found.values, ("speed",))
        assert spread is not None
        decision = found.decision
        return measure(spread, Spreading(decision.ends, decision.experts)).picoseconds

    def at(self, ranks: tuple[int, ...], more: int) -> None:
        """Move quotas."""
        self.search.program.more = dict.fromkeys(ranks, more)

    def changes(self, ranks: tuple[int, ...], more: int) -> tuple[Change, ...]:
        """Goals that differ with so many bytes more; none where nothing fits."""
        self.at(ranks, more)
        there = self.search.best()
        if there is None:
            return ()
        before = self.goals(self.found, self.steps)
        after = self.goals(there, tuple(self.search.steps))
        return tuple(
            Change(name, value, after[name])
            for name, value in before.items()
            if after[name] != value
        )

    def points(self, name: str, ranks: tuple[int, ...]) -> Iterator[BreakPoint]:
        """The nearest change that no earlier goal has nearer, in both directions."""
        quotas = [self.search.program.problem.ranks[rank].quota_bytes for rank in ranks]
        directions: tuple[tuple[int, int, Callable[[Step], bool]], ...] = (
            (1, MOST_MORE, self._improves),
            (-1, max(0, min(quotas)), self._fails),
        )
        for sign, seen, differs in directions:
            found = list[BreakPoint]()
            for step in self.steps:
                far = nearest(partial(self._differs_at, differs, step, ranks, sign), seen)
                if far is None or (found and far == seen):
                    continue
                seen = far
                found.append(BreakPoint(name, sign * far, self.changes(ranks, sign * far)))
            yield from reversed(found)

    def _differs_at(
        self,
        differs: Callable[[Step], bool],
        step: Step,
        ranks: tuple[int, ...],
        sign: int,
        far: int,
    ) -> bool:
        """Whether a step comes out otherwise with quotas so far away."""
        self.at(ranks, sign * far)
        return differs(step)

    def _improves(self, step: Step) -> bool:
        """Whether a goal can be better, the earlier ones as they are."""
        self.search.restore(step)
        if step.goal in PLACE_GOALS:
            found = self.search.decide(step.values, self.search.done)
            return found is not None and found.cost[:-1] < step.reached[:-1]
        raised = self.search.one_more(step.values, step.goal)
        return raised is not None and self.search.fits(raised)

    def _fails(self, step: Step) -> bool:
        """Whether a goal or one before it cannot be as good."""
        self.search.restore(step)
        return not self.search.fits(step.values)
