"""A problem as integers: the only place that knows both the models and the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from kvplan.kernels.capacity import low_points
from kvplan.kernels.demand import Demand
from kvplan.kernels.terms import LIVE, BatchTerms, Fitted, FixedRequests, Terms
from kvplan.models import InvalidProblem, Problem
from kvplan.models.demands import Batch
from kvplan.solver.budget import build_rows, merge_rows
from kvplan.solver.rules import cache_rule, expert_terms, pool_terms
from kvplan.solver.wishes import (
    fill_pools,
    fill_shares,
    goal_terms,
    linear_terms,
    numbered_variables,
)

MOST_OPTIONS = 4096
MOST_LOW_POINTS = 50_000  # capacities at which the need of several windows may be least


@dataclass(frozen=True, slots=True)
class Held:
    """What a resize keeps: granules by rank, and floors by pool."""

    granules: Mapping[str, int]  # "auto" granule bytes by rank name
    floors: Mapping[str, int]  # usable blocks by pool name


@dataclass(frozen=True, slots=True)
class Formulation:
    """A problem and its integers; positions in `terms` follow the order in the file."""

    problem: Problem
    terms: Terms
    request_names: tuple[tuple[str, ...], ...]  # by batch
    fitted_at: Mapping[tuple[int, int], int]  # (batch, request) -> fitted
    held: Held | None = None  # what a resize keeps


def formulate(problem: Problem, held: Held | None = None) -> Formulation:
    """Build the integers of a problem.

    Raises
    ------
    InvalidProblem : what only shows in the whole: unbounded counts or copies, too many options.
    """
    names = tuple(
        tuple(request.name or f"{batch.name}.{i}" for i, request in enumerate(batch.requests))
        for batch in problem.batches
    )
    fitted, fitted_at = _fitted(problem, names)
    caches = tuple(cache_rule(problem, cache) for cache in problem.caches)
    variables = numbered_variables(problem, fitted)
    goals, fill_from = goal_terms(problem, variables, fitted)
    every_row = build_rows(problem, {} if held is None else held.granules)
    terms = Terms(
        pools=pool_terms(problem, caches, {} if held is None else held.floors),
        caches=caches,
        batches=_batches(problem, fitted_at),
        fitted=fitted,
        chunks=problem.prefill.candidates if problem.prefill else (0,),
        batches_in_flight=problem.prefill.batches_in_flight if problem.prefill else 1,
        experts=expert_terms(problem),
        choices=tuple(len(choice.options) for choice in problem.choices),
        rows=merge_rows(every_row),
        goals=goals,
        fill_from=fill_from,
        constraints=tuple(linear_terms(c, variables) for c in problem.constraints),
        fill_batch=_fill_batch(problem),
        fill_pools=fill_pools(problem),
        fill_shares=fill_shares(problem),
        every_row=every_row,
    )
    formulation = Formulation(problem, terms, names, fitted_at, held)
    _check_bounded(formulation)
    return formulation


def _fitted(
    problem: Problem, names: tuple[tuple[str, ...], ...]
) -> tuple[tuple[Fitted, ...], dict[tuple[int, int], int]]:
    fitted: list[Fitted] = []
    places: dict[tuple[int, int], int] = {}
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests):
            if request.fit == "none":
                continue
            is_count = request.fit == "count"
            least = request.min_count or 1
            if not is_count:
                # History never falls below the shared prompt.
                prefix_least = batch.shared_prefix + request.flight_tokens
                least = max(request.least_capacity, prefix_least if batch.shared_prefix else 0)
            places[b, r] = len(fitted)
            fitted.append(
                Fitted(
                    name=names[b][r],
                    batch=b,
                    is_count=is_count,
                    least=least,
                    most=request.count if is_count else request.capacity,
                    flight=request.flight_tokens,
                    capacity=request.capacity,
                    requests=1 if request.count is None else request.count,
                )
            )
    return tuple(fitted), places


def _batches(problem: Problem, fitted_at: Mapping[tuple[int, int], int]) -> tuple[BatchTerms, ...]:
    """Given requests of each batch, alike ones added up."""
    places: dict[int, list[int]] = {}
    for (b, _), index in fitted_at.items():
        places.setdefault(b, []).append(index)
    return tuple(
        BatchTerms(batch.name, batch.shared_prefix, _given(batch), tuple(places.get(b, ())))
        for b, batch in enumerate(problem.batches)
    )


def _given(batch: Batch) -> tuple[FixedRequests, ...]:
    """Requests whose capacity and count are given; alike ones are one entry."""
    rows = [
        FixedRequests(
            request.capacity,
            max(0, request.capacity - 1) if request.history is None else request.history,
            1 if request.count is None else request.count,
        )
        for request in batch.requests
        if request.fit == "none" and request.count != 0
    ]
    shapes = {(row.capacity, row.history) for row in rows}
    if len(shapes) == len(rows):
        return tuple(rows)
    counts: dict[tuple[int, int], int] = {}
    for row in rows:
        counts[row[:2]] = counts.get(row[:2], 0) + row.requests
    return tuple(FixedRequests(*shape, count) for shape, count in counts.items())


def _fill_batch(problem: Problem) -> int | None:
    name = problem.fill.batch if problem.fill is not None else None
    return next((i for i, batch in enumerate(problem.batches) if batch.name == name), None)


def _check_bounded(formulation: Formulation) -> None:
    """Refuse what no quota bounds, and choices with too many combinations."""
    problem, terms = formulation.problem, formulation.terms
    if prod(terms.choices) > MOST_OPTIONS:
        expected = f"at most {MOST_OPTIONS} combinations of options"
        raise InvalidProblem.at("choices", expected, str(prod(terms.choices)))
    for (b, r), index in formulation.fitted_at.items():
        fitted = terms.fitted[index]
        if not fitted.is_count and low_points(terms, index) > MOST_LOW_POINTS:
            sizes = sorted({rule.block_tokens for rule in terms.caches if rule.kind == LIVE})
            expected = "live windows whose tokens_per_block repeat together soon"
            raise InvalidProblem.at("caches", expected, " and ".join(map(str, sizes)))
        open_count = fitted.is_count and fitted.most is None
        if open_count and not any(Demand(terms).own(index, fitted.capacity, 0)):
            path = f"batches[{b}].requests[{r}].count"
            raise InvalidProblem.at(path, "a count, since the request takes no block", "none")
    for b in sorted(copied_batches(terms)):
        if not _takes_blocks(terms, b):
            expected = "a batch that takes blocks, for its copies"
            raise InvalidProblem.at(f"batches[{b}]", expected, repr(problem.batches[b].name))


def copied_batches(terms: Terms) -> set[int]:
    """Batches whose copies some goal or constraint counts."""
    used = [term.variable for goal in terms.goals for term in goal.terms]
    used += [variable for constraint in terms.constraints for _, variable, _ in constraint.terms]
    return {variable.position for variable in used if variable.kind == "copies"}


def _takes_blocks(terms: Terms, batch: int) -> bool:
    """Whether a batch takes a block at the least or at the asked values of what is fitted."""
    demand = Demand(terms)
    for asked in (False, True):
        values = [f.most if asked and f.most is not None else f.least for f in terms.fitted]
        pairs = list(zip(terms.fitted, values, strict=True))
        capacities = tuple(f.capacity if f.is_count else value for f, value in pairs)
        counts = tuple(value if f.is_count else f.requests for f, value in pairs)
        if any(demand.raw(batch, 0, capacities, counts)):
            return True
    return False
