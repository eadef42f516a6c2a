"""Planning again for another quota: what was fitted stays fitted."""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.demands import Batch
from kvplan.models.ranks import Rank
from kvplan.models.units import parse_bytes
from kvplan.solver.budget import rank_granule
from kvplan.solver.formulation import Held

Quota = int | str | Mapping[str, int | str]


def held_problem(problem: Problem, plan: Plan, quota: Quota) -> Problem:
    """The problem with new quotas, and with capacities and counts as the plan decided."""
    return problem.model_copy(
        update={
            "ranks": _with_quotas(problem, quota),
            "batches": tuple(_decided(batch, plan) for batch in problem.batches),
            "goals": tuple(
                goal
                for goal in problem.goals
                if not any(name.startswith(("capacity:", "count:")) for name in goal.maximize)
            ),
        }
    )


def held_figures(problem: Problem, plan: Plan, earlier: Held | None) -> Held:
    """Granules and floors that a resize keeps."""
    granules = {} if earlier is None else earlier.granules
    return Held(
        granules={rank.name: rank_granule(rank, granules) for rank in problem.ranks},
        floors=plan.floors,
    )


def read_quotas(problem: Problem, quota: Quota) -> tuple[int, ...]:
    """Bytes for every rank, in order: one figure for all, or by name (others keep theirs)."""
    ranks = problem.ranks
    if not isinstance(quota, Mapping):
        return (_read(quota, ranks[0].name),) * len(ranks)
    names = [rank.name for rank in ranks]
    for name in quota:
        if name not in names:
            raise InvalidProblem.at("quota", f"one of {', '.join(names)}", repr(name))
    return tuple(
        _read(quota[rank.name], rank.name) if rank.name in quota else rank.quota_bytes
        for rank in ranks
    )


def _read(figure: int | str, name: str) -> int:
    try:
        return parse_bytes(figure, round_up=False)
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").rpartition(", got ")
        raise InvalidProblem.at(f"quota of rank {name}", expected, got) from None


def _with_quotas(problem: Problem, quota: Quota) -> tuple[Rank, ...]:
    """The ranks with declared quotas; one that the mapping leaves out stays as it is."""
    quotas = read_quotas(problem, quota)
    return tuple(
        rank
        if isinstance(quota, Mapping) and rank.name not in quota
        else Rank(name=rank.name, stage=rank.stage, quota=figure)
        for rank, figure in zip(problem.ranks, quotas, strict=True)
    )


def _decided(batch: Batch, plan: Plan) -> Batch:
    """The batch with what was fitted written in as given."""
    rows = [request for request in plan.requests if request.batch == batch.name]
    requests = tuple(
        request.model_copy(
            update={
                "name": row.name,
                "capacity": row.capacity,
                "history": row.history,
                "count": row.count,
                "fit": "none",
                "min_capacity": None,
                "min_count": None,
            }
        )
        for request, row in zip(batch.requests, rows, strict=True)
    )
    return batch.model_copy(update={"requests": requests})
