"""Columns by name as scenarios by position: what `sweep.fit` hands to the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from kvplan.kernels.arrays import Given, Scenarios
from kvplan.kernels.arrays.columns import integers
from kvplan.kernels.instance import BatchRequests, FixedRequests, Instance
from kvplan.models import InvalidProblem, Problem
from kvplan.models.messages import Misfit, shown
from kvplan.models.problem import request_name
from kvplan.models.ranks import Rank
from kvplan.models.units import parse_ratio
from kvplan.solver.formulate.formulation import Formulation, used_caches

Array = Any


def columns_of(problem: Problem, vary: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """Columns by name; int64, utilizations as fractions.

    Raises
    ------
    InvalidProblem : an unknown name, columns of different lengths, values that are not numbers.
    """
    known = {"quota", "prefill", "resume_utilization"}
    known |= {f"quota:{rank.name}" for rank in problem.ranks}
    for name in _requests(problem):
        known |= {f"capacity:{name}", f"count:{name}"}
    found: dict[str, Any] = {}
    for name, column in vary.items():
        if name not in known or (name == "prefill" and problem.prefill is None):
            expected = f"one of {', '.join(sorted(known))}"
            raise InvalidProblem.at(f"vary.{name}", expected, shown(name))
        is_sized = hasattr(column, "__len__") and not isinstance(column, str | Mapping | Set)
        if not is_sized or getattr(column, "ndim", 1) != 1:
            raise InvalidProblem.at(f"vary.{name}", "one figure a scenario", shown(column))
        read = _shares if name == "resume_utilization" else _integers
        found[name] = read(name, column)
    lengths = {len(column) for column in found.values()}
    if len(lengths) > 1:
        raise InvalidProblem.at("vary", "columns of one length", f"lengths {sorted(lengths)}")
    return found


def _integers(name: str, column: Sequence[Any]) -> Array:
    try:
        if not hasattr(column, "dtype") and any(isinstance(value, bool) for value in column):
            raise ValueError("booleans among them")
        found = np.asarray(integers(name, column), dtype=np.int64)
    except ValueError as error:
        expected = "whole numbers of at most 64 bits"
        raise InvalidProblem.at(f"vary.{name}", expected, str(error)) from None
    if found.ndim != 1:
        raise InvalidProblem.at(f"vary.{name}", "one figure a scenario", f"{found.ndim} axes")
    return found


def _shares(name: str, column: Sequence[Any]) -> list[Any]:
    found: dict[str, Any] = {}
    try:
        for value in column:
            if isinstance(value, bool) or str(value) not in found:
                found[str(value)] = parse_ratio(value if isinstance(value, bool) else str(value))
    except Misfit as error:
        raise InvalidProblem.at(f"vary.{name}", error.expected, error.got) from None
    return [found[str(value)] for value in column]


def _requests(problem: Problem) -> dict[str, tuple[int, int]]:
    """(batch, request) by name; names of several requests are left out."""
    places: dict[str, list[tuple[int, int]]] = {}
    for b, batch in enumerate(problem.batches):
        for r in range(len(batch.requests)):
            places.setdefault(request_name(batch, r), []).append((b, r))
    return {name: found[0] for name, found in places.items() if len(found) == 1}


def check_ends(problem: Problem, columns: Mapping[str, Any]) -> None:
    """Try the least and the largest figure of every column, each in a problem written out.

    A problem bounds such a field from one side only.

    Raises
    ------
    InvalidProblem : as `plan` has it.
    """
    for name, column in columns.items():
        what, _, target = name.partition(":")
        if not len(column) or what == "resume_utilization":
            continue
        for figure in {int(np.min(column)), int(np.max(column))}:
            if what == "quota" and figure < 0:
                raise InvalidProblem.at(f"vary.{name}", "bytes of at least 0", str(figure))
            if what == "prefill":
                with_requested(problem, figure)
            elif what != "quota":
                _with_figure(problem, what, _requests(problem)[target], figure)


def _with_figure(problem: Problem, what: str, place: tuple[int, int], figure: int) -> Problem:
    """The problem with another capacity, the tokens in flight unchanged, or count."""
    batch, at = place
    request = problem.batches[batch].requests[at]
    data = problem.model_dump(mode="json", exclude_unset=True)
    written = data["batches"][batch]["requests"][at]
    written[what] = figure
    if what == "capacity" and request.history is not None:
        least = request.flight_tokens if request.fit == "count" else 0
        if figure < least:
            path = f"vary.{what}:{request_name(problem.batches[batch], at)}"
            raise InvalidProblem.at(path, f"at least {least}, which are in flight", str(figure))
        written["history"] = max(0, figure - request.flight_tokens)
    return Problem.model_validate(data)


def followed_figures(problem: Problem, columns: Mapping[str, Any]) -> dict[str, Any]:
    """What a formulation needs to know of the requests that some staging follows, by column.

    Of a given capacity that varies the capacity, of a given count whether there are any.
    """
    entries = () if problem.prefill is None else problem.prefill.staging
    places = {problem.context_of(entry) for entry in entries if entry.has_context}
    found: dict[str, Any] = {}
    for name, (b, r) in _requests(problem).items() if places else ():
        fit = problem.batches[b].requests[r].fit
        capacity, count = f"capacity:{name}", f"count:{name}"
        if (b, r) in places and capacity in columns and fit != "capacity":
            found[capacity] = columns[capacity]
        if (b, r) in places and count in columns and fit != "count":
            found[count] = np.minimum(columns[count], 1)
    return found


def with_figure(problem: Problem, column: str, figure: int) -> Problem:
    """The problem with another capacity or count; the tokens in flight stay."""
    what, _, name = column.partition(":")
    return _with_figure(problem, what, _requests(problem)[name], figure)


def declared(problem: Problem, names: Iterable[str]) -> Problem:
    """The problem with declared quotas where they vary: readings and headroom no longer count."""
    varied = {name.partition(":")[2] for name in names if name.partition(":")[0] == "quota"}
    measured = [rank.memory is not None for rank in problem.ranks]
    if not varied or not any(measured):
        return problem
    ranks = [
        Rank(name=rank.name, stage=rank.stage, quota=0)
        if is_measured and ("" in varied or rank.name in varied)
        else rank
        for rank, is_measured in zip(problem.ranks, measured, strict=True)
    ]
    return problem.model_copy(update={"ranks": tuple(ranks)})


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
) -> tuple[Instance, Scenarios]:
    """Columns by position; requests that vary and are not fitted leave the instance."""
    problem, instance = formulation.problem, formulation.instance
    capacities: dict[int, Array] = {}
    counts: dict[int, Array] = {}
    given: list[Given] = []
    batches = list(instance.batches)
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
        caches = used_caches(problem, request)
        batches[b] = _batch_without(batches[b], caches, figures)
        flight = request.flight_tokens if request.capacity else 1
        tokens = np.full(number, request.capacity) if capacity is None else capacity
        history = np.maximum(tokens - flight, 0)
        times = np.full(number, number_of) if count is None else count
        given.append(Given(b, tokens, history, times, caches))
    chunks = None
    if "prefill" in columns and has_candidate:
        chunks = np.searchsorted(np.asarray(instance.chunks), columns["prefill"])
    instance = instance._replace(batches=tuple(batches))
    return instance, Scenarios(
        number=number,
        quotas=quotas_of(problem, columns, number),
        capacities=capacities,
        counts=counts,
        chunks=chunks,
        use=_use(problem, columns),
        given=tuple(given),
    )


def _batch_without(
    batch: BatchRequests, caches: tuple[int, ...] | None, figures: FixedRequests
) -> BatchRequests:
    """A batch less some given requests; one of some caches leaves a row of none in its place."""
    if caches is None:
        return batch._replace(fixed=_without(batch.fixed, figures))
    mine = _without([row for used, row in batch.partial if used == caches], figures)
    others = [each for each in batch.partial if each[0] != caches]
    rows = (*mine, FixedRequests(0, 0, 0))  # the batch stays one whose caches differ
    return batch._replace(partial=(*others, *[(caches, row) for row in rows]))


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
    if shares is None or not problem.pools:
        return None
    more = [False] if problem.counts_running else []  # running requests know no headroom
    headroom = [*[pool.resume_headroom for pool in problem.pools], *more]
    num = [[s.numerator if has_headroom else 1 for has_headroom in headroom] for s in shares]
    den = [[s.denominator if has_headroom else 1 for has_headroom in headroom] for s in shares]
    return np.asarray(num, dtype=np.int64), np.asarray(den, dtype=np.int64)
