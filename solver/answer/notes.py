"""One line for each reduced value with what limits it, and for surprises."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.kernels.instance import Variable
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point
from kvplan.models.measured.doubts import doubts_of
from kvplan.models.reading.paths import flags_at, item_path, request_path
from kvplan.models.units import human_bytes
from kvplan.solver.answer.shortages import Shortage, pool_limit, shortage_at
from kvplan.solver.formulate.formulation import Formulation


def notes_of(formulation: Formulation, search: Search, point: Point) -> tuple[str, ...]:
    """All notes of a plan."""
    return (*_reductions(formulation, search, point), *_surprises(formulation))


def _reductions(formulation: Formulation, search: Search, point: Point) -> Iterator[str]:
    instance, problem = formulation.instance, formulation.problem

    def limit_of(wanted: object, variable: Variable, value: int) -> str:
        return _limit(formulation, shortage_at(search, point, variable, value), wanted)

    places = {index: place for place, index in formulation.fitted_at.items()}
    for index, fitted in enumerate(instance.fitted):
        kind = "count" if fitted.is_count else "capacity"
        value = point.counts[index] if fitted.is_count else point.capacities[index]
        if fitted.most is not None and value < fitted.most:
            cause = limit_of(fitted.most, Variable(kind, index), fitted.most)
            flags = flags_at(problem, f"{request_path(problem, *places[index])}.{kind}")
            asked = f"{kind}:{fitted.name}{flags}: requested {fitted.most}"
            yield f"{asked}, clamped to {value}: {cause}"
    for index, choice in enumerate(problem.choices):
        if point.options[index]:
            best, taken = choice.options[0].name, choice.options[point.options[index]].name
            cause = limit_of(best, Variable("choice", index), 0)
            flags = flags_at(problem, item_path("choices", problem.choices, index))
            yield f"choice:{choice.name}{flags}: best {best}, fell back to {taken}: {cause}"
    wanted, got = instance.chunks[-1], instance.chunks[point.chunk]
    if got < wanted:
        cause = limit_of(wanted, Variable("prefill"), wanted)
        flags = flags_at(problem, "prefill.requested")
        yield f"prefill{flags}: requested {wanted}, clamped to {got}: {cause}"
    experts = instance.experts
    if experts is not None and experts.most is not None and point.experts < experts.most:
        cause = limit_of(experts.most, Variable("experts"), experts.most)
        flags = flags_at(problem, "experts.max_slots")
        yield f"experts{flags}: requested {experts.most}, clamped to {point.experts}: {cause}"


def _limit(formulation: Formulation, shortage: Shortage, wanted: object) -> str:
    """What kept a request from being granted, in one clause."""
    instance, ranks = formulation.instance, formulation.problem.ranks
    if shortage.pools:
        pool, needed = instance.pools[shortage.pools[0]], shortage.point.usable[shortage.pools[0]]
        limit = pool_limit(formulation.problem, instance, shortage.pools[0])
        need = f"{needed} usable blocks needed for {wanted}, {limit}"
        return f"limited by pool {pool.name} ({need})"
    if not shortage.budgets:
        return "ruled out by a goal of higher priority or a linear constraint"
    budget, missing = max(shortage.budgets, key=lambda entry: entry[1])
    short = f"{human_bytes(missing)} short of {wanted}"
    return f"limited by rank {ranks[budget.rank].name} in {budget.phase} ({short})"


def describe(formulation: Formulation, shortage: Shortage) -> str:
    """What falls short where nothing fits, and by how much, in one clause."""
    instance, ranks = formulation.instance, formulation.problem.ranks
    if shortage.pools:
        pool, needed = instance.pools[shortage.pools[0]], shortage.point.usable[shortage.pools[0]]
        limit = pool_limit(formulation.problem, instance, shortage.pools[0])
        return f"pool {pool.name} needs {needed} usable blocks, {limit}"
    budget, missing = max(shortage.budgets, key=lambda entry: entry[1])
    return f"rank {ranks[budget.rank].name} is short by {human_bytes(missing)} in {budget.phase}"


def _surprises(formulation: Formulation) -> Iterator[str]:
    problem = formulation.problem
    instance = formulation.instance
    wanted = {
        term.variable for goal in instance.objectives[: instance.fill_from] for term in goal.members
    }
    filled = [index for index in instance.fill_pools if Variable("blocks", index) not in wanted]
    pools = [problem.pools[index].name for index in filled]
    if problem.fill is None and len(pools) > 1:
        later = ", ".join(pools[1:])
        yield (
            f"fill: {pools[0]} takes what is left, then {later} what {pools[0]} cannot use "
            "(set fill to change this)"
        )
    if not problem.caches and any(batch.requests for batch in problem.batches):
        yield "caches: none given, so requests take no blocks"
    for rank in problem.ranks:
        if rank.memory is not None:
            yield from (f"rank {rank.name}: {doubt}" for doubt in doubts_of(rank.memory))
    experts = formulation.instance.experts
    if experts is not None and experts.most is None:
        yield "experts: no max_slots, so they take whatever earlier goals leave"
