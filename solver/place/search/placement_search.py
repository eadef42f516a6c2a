"""Goals in order over a placement: each variable as large as some placement still fits it.

Every row grows with a variable, so what fits at a value fits below it, and values are bisected with
the placement solved inside; no product of the two is ever modelled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Literal, NamedTuple, cast

from kvplan.models import Problem
from kvplan.models.place import PIPELINED, PLACE_GOALS
from kvplan.solver.place.decide import Decide, Decision
from kvplan.solver.place.search.spread import Cost, Objective
from kvplan.solver.place.slot_program import Program, Values


class Placed(NamedTuple):
    """The values, the decision, whether every step was a proof, and what a better one may save."""

    values: Values
    decision: Decision
    is_proven: bool
    gap: Fraction = Fraction(0)


class Step(NamedTuple):
    """A goal that was decided.

    Attributes
    ----------
    values : what is decided beside the placement, this goal included.
    done, reached : the placement's own goals up to it, and what they cost.
    """

    goal: str
    values: Values
    done: tuple[Objective, ...]
    reached: Cost


class PlaceSearch:
    """One problem's search.

    Parameters
    ----------
    use_cpsat : CP-SAT alone decides, so that its answers can be held against the path's.
    partition : layers of each stage, where they are given.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        use_cpsat: bool = False,
        partition: tuple[int, ...] | None = None,
    ) -> None:
        self.program = Program(problem)
        self.decide = Decide(self.program, use_cpsat=use_cpsat, partition=partition)
        self.done: tuple[Objective, ...] = ()
        self.reached: Cost = ()
        self.steps: list[Step] = []
        self.guesses: dict[str, int] = {}  # by goal: a right one costs two questions

    def best(self) -> Placed | None:
        """The answer; None where nothing fits at the least values."""
        values, program = self.program.least(), self.program
        self.done, self.reached, self.steps = (), (), []
        if not self.fits(values):
            return None
        for goal in self._goals():
            if goal in PLACE_GOALS:
                self.done = (*self.done, cast("Objective", goal))
                self.reached = self._cost(values)
            else:
                values = self.raised(values, goal)
            self.steps.append(Step(goal, values, self.done, self.reached))
        objectives = self.objectives()
        decision = self.decide(values, objectives)
        assert decision is not None
        if PIPELINED in program.place.used:
            copied = self.decide(values, objectives, pipelined=True)
            decision = copied if copied is not None else decision
        gap = Fraction(0) if self.decide.all_proven else self.decide.gap
        return Placed(values, decision, self.decide.all_proven, gap)

    def _goals(self) -> Iterator[str]:
        """The user's, fitted requests, the chunk, the placement's own, pools that fill raises."""
        problem, instance = self.program.problem, self.program.instance
        kinds = ["count" if f.is_count else "capacity" for f in instance.fitted]
        named = [f"{kind}:{f.name}" for kind, f in zip(kinds, instance.fitted, strict=True)]
        if problem.prefill is not None:
            named.append("prefill")
        fill = [f"blocks:{instance.pools[pool].name}" for pool in instance.fill_pools]
        own = [goal.single or "" for goal in problem.goals]
        placed = [goal for goal in self._defaults() if goal not in own]
        yield from dict.fromkeys([*own, *named, *placed, *fill])

    def _defaults(self) -> tuple[Objective, ...]:
        """Speed where bandwidths are known, else as much off the host as fits; stages: none."""
        place = self.program.place
        if place.is_staged:
            return ()
        if place.read:
            return ("speed",)
        return ("layers_on_gpu", "experts_on_gpu") if place.host else ()

    def objectives(self) -> tuple[Objective, ...]:
        """The placement's own goals: the user's first, then the default ones."""
        named = [goal.single for goal in self.program.problem.goals if goal.single in PLACE_GOALS]
        own = cast("list[Objective]", named)
        return tuple(dict.fromkeys((*own, *self._defaults())))

    def _cost(self, values: Values) -> Cost:
        found = self.decide(values, self.done)
        assert found is not None
        return found.cost

    def fits(self, values: Values) -> bool:
        """Whether some placement fits, as good as what earlier goals reached."""
        if not self.done:
            return self.decide.fits(values)
        found = self.decide(values, self.done)
        return found is not None and found.cost[:-1] <= self.reached[:-1]  # spaces come last of all

    def restore(self, step: Step) -> None:
        """Go back to a goal that was decided."""
        self.done, self.reached = step.done, step.reached

    def value_of(self, values: Values, goal: str) -> int:
        """A variable's value: tokens, requests, or usable blocks."""
        kind, instance = goal.partition(":")[0], self.program.instance
        if kind == "prefill":
            return instance.chunks[values.chunk]
        if kind == "blocks":
            usable = self.program.usable(values)
            return 0 if usable is None else usable[self._position(goal)]
        return values.fitted[self._position(goal)]

    def one_more(self, values: Values, goal: str) -> Values | None:
        """Values with a variable one higher; None where it is as high as it may be."""
        kind, instance = goal.partition(":")[0], self.program.instance
        if kind == "prefill":
            last = values.chunk + 1 == len(instance.chunks)
            return None if last else _with_chunk(values, values.chunk + 1)
        at, now = self._position(goal), self.value_of(values, goal)
        most = instance.pools[at].most if kind == "blocks" else instance.fitted[at].most
        if most is not None and now >= most:
            return None
        return _setter("blocks" if kind == "blocks" else "fitted", at)(values, now + 1)

    def _position(self, goal: str) -> int:
        """Position of a pool or a fitted request."""
        kind, _, name = goal.partition(":")
        instance = self.program.instance
        named = instance.pools if kind == "blocks" else instance.fitted
        return [one.name for one in named].index(name)

    def raised(self, values: Values, goal: str) -> Values:
        """Values with one variable as large as it can be."""
        kind, instance = goal.partition(":")[0], self.program.instance
        if kind == "prefill":
            most: int | None = len(instance.chunks) - 1
            return values._replace(chunk=self._largest(goal, values, _with_chunk, 0, most))
        if kind == "blocks":
            at = self._position(goal)
            limit = instance.pools[at].most
            usable = self.program.usable(values)
            assert usable is not None
            set_blocks = _setter("blocks", at)
            found = self._largest(goal, values, set_blocks, usable[at], limit)
            return set_blocks(values, found)
        at = self._position(goal)
        fitted, set_fitted = instance.fitted[at], _setter("fitted", at)
        found = self._largest(goal, values, set_fitted, fitted.least, fitted.most)
        return set_fitted(values, found)

    def _largest(
        self,
        goal: str,
        values: Values,
        change: Callable[[Values, int], Values],
        low: int,
        most: int | None,
    ) -> int:
        """The largest value that fits, where the least does: guess or gallop, then bisect."""

        def fits(value: int) -> bool:
            return self.fits(change(values, value))

        guess, high = self.guesses.get(goal, low), most
        if low < guess and (most is None or guess <= most):
            if fits(guess):
                low = guess
            else:
                high = guess
        if high == most and most is not None and (low == most or fits(most)):
            low = most
        else:
            low = _bisected(fits, *_galloped(fits, low, high))
        self.guesses[goal] = low
        return low


def _galloped(fits: Callable[[int], bool], low: int, high: int | None) -> tuple[int, int]:
    """A value that fits and one that does not, few steps apart where the answer is near."""
    step = 1
    while high is None or low + step < high:
        if not fits(low + step):
            return low, low + step
        low, step = low + step, 2 * step
    return low, high


def _bisected(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest value that fits, between one that does and one that does not."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _with_chunk(values: Values, chunk: int) -> Values:
    return values._replace(chunk=chunk)


def _setter(field: Literal["blocks", "fitted"], at: int) -> Callable[[Values, int], Values]:
    """A function that sets one entry of a field."""

    def change(values: Values, value: int) -> Values:
        entries = list(values.blocks if field == "blocks" else values.fitted)
        entries[at] = value
        if field == "blocks":
            return values._replace(blocks=tuple(entries))
        return values._replace(fitted=tuple(entries))

    return change
