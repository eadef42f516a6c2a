"""The best plan under lowered floors, in the order that the user states (`relax:`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kvplan.models import Plan, Problem
from kvplan.models.elastic import Prefill
from kvplan.models.plan import Solver
from kvplan.models.reading.paths import pool_path, request_path
from kvplan.models.reading.variables import relaxable
from kvplan.solver.digest import question_of
from kvplan.solver.explain.chunk_floor import (
    chunk_floor,
    is_constrained,
    lowest_listed,
    with_floors_from,
)
from kvplan.solver.explain.nearest import nearest
from kvplan.solver.explain.remedies.what_if import WhatIf
from kvplan.solver.solve.plan import solve_confirmed


@dataclass(frozen=True)
class Floor:
    """A floor that may be lowered from `now` to `last`."""

    variable: str
    now: int
    last: int
    overrides: Callable[[int], tuple[str, ...]]

    def at(self, value: int) -> tuple[str, ...]:
        """Overrides that put the floor there; none where it stays as it is."""
        return () if value == self.now else self.overrides(value)


def relaxed_plan(
    problem: Problem,
    *,
    solver: Solver = "cp-sat",
    deadline: float | None = None,
    device: Any = None,
) -> Plan | None:
    """Lower as few floors as it takes, the first-named first, each as little as possible.

    The last one needed is lowered least: floors before it are counted as fully lowered while its
    own is found. None where even all of them do not help (or none was named). Solver, deadline and
    device are as for `solve_confirmed`.
    """
    what_if = WhatIf(problem, None, ())
    floors = [_floor(problem, variable) for variable in problem.relax]
    needed = next(
        (
            count
            for count in range(1, len(floors) + 1)
            if what_if.fits_with(*_lowest(floors[:count]))
        ),
        None,
    )
    if needed is None:
        return None
    values = _values(what_if, floors[:needed])
    overrides = [text for floor, value in values for text in floor.at(value)]
    changed = what_if.changed(*overrides)
    answer = solve_confirmed(changed, solver=solver, deadline=deadline, device=device)
    lines = tuple(
        f"{floor.variable}: floor {floor.now} lowered to {value}"
        for floor, value in values
        if value != floor.now
    )
    return answer.model_copy(update={"relaxed": lines, "question": question_of(problem)})


def _lowest(floors: list[Floor]) -> tuple[str, ...]:
    return tuple(text for floor in floors for text in floor.at(floor.last))


def _values(what_if: WhatIf, floors: list[Floor]) -> list[tuple[Floor, int]]:
    """The highest floors that still fit, the last one's settled first."""
    settled: list[tuple[Floor, int]] = []
    fixed: tuple[str, ...] = ()
    for index in reversed(range(len(floors))):
        floor, others = floors[index], (*_lowest(floors[:index]), *fixed)

        def works(less: int, floor: Floor = floor, others: tuple[str, ...] = others) -> bool:
            return what_if.fits_with(*floor.at(floor.now - less), *others)

        less = 0 if works(0) else nearest(works, floor.now - floor.last)
        assert less is not None  # all the way down it fits
        settled.insert(0, (floor, floor.now - less))
        fixed = (*fixed, *floor.at(floor.now - less))
    return settled


def _floor(problem: Problem, variable: str) -> Floor:
    """The floor of a variable, as the overrides that lower it."""
    kind, at = variable.partition(":")[0], relaxable(problem)[variable]
    if kind == "experts":
        assert problem.experts is not None
        return Floor(variable, problem.experts.min_slots, 0, lambda v: (f"experts.min_slots={v}",))
    if kind == "prefill":
        assert problem.prefill is not None
        change, now, last = chunk_floor(problem.prefill)
        if is_constrained(problem):
            return _listed_chunks(variable, now, problem.prefill)
        return Floor(variable, now, last, lambda v: (f"{change}={v}",))
    if kind == "blocks":
        pool, path = problem.pools[at[0]], pool_path(problem, at[0])
        return Floor(variable, pool.min_blocks, 0, lambda v: (f"{path}.min_blocks={v}",))
    request, path = problem.batches[at[0]].requests[at[1]], request_path(problem, *at)
    if kind == "capacity":
        now = request.least_capacity if request.fit == "capacity" else request.capacity
    elif request.fit == "count":
        now = request.min_count or 1
    else:
        now = 1 if request.count is None else request.count
    changes = (f"{path}.fit={kind}",) if request.fit == "none" else ()
    return Floor(variable, now, min(now, 1), lambda v: (*changes, f"{path}.min_{kind}={v}"))


def _listed_chunks(variable: str, now: int, prefill: Prefill) -> Floor:
    """The floor of the chunk under a constraint on it: all floors down to one, taken together.

    A single lower floor moves the grid of `step`, and may miss the chunk that is allowed.
    """

    def overrides(floor: int) -> tuple[str, ...]:
        chunks = ", ".join(map(str, with_floors_from(prefill, floor).candidates))
        return ("prefill.min=null", "prefill.step=null", f"prefill.chunks=[{chunks}]")

    return Floor(variable, now, lowest_listed(prefill), overrides)
