"""Why nothing fits: what falls short, and where, with everything elastic at its floor."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.kernels.search.search import Search
from kvplan.models import Infeasible, Shortfall
from kvplan.models.units import exact_bytes
from kvplan.solver.answer.ledger import rank_plans
from kvplan.solver.answer.shortages import Shortage, pool_limit, shortage_at_floors
from kvplan.solver.formulate.formulation import Formulation


def infeasible(formulation: Formulation, search: Search) -> Infeasible:
    """Why nothing fits with everything elastic at its floor, with the budget table there."""
    shortage = shortage_at_floors(search.instance, search)
    ranks = formulation.problem.ranks
    missing_at: dict[tuple[str, str], int] = {}
    for budget, missing in shortage.budgets:  # a headroom budget repeats a phase
        place = (ranks[budget.rank].name, budget.phase)
        missing_at[place] = max(missing, missing_at.get(place, 0))
    shortfall = tuple(Shortfall(*place, missing) for place, missing in missing_at.items())
    reasons = [*_pool_reasons(formulation, shortage), *map(_reason, shortfall)]
    if not reasons:
        reasons = ["the linear constraints cannot hold together within the quotas"]
    return Infeasible(reasons, shortfall, rank_plans(formulation, shortage.point))


def _reason(short: Shortfall) -> str:
    return f"rank {short.rank} is short by {exact_bytes(short.bytes)} in {short.phase}"


def _pool_reasons(formulation: Formulation, shortage: Shortage) -> Iterator[str]:
    for index in shortage.pools:
        pool, needed = formulation.instance.pools[index], shortage.point.usable[index]
        limit = pool_limit(formulation.problem, formulation.instance, index)
        yield f"pool {pool.name} needs {needed} usable blocks, {limit}"
