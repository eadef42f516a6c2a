"""Variables of goals and constraints, and what goals, constraints and fill may name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.models.errors import Fault
from kvplan.models.messages import one_of, shown
from kvplan.models.place import PLACE_GOALS

if TYPE_CHECKING:
    from kvplan.models.goals import Goal
    from kvplan.models.problem import Problem


def known_variables(problem: Problem) -> dict[str, str]:
    """Variables of goals and constraints; a text says why one is known but not variable."""
    known = {f"blocks:{pool.name}": "" for pool in problem.pools}
    for what in ("none", "capacity", "count"):
        for name in problem.fitted(what):
            for kind in ("capacity", "count"):
                why = "" if kind == what else f"a request with fit: {kind}"
                known[f"{kind}:{name}"] = known.get(f"{kind}:{name}", why) and why
    known["prefill"] = "" if problem.prefill else "a prefill section"
    known["experts"] = "" if problem.experts else "an experts section"
    for choice in problem.choices:
        known[f"choice:{choice.name}"] = ""
        known.update({f"choice:{choice.name}={option.name}": "" for option in choice.options})
    known.update({f"copies:{batch.name}": "" for batch in problem.batches})
    if problem.place is not None:
        known.update(dict.fromkeys(PLACE_GOALS, ""))
        known.update({f"layers:{rank.name}": "" for rank in problem.ranks})
        known.update({f"experts:{rank.name}": "" for rank in problem.ranks})
    return known


def goal_faults(problem: Problem) -> Iterator[Fault]:
    """Goals and constraints: variables that exist, of the right form, and no goal twice."""
    if not problem.goals and not problem.constraints:
        return
    known = known_variables(problem)
    seen: dict[str, int] = {}
    for g, goal in enumerate(problem.goals):
        path = f"goals[{g}]"
        for variable in goal.maximize:
            if variable.startswith("choice:") and "=" in variable:
                expected = "choice:<name> (choice:<name>=<option> is for constraints)"
                yield Fault(path, expected, shown(variable))
            else:
                yield from _known(path, variable, known)
        first = seen.setdefault(_identity(goal), g)
        if first != g:
            yield Fault(path, "each goal once", f"{shown(goal.label)} as in goals[{first}]")
    for c, constraint in enumerate(problem.constraints):
        path = f"constraints[{c}].terms"
        for variable in constraint.terms:
            if variable.startswith("choice:") and "=" not in variable:
                yield Fault(path, f"{variable}=<option> in a constraint", shown(variable))
            else:
                yield from _known(path, variable, known)


def _identity(goal: Goal) -> str:
    """What identifies a goal: the variable, or all weights and curves."""
    if goal.single is not None:
        return goal.single
    return repr((sorted(goal.maximize.items()), sorted(goal.curves.items())))


def _known(path: str, variable: str, known: dict[str, str]) -> Iterator[Fault]:
    if variable not in known:
        yield Fault(path, f"a variable: {one_of(known, variable)}", shown(variable))
    elif known[variable]:
        yield Fault(path, known[variable], shown(variable))


def fill_faults(problem: Problem) -> Iterator[Fault]:
    """Check that fill names existing batches and pools."""
    fill = problem.fill
    if fill is None:
        return
    batches = {batch.name: None for batch in problem.batches}
    if fill.batch is not None and fill.batch not in batches:
        yield Fault("fill.batch", one_of(batches, fill.batch), shown(fill.batch))
    pools = {pool.name: None for pool in problem.pools}
    for form, names in (("pools", fill.pools or ()), ("shares", fill.shares or {})):
        for name in names:
            if name not in pools:
                yield Fault(f"fill.{form}", one_of(pools, name), shown(name))


def relaxable(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Variables that have a floor, with the position of the pool or the (batch, request).

    Every request has one, what is fitted or (where nothing is) either; a name that two batches
    use means neither.
    """
    found: dict[str, tuple[int, ...]] = {
        f"blocks:{pool.name}": (index,) for index, pool in enumerate(problem.pools)
    }
    if problem.prefill is not None:
        found["prefill"] = ()
    if problem.experts is not None:
        found["experts"] = ()
    places: dict[str, list[tuple[int, int]]] = {}
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests):
            places.setdefault(request.name or f"{batch.name}.{r}", []).append((b, r))
    for name, (at, *others) in places.items():
        fit = problem.batches[at[0]].requests[at[1]].fit
        for kind in ("capacity", "count"):
            if not others and fit in ("none", kind):
                found[f"{kind}:{name}"] = at
    return found


def relax_faults(problem: Problem) -> Iterator[Fault]:
    """Check `relax`: variables that have a floor, each once, one per request."""
    known = relaxable(problem) if problem.relax else {}
    taken: dict[tuple[int, ...], str] = {}
    for index, variable in enumerate(problem.relax):
        path, at = f"relax[{index}]", known.get(variable)
        if at is None:
            yield Fault(
                path, f"a variable with a floor: {one_of(known, variable)}", shown(variable)
            )
            continue
        if variable in problem.relax[:index]:
            yield Fault(path, "each floor once", f"{shown(variable)} again")
        first = taken.setdefault(at, variable) if len(at) == 2 else variable
        if first != variable:
            yield Fault(path, "one of capacity and count of a request", f"{shown(first)} too")
