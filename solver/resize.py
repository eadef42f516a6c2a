"""Plan again for another quota, with fitted requests held."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.demands import Batch
from kvplan.models.goals import Constraint, Goal
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.models.inputs import BytesLike, QuotaLike
from kvplan.models.plan import RequestPlan
from kvplan.models.ranks import Rank
from kvplan.models.units import LIMIT, parse_bytes
from kvplan.solver.formulate.budgets import rank_granule
from kvplan.solver.formulate.formulation import Held

Ranks = frozenset[int]
"""Positions of ranks."""


def held_problem(problem: Problem, plan: Plan, quota: QuotaLike) -> Problem:
    """The problem with new quotas, and with capacities and counts as the plan decided.

    A rank with `memory` gets a declared quota: its readings and headroom no longer count.
    """
    places = {**problem.fitted("capacity"), **problem.fitted("count")}
    fitted = {
        row.name: row
        for row in plan.requests
        if row.name in places and places[row.name][0].name == row.batch
    }
    return problem.model_copy(
        update={
            "ranks": _with_quotas(problem, quota),
            "batches": tuple(_decided(batch, plan) for batch in problem.batches),
            "goals": tuple(filter(None, (_still_open(goal) for goal in problem.goals))),
            "constraints": tuple(
                filter(None, (_folded(constraint, fitted) for constraint in problem.constraints))
            ),
        }
    )


def _is_held(variable: str) -> bool:
    return variable.startswith(("capacity:", "count:"))


def _still_open(goal: Goal) -> Goal | None:
    """A goal without the members that a resize holds; None if no other is left."""
    weights = {name: weight for name, weight in goal.maximize.items() if not _is_held(name)}
    curves = {name: curve for name, curve in goal.curves.items() if name in weights}
    return Goal(maximize=weights, curves=curves) if weights else None


def _folded(constraint: Constraint, fitted: Mapping[str, RequestPlan]) -> Constraint | None:
    """A constraint with the held members moved into its bounds; None if no other is left."""
    held = Fraction(0)
    for name, coefficient in constraint.terms.items():
        if _is_held(name):
            kind, _, request = name.partition(":")
            row = fitted[request]
            held += coefficient * (row.capacity if kind == "capacity" else row.count)
    terms = {name: value for name, value in constraint.terms.items() if not _is_held(name)}
    if not terms:
        return None
    return Constraint.model_construct(
        terms=FrozenDict(terms),
        min=None if constraint.min is None else constraint.min - held,
        max=None if constraint.max is None else constraint.max - held,
    )


def held_figures(problem: Problem, plan: Plan, earlier: Held | None) -> Held:
    """Granules and floors that a resize holds."""
    granules = {} if earlier is None else earlier.granules
    return Held(
        granules={rank.name: rank_granule(rank, granules) for rank in problem.ranks},
        floors=plan.floors,
    )


def read_quotas(problem: Problem, quota: QuotaLike) -> tuple[int, ...]:
    """Bytes for every rank, in order: one figure for all, or by name (others keep theirs)."""
    ranks = problem.ranks
    if type(quota) is int and 0 <= quota < LIMIT:  # the common case, at once
        return (quota,) * len(ranks)
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


def measured_ranks(problem: Problem, quota: QuotaLike) -> Ranks:
    """Ranks that keep the quota of their `memory`, since they are left out."""
    if not isinstance(quota, Mapping):
        return frozenset()
    left_out = ((i, rank) for i, rank in enumerate(problem.ranks) if rank.name not in quota)
    return frozenset(index for index, rank in left_out if rank.memory is not None)


def _read(figure: BytesLike, name: str) -> int:
    try:
        return parse_bytes(figure, round_up=False)
    except ValueError as error:
        expected, _, got = str(error).removeprefix("expected ").rpartition(", got ")
        raise InvalidProblem.at(f"quota of rank {name}", expected, got) from None


def _with_quotas(problem: Problem, quota: QuotaLike) -> tuple[Rank, ...]:
    """The ranks with declared quotas; a measured one that is left out stays as it is."""
    quotas, measured = read_quotas(problem, quota), measured_ranks(problem, quota)
    return tuple(
        rank if index in measured else Rank(name=rank.name, stage=rank.stage, quota=figure)
        for index, (rank, figure) in enumerate(zip(problem.ranks, quotas, strict=True))
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
