"""Staging whose bytes follow the capacity of a request: which entries, and their integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import lcm

from kvplan.kernels.instance import POW2, Part, Workspace
from kvplan.models import Problem
from kvplan.models.elastic import Staging

Requests = Mapping[tuple[int, int], int]
"""(batch, request) -> fitted, as `Formulation.fitted_at`."""


def has_contexts(problem: Problem) -> bool:
    """Whether some staging follows the capacity of a request, given or variable."""
    entries = problem.prefill.staging if problem.prefill is not None else ()
    return bool(entries) and any(entry.has_context for entry in entries)


def context_tokens(problem: Problem, entry: Staging) -> int:
    """The context of an entry, as asked: the capacity of its request; 0 where none of it runs."""
    place = problem.context_of(entry) if entry.has_context else None
    request = None if place is None else problem.batches[place[0]].requests[place[1]]
    return 0 if request is None or request.count == 0 else request.capacity


def entries_on(problem: Problem, stage: int) -> tuple[list[Staging], list[list[Staging]]]:
    """The entries of a stage: those by the chunk alone, and groups that follow a capacity."""
    every = problem.prefill.staging if problem.prefill is not None else ()
    entries = [entry for entry in every if entry.stage is None or entry.stage == stage]
    following = [entry for entry in entries if entry.has_context and _is_open(problem, entry)]
    if not following:
        return entries, []
    groups = {entry.group for entry in following if entry.group is not None}
    joined = [[each for each in entries if each.group == group] for group in sorted(groups)]
    alone = [[entry] for entry in following if entry.group is None]
    taken = {id(each) for group in (*alone, *joined) for each in group}
    return [entry for entry in entries if id(entry) not in taken], [*alone, *joined]


def _is_open(problem: Problem, entry: Staging) -> bool:
    """Whether the capacity that an entry follows is a variable."""
    place = problem.context_of(entry)
    request = None if place is None else problem.batches[place[0]].requests[place[1]]
    return request is not None and request.fit == "capacity" and request.count != 0


def workspaces_of(
    problem: Problem, groups: Sequence[Sequence[Staging]], fitted_at: Requests
) -> tuple[Workspace, ...]:
    """Each group as a workspace of the request that it follows."""
    found = []
    for group in groups:
        places = [problem.context_of(entry) for entry in group if entry.has_context]
        (fitted,) = {fitted_at[place] for place in places if place is not None}
        parts = tuple([_part(entry, _chunks(problem)) for entry in group])
        found.append(Workspace(fitted, parts))
    return tuple(found)


def _chunks(problem: Problem) -> tuple[int, ...]:
    return problem.prefill.candidates if problem.prefill is not None else ()


def _part(entry: Staging, chunks: Sequence[int]) -> Part:
    """The chunk's side of an entry: everything at 0 tokens of context, and the slope."""
    rates = [Fraction(entry.per_token or 0), Fraction(entry.per_token_context or 0)]
    den = lcm(*[rate.denominator for rate in rates])
    per_token, slope = [int(rate * den) for rate in rates]
    bare = Staging.model_construct(name="", base=entry.base, table=entry.table)
    return Part(
        tuple([bare.bytes_of(chunk) * den + per_token * chunk for chunk in chunks]),
        tuple([slope * chunk for chunk in chunks]),
        den,
        entry.context_table or (),
        POW2 if entry.granule == "pow2" else int(entry.granule),
    )
