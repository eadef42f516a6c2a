"""A lower count or capacity of a request."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nlargest

from kvplan.kernels.instance import Variable
from kvplan.kernels.nested import Search
from kvplan.models import InvalidProblem, Problem
from kvplan.solver.explain.conflict.demands import MOST_REQUESTS, Item
from kvplan.solver.explain.conflict.wording import request_title
from kvplan.solver.explain.feasible import bare
from kvplan.solver.explain.nearest import nearest_listed
from kvplan.solver.explain.paths import request_path
from kvplan.solver.explain.remedies.knob import Knob
from kvplan.solver.explain.remedies.what_if import WhatIf
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.solve.plan import plan

_MOST_TRIED = 16  # requests of a batch that is one demand


def request_knobs(what_if: WhatIf) -> Iterator[Knob]:
    """Count and capacity of every request; of a large batch those of its largest requests."""
    for b, batch in enumerate(what_if.problem.batches):
        requests = batch.requests
        whole = len(requests) > MOST_REQUESTS
        most = _MOST_TRIED if whole else len(requests)
        largest = nlargest(most, ((request.capacity, -r) for r, request in enumerate(requests)))
        for r in sorted(-place for _, place in largest):
            eases = frozenset({Item("request", (b, r))})
            yield from _count(what_if.problem, b, r, eases)
            yield from _capacity(what_if, b, r, eases)


def _count(problem: Problem, b: int, r: int, eases: frozenset[Item]) -> Iterator[Knob]:
    """Fewer alike requests; none at all leaves the request out."""
    request, path = problem.batches[b].requests[r], request_path(problem, b, r)
    title = request_title(problem, b, r)
    floored = request.fit == "count"
    now = (request.min_count if floored else request.count) or 1
    if request.count == 0:
        return
    copied = f"copies:{problem.batches[b].name}" in _counted_copies(problem)
    last = 0 if request.fit == "none" else 1
    yield Knob(
        change=f"{path}.{'min_count' if floored else 'count'}",
        now=now,
        last=last,
        eases=eases,
        text=lambda to: _counted(title, to, now, floored=floored),
        find=_of_copied_batch if copied else None,
    )


def _of_copied_batch(what_if: WhatIf, knob: Knob) -> int | None:
    """Where copies of the batch are counted none of a request may be no legal problem."""
    far = nearest_listed(
        lambda less: what_if.fits_with(knob.written(knob.now - less)), knob.now - 1
    )
    if far is not None:
        return knob.now - far
    return 0 if knob.last == 0 and what_if.fits_with(knob.written(0)) else None


def _counted_copies(problem: Problem) -> set[str]:
    """Variables of goals, constraints and fill; copies of nothing would be no legal problem."""
    named = {name for c in problem.constraints for name in c.terms}
    named.update(name for goal in problem.goals for name in goal.maximize)
    if problem.fill is not None and problem.fill.batch is not None:
        named.add(f"copies:{problem.fill.batch}")
    return named


def _counted(title: str, to: int, now: int, *, floored: bool) -> str:
    if to == 0:
        return f"{title}: left out"
    return f"{title}: a count of {to:_}{' at least' if floored else ''} instead of {now:_}"


def _capacity(what_if: WhatIf, b: int, r: int, eases: frozenset[Item]) -> Iterator[Knob]:
    problem = what_if.problem
    request, path = problem.batches[b].requests[r], request_path(problem, b, r)
    title = request_title(problem, b, r)

    def text(to: int) -> str:
        return f"{title}: a capacity of {to:_} tokens instead of {request.capacity:_}"

    if request.fit == "capacity":
        if request.min_capacity is not None:
            now = request.min_capacity
            yield Knob(
                f"{path}.min_capacity",
                now,
                1,
                eases,
                lambda to: f"{title}: {to:_} tokens at least instead of {now:_}",
            )
        return
    if not request.capacity or request.count == 0:
        return
    if request.history is None:
        yield Knob(
            f"{path}.capacity",
            request.capacity,
            1,
            eases,
            text,
            find=lambda what_if, knob: _largest_capacity(what_if, knob, b, r),
        )
        return
    least = max(request.history, 1)
    if least < request.capacity:
        yield Knob(f"{path}.capacity", request.capacity, least, eases, text, steady=False)
    if request.fit == "none":
        yield _shrinking(what_if, b, r, eases)


def _largest_capacity(what_if: WhatIf, knob: Knob, b: int, r: int) -> int | None:
    """The largest capacity below the wanted one, token by token: needs may fall as it rises.

    The nested search finds it for a request that shrinks; where linear constraints or a prefix
    speak too, capacities are tried one by one.
    """

    def works(capacity: int) -> bool:
        return what_if.fits_with(knob.written(capacity))

    found = None
    plain = not what_if.problem.constraints and not what_if.problem.batches[b].shared_prefix
    if plain:
        found = _searched(what_if, b, r)
        if found is not None and works(found) and not works(found + 1):
            return found
        if found is None:
            return None
    far = nearest_listed(lambda less: works(knob.now - less), knob.now - 1)
    return None if far is None else knob.now - far


def _searched(what_if: WhatIf, b: int, r: int) -> int | None:
    """The largest capacity that the nested search allows one request, all else at its floor."""
    path = request_path(what_if.problem, b, r)
    overrides = [f"{path}.fit=capacity"]
    if what_if.problem.batches[b].requests[r].fit == "count":
        overrides.append(f"{path}.count={what_if.problem.batches[b].requests[r].min_count or 1}")
        overrides.append(f"{path}.min_count=null")
    try:
        formulation = formulate(
            bare(what_if.changed(*overrides, "goals=[]", "constraints=[]")), what_if.held
        )
    except InvalidProblem:
        return None
    nested = Search(formulation.instance)
    variable = Variable("capacity", formulation.fitted_at[b, r])
    reached = (nested.largest(world, variable) for world in nested.worlds())
    return max((value for value in reached if value is not None), default=None)


def _shrinking(what_if: WhatIf, b: int, r: int, eases: frozenset[Item]) -> Knob:
    """Capacity and history lowered together, as far as the goals ask: the request may shrink."""
    request = what_if.problem.batches[b].requests[r]
    place = sum(len(batch.requests) for batch in what_if.problem.batches[:b]) + r

    def find(what_if: WhatIf, knob: Knob) -> int | None:
        if not what_if.fits_with(knob.written(0)):
            return None
        return plan(what_if.changed(knob.written(0))).requests[place].capacity

    return Knob(
        f"{request_path(what_if.problem, b, r)}.fit",
        request.capacity,
        0,
        eases,
        lambda to: f"{request_title(what_if.problem, b, r)}: let it shrink, {to:_} tokens then fit",
        write=lambda _: "capacity",
        was="none",
        find=find,
    )
