"""Columns by name as scenarios by position: what `sweep.fit` hands to the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from kvplan.kernels.batch import Given, Scenarios
from kvplan.kernels.batch.columns import integers
from kvplan.kernels.terms import FixedRequests, Terms
from kvplan.models import InvalidProblem, Problem
from kvplan.solver.formulation import Formulation

Array = Any


def columns_of(problem: Problem, vary: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Checked columns by name; int64, utilizations as fractions."""
    known = {"quota", "prefill", "resume_utilization"}
    known |= {f"quota:{rank.name}" for rank in problem.ranks}
    for name in _requests(problem):
        known |= {f"capacity:{name}", f"count:{name}"}
    lengths = {len(column) for column in vary.values()}
    if len(lengths) > 1:
        raise InvalidProblem.at("vary", "columns of one length", f"lengths {sorted(lengths)}")
    found: dict[str, Any] = {}
    for name, column in vary.items():
        if name not in known or (name == "prefill" and problem.prefill is None):
            raise InvalidProblem.at(f"vary.{name}", f"one of {', '.join(sorted(known))}", name)
        if name == "resume_utilization":
            found[name] = [Fraction(str(value)) for value in column]
        else:
            found[name] = _integers(name, column)
    return found


def _integers(name: str, column: Sequence[Any]) -> Array:
    try:
        return np.asarray(integers(name, column), dtype=np.int64)
    except ValueError as error:
        expected = "whole numbers of at most 64 bits"
        raise InvalidProblem.at(f"vary.{name}", expected, str(error)) from None


def _requests(problem: Problem) -> dict[str, tuple[int, int]]:
    """(batch, request) by name."""
    return {
        request.name or f"{batch.name}.{r}": (b, r)
        for b, batch in enumerate(problem.batches)
        for r, request in enumerate(batch.requests)
    }


def quotas_of(problem: Problem, columns: Mapping[str, Any], number: int) -> Array | None:
    """Bytes [scenario, rank]; None where no quota varies."""
    if not any(name.split(":")[0] == "quota" for name in columns):
        return None
    quotas = np.empty((number, len(problem.ranks)), dtype=np.int64)
    for index, rank in enumerate(problem.ranks):
        base = columns.get("quota", rank.quota_bytes)
        quotas[:, index] = columns.get(f"quota:{rank.name}", base)
    return quotas


def with_requested(problem: Problem, requested: int) -> Problem:
    """The problem with another requested chunk, and no listed chunk beyond it."""
    data = problem.model_dump(mode="json", exclude_unset=True)
    prefill = {**data["prefill"], "requested": requested}
    if prefill.get("chunks") is not None:
        prefill["chunks"] = [each for each in prefill["chunks"] if each <= requested] or [requested]
    return Problem.model_validate({**data, "prefill": prefill})


def scenarios_of(
    formulation: Formulation, columns: Mapping[str, Any], number: int, has_candidate: bool
) -> tuple[Terms, Scenarios]:
    """Columns by position; requests that vary and are not fitted leave the terms."""
    problem, terms = formulation.problem, formulation.terms
    capacities: dict[int, Array] = {}
    counts: dict[int, Array] = {}
    given: list[Given] = []
    batches = list(terms.batches)
    for name, (b, r) in _requests(problem).items():
        capacity, count = columns.get(f"capacity:{name}"), columns.get(f"count:{name}")
        if capacity is None and count is None:
            continue
        fitted = formulation.fitted_at.get((b, r))
        if fitted is not None:
            capacities |= {} if capacity is None else {fitted: capacity}
            counts |= {} if count is None else {fitted: count}
            continue
        request = problem.batches[b].requests[r]
        number_of = 1 if request.count is None else request.count
        figures = FixedRequests(request.capacity, request.history_tokens, number_of)
        fixed = _without(batches[b].fixed, figures)
        batches[b] = batches[b]._replace(fixed=fixed)
        flight = request.flight_tokens if request.capacity else 1
        tokens = np.full(number, request.capacity) if capacity is None else capacity
        history = np.maximum(tokens - flight, 0)
        times = np.full(number, number_of) if count is None else count
        given.append(Given(b, tokens, history, times))
    chunks = None
    if "prefill" in columns and has_candidate:
        chunks = np.searchsorted(np.asarray(terms.chunks), columns["prefill"])
    terms = terms._replace(batches=tuple(batches))
    return terms, Scenarios(
        number=number,
        quotas=quotas_of(problem, columns, number),
        capacities=capacities,
        counts=counts,
        chunks=chunks,
        use=_use(problem, columns),
        given=tuple(given),
    )


def _without(fixed: Sequence[FixedRequests], figures: FixedRequests) -> tuple[FixedRequests, ...]:
    """Given requests less some alike ones."""
    left = []
    gone = figures.requests
    for each in fixed:
        taken = min(gone, each.requests) if each[:2] == figures[:2] else 0
        gone -= taken
        if each.requests > taken:
            left.append(each._replace(requests=each.requests - taken))
    return tuple(left)


def _use(problem: Problem, columns: Mapping[str, Any]) -> tuple[Array, Array] | None:
    shares = columns.get("resume_utilization")
    if shares is None:
        return None
    num = [[s.numerator if pool.resume_headroom else 1 for pool in problem.pools] for s in shares]
    den = [[s.denominator if pool.resume_headroom else 1 for pool in problem.pools] for s in shares]
    return np.asarray(num, dtype=np.int64), np.asarray(den, dtype=np.int64)
