"""Every Pareto-optimal plan, by asking again and again for more of the later goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem, SolverError
from kvplan.solver.frontier.goal_axes import Axis, ordered_by, reaching_all
from kvplan.solver.solve.plan import plan

MOST_POINTS = 10_000

Values = tuple[int, ...]
"""What a plan reaches in each goal, rounded down to the step of its axis."""


@dataclass(frozen=True)
class TradeOff:
    """A Pareto-optimal plan."""

    values: Values
    plan: Plan
    asked: Problem  # whose plan it is


@dataclass
class Walk:
    """Finds the trade-offs of a problem.

    With a floor under every goal but the first, the largest first goal, then the largest second
    one and so on is Pareto-optimal. Raising the floor of the last goal beyond what was reached
    gives the next point, until nothing fits. A floor changes nothing until it passes the least
    value of that goal among the points above it, so no point is passed over.
    """

    problem: Problem
    axes: tuple[Axis, ...]
    progress: Callable[[int], None] | None = None
    found: dict[Values, TradeOff] = field(default_factory=dict)

    def run(self) -> list[TradeOff]:
        """Every trade-off, the first goal falling.

        Raises
        ------
        Infeasible : the problem itself has no plan.
        """
        for point in self._points(len(self.axes) - 1, {}):
            self._keep(point)
        if not self.found:
            plan(self.problem)  # says why nothing fits
        return [self.found[values] for values in sorted(self.found, reverse=True)]

    def _points(self, last: int, floors: Mapping[int, int]) -> Iterator[TradeOff]:
        """Trade-offs between the goals up to `last`, with floors under the later ones."""
        if last == 0:
            point = self._best(floors)
            if point is not None:
                yield point
            return
        axis, floor = self.axes[last], None
        while True:
            under = floors if floor is None else {**floors, last: floor}
            points = list(self._points(last - 1, under))
            yield from points
            if not points:
                return
            floor = min(point.values[last] for point in points) + axis.step

    def _best(self, floors: Mapping[int, int]) -> TradeOff | None:
        """The largest rounded values in the order of the goals."""
        held = dict(floors)
        order = list(range(len(self.axes)))
        found = self._plan(held, order)
        if found is None:
            return None
        for index, axis in enumerate(self.axes):
            reached = axis.rounded(self._reached(found[1], order)[index])
            held[index] = max(reached, held.get(index, reached))
            if axis.step > 1:  # what is above the multiple is for the goals behind it
                order = [*range(index + 1, len(self.axes)), *range(index + 1)]
                found = self._plan(held, order)
                if found is None:
                    raise SolverError("a plan that was found is lost under its own floors")
        asked, answer = found
        return TradeOff(tuple(held[index] for index in range(len(self.axes))), answer, asked)

    def _reached(self, answer: Plan, order: list[int]) -> Values:
        by_axis = dict(zip(order, answer.proof.bound, strict=False))
        return tuple(int(by_axis[index].value) for index in range(len(self.axes)))

    def _plan(self, floors: Mapping[int, int], order: list[int]) -> tuple[Problem, Plan] | None:
        """The problem with these floors and this order of the goals, and its plan."""
        ordered = ordered_by(self.problem, [self.axes[index] for index in order])
        problem = reaching_all(ordered, [(self.axes[i], least) for i, least in floors.items()])
        if problem is None:
            return None
        try:
            answer = plan(problem)
        except Infeasible:
            return None
        unproven = [g for g in answer.proof.bound[: len(self.axes)] if g.value != g.bound]
        if unproven:
            raise SolverError(f"a trade-off could not be proven: {unproven[0].goal}")
        return problem, answer

    def _keep(self, point: TradeOff) -> None:
        self.found.setdefault(point.values, point)
        if len(self.found) > MOST_POINTS:
            axis = self.axes[-1].variable
            expected = f"at most {MOST_POINTS:_} trade-offs; a step leaves fewer ({axis}:4096)"
            raise InvalidProblem.at("--goals", expected, "more")
        if self.progress is not None:
            self.progress(len(self.found))


def trade_offs(
    problem: Problem,
    axes: tuple[Axis, ...],
    progress: Callable[[int], None] | None = None,
) -> list[TradeOff]:
    """Find every trade-off between the goals, as `Walk.run`."""
    return Walk(problem, axes, progress).run()
