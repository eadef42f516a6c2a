"""A lower count or capacity of a request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from heapq import nlargest
from itertools import count
from math import lcm

from kvplan.models import InvalidProblem, Problem
from kvplan.models.plan import RequestPlan
from kvplan.models.problem import request_name
from kvplan.models.reading.paths import request_path
from kvplan.solver.explain.conflict.items import MOST_REQUESTS, Item
from kvplan.solver.explain.conflict.wording import request_title
from kvplan.solver.explain.feasible import largest_plan
from kvplan.solver.explain.nearest import first_working, nearest_of_classes
from kvplan.solver.explain.remedies.knob import Knob
from kvplan.solver.explain.remedies.what_if import WhatIf
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.solve.choose import solve_formulation

_MOST_TRIED = 16  # requests of a batch that is one demand
_CAPACITY, _COUNT = "capacity", "count"  # kinds of fit


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
    find = None
    if not floored and f"copies:{problem.batches[b].name}" in _named_variables(problem):
        find = partial(_largest_count, b=b, r=r)
    yield Knob(
        change=f"{path}.{'min_count' if floored else 'count'}",
        now=now,
        last=1 if floored else 0,
        eases=eases,
        text=lambda to: _counted(title, to, now, floored=floored),
        is_one_way=not floored and _bounds_copies(problem, b),
        find=find,
    )


def _largest_count(what_if: WhatIf, knob: Knob, b: int, r: int) -> int | None:
    """The largest count below the one now, where copies of the batch are counted.

    Fewer requests mean more copies, which a constraint may bound; and copies of a batch that
    takes no block are invalid, so a count of 0 is tried by itself.
    """
    below = knob.now - 1
    if below and what_if.problem.batches[b].requests[r].fit == "none":
        changes = (f"fit={_COUNT}", f"count={below}")
        answer = _asked(what_if, b, r, _COUNT, changes)
        found = None if answer is None else answer.count
    else:
        far = first_working(lambda less: what_if.fits_with(knob.written(knob.now - less)), below)
        found = None if far is None else knob.now - far
    for value in (found, knob.last):
        if value is not None and what_if.fits_with(knob.written(value)):
            return value
    return None


def _asked(
    what_if: WhatIf, b: int, r: int, fit: str, changes: tuple[str, ...]
) -> RequestPlan | None:
    """What the solver gives a request when it is fitted and nothing else matters more."""
    problem, held = what_if.problem, what_if.held
    taken = {request.name for batch in problem.batches for request in batch.requests}
    name = next(text for text in map("asked{}".format, count()) if text not in taken)
    path = f"batches[{b}].requests[{r}]"
    overrides = [f"{path}.{change}" for change in (*changes, f"name={name}")]
    try:
        changed = what_if.changed(*overrides, "goals=[]", "fill=none")
        answer = largest_plan(changed, held, f"{fit}:{name}")
    except InvalidProblem:
        return None
    if answer is None:
        return None
    return next(entry for entry in answer.requests if entry.name == name)


def _bounds_copies(problem: Problem, b: int) -> bool:
    """Whether more of a batch may be what helps: a constraint may allow fewer copies."""
    return f"copies:{problem.batches[b].name}" in _constrained(problem)


def _constrained(problem: Problem) -> set[str]:
    """Variables of linear constraints."""
    return {name for constraint in problem.constraints for name in constraint.terms}


def _named_variables(problem: Problem) -> set[str]:
    """Variables of goals, constraints and fill."""
    named = _constrained(problem)
    named.update(name for goal in problem.goals for name in goal.maximize)
    if problem.fill is not None and problem.fill.batch is not None:
        named.add(f"copies:{problem.fill.batch}")
    return named


def _counted(title: str, to: int, now: int, *, floored: bool) -> str:
    if to == 0:
        return f"{title}: left out"
    return f"{title}: a count of {'at least ' if floored else ''}{to:_} instead of {now:_}"


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
                lambda to: f"{title}: at least {to:_} tokens instead of {now:_}",
            )
        return
    if not request.capacity or request.count == 0:
        return
    least = 1 if request.history is None else max(request.history, 1)
    if request.history is None or least < request.capacity:
        find = _largest_capacity if request.history is None else _largest_by_classes
        yield Knob(
            f"{path}.capacity",
            request.capacity,
            least,
            eases,
            text,
            is_one_way=_bounds_copies(problem, b),
            find=partial(find, b=b, r=r),
        )
    if request.history is not None and request.fit == "none":
        yield _shrinking(what_if, b, r, eases)


def _largest_capacity(what_if: WhatIf, knob: Knob, b: int, r: int) -> int | None:
    """The largest capacity below the one now, token-exact: the solver fits the request.

    Its need is not monotone (a live window, a shared prefix, scratch), so nothing is bisected.
    """
    problem = what_if.problem
    batch, request = problem.batches[b], problem.batches[b].requests[r]
    changes = [f"fit={_CAPACITY}"]
    if request.fit == _COUNT:
        if {f"count:{request_name(batch, r)}", f"copies:{batch.name}"} & _constrained(problem):
            return _largest_by_classes(what_if, knob, b, r)  # the count must stay a variable
        changes += ["min_count=null", f"count={request.min_count or 1}"]
    answer = _asked(what_if, b, r, _CAPACITY, tuple(changes))
    if answer is None or not what_if.fits_with(knob.written(answer.capacity)):
        return None
    return answer.capacity


def _largest_by_classes(what_if: WhatIf, knob: Knob, b: int, r: int) -> int | None:
    """The largest capacity where the history stays, or the count is fitted too.

    Where copies of the batch are constrained, capacities are tried one by one.
    """

    def works(less: int) -> bool:
        return what_if.fits_with(knob.written(knob.now - less))

    problem, most = what_if.problem, knob.now - knob.last
    if _bounds_copies(problem, b):
        less = first_working(works, most)
    else:
        less = nearest_of_classes(works, most, _classes(problem, b, r))
    return None if less is None else knob.now - less


def _classes(problem: Problem, b: int, r: int) -> set[tuple[int, int]]:
    """Distances below a capacity, as classes within which a smaller one never needs more.

    With the history held, needs rise with the capacity alone, unless a cache has scratch: then
    only from the end of a block to the next token. With a history that moves along, any residue
    may be the best.
    """
    request = problem.batches[b].requests[r]
    blocks = {problem.block_tokens(cache) for cache in problem.caches if cache.kind != "state"}
    period = lcm(*blocks)
    if request.history is None:
        return {(distance, period) for distance in range(1, period + 1)}
    if not any(cache.scratch for cache in problem.caches):
        return {(1, 1)}
    ends = {end for size in blocks for end in range(0, period, size)}
    return {(1, period), *(((request.capacity - end) % period or period, period) for end in ends)}


def _shrinking(what_if: WhatIf, b: int, r: int, eases: frozenset[Item]) -> Knob:
    """Capacity and history lowered together, as far as the goals ask: the request may shrink."""
    request = what_if.problem.batches[b].requests[r]
    place = sum(len(batch.requests) for batch in what_if.problem.batches[:b]) + r

    def find(what_if: WhatIf, knob: Knob) -> int | None:
        if not what_if.fits_with(knob.written(0)):
            return None
        changed = formulate(what_if.changed(knob.written(0)), what_if.held)
        return solve_formulation(changed).requests[place].capacity

    return Knob(
        f"{request_path(what_if.problem, b, r)}.fit",
        request.capacity,
        0,
        eases,
        lambda to: f"{request_title(what_if.problem, b, r)}: let it shrink: {to:_} tokens fit",
        write=lambda _: "capacity",
        was="none",
        find=find,
    )
