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
            "ranks": tuple(_with_quota(rank, quota) for rank in _known(problem, quota)),
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


def _known(problem: Problem, quota: Quota) -> tuple[Rank, ...]:
    if isinstance(quota, Mapping):
        names = [rank.name for rank in problem.ranks]
        for name in quota:
            if name not in names:
                raise InvalidProblem.at("quota", f"one of {', '.join(names)}", repr(name))
    return problem.ranks


def _with_quota(rank: Rank, quota: Quota) -> Rank:
    figure = quota.get(rank.name) if isinstance(quota, Mapping) else quota
    if figure is None:
        return rank
    try:
        count = parse_bytes(figure, round_up=False)
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").rpartition(", got ")
        raise InvalidProblem.at(f"quota of rank {rank.name}", expected, got) from None
    return Rank(name=rank.name, stage=rank.stage, quota=count)


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
