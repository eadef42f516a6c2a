"""What each decision is held against: ranges, limits of pools, linear constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm
from typing import NamedTuple

from kvplan.models.demands import Batch
from kvplan.models.elastic import Experts, Prefill
from kvplan.models.problem import Problem, request_name

Variable = tuple[str, int, int]


class Fitted(NamedTuple):
    name: str
    is_count: bool
    least: int
    most: int | None
    asked: int  # the one of capacity and count that stays
    flight: int  # capacity - history, which stays


class Pool(NamedTuple):
    name: str
    reserved: int
    least: int
    most: int | None
    multiple: int
    num: int  # resume utilization
    den: int


class Row(NamedTuple):
    terms: list[tuple[int, str, int, int]]  # coefficient, kind, position, option
    least: int | None
    most: int | None


def fitted_of(batch: Batch) -> Iterator[Fitted]:
    """Requests of a batch that may shrink; with a prefix, the history never falls below it."""
    for index in batch.given.fitted:
        request = batch.requests[index]
        name, asked = request_name(batch, index), request.capacity
        flight = asked - (max(0, asked - 1) if request.history is None else request.history)
        if request.fit == "count":
            yield Fitted(name, True, request.min_count or 1, request.count, asked, flight)
        else:
            shared = batch.shared_prefix and batch.shared_prefix + flight
            least = max(1, flight, request.min_capacity or 1, shared)
            count = 1 if request.count is None else request.count
            yield Fitted(name, False, least, asked, count, flight)


def pools_of(problem: Problem, structural: Sequence[int], held: Mapping[str, int]) -> list[Pool]:
    """Limits and utilization of every pool; `held` are usable blocks that a resize keeps."""
    found = []
    for pool, floor in zip(problem.pools, structural, strict=True):
        num, den = problem.resume_utilization.as_integer_ratio() if pool.resume_headroom else (1, 1)
        least = max(floor, pool.min_blocks, held.get(pool.name, 0))
        reserved, most, multiple = pool.reserved_blocks, pool.max_blocks, pool.multiple_of
        found.append(Pool(pool.name, reserved, least, most, multiple, num, den))
    return found


def variables_of(problem: Problem, fitted: Sequence[Fitted]) -> dict[str, Variable]:
    """Kind, position and option of the variables of constraints, by name."""
    known = {"prefill": ("prefill", 0, 0), "experts": ("experts", 0, 0)}
    known |= {f"blocks:{pool.name}": ("blocks", i, 0) for i, pool in enumerate(problem.pools)}
    known |= {f"copies:{batch.name}": ("copies", i, 0) for i, batch in enumerate(problem.batches)}
    for i, request in enumerate(fitted):
        kind = "count" if request.is_count else "capacity"
        known[f"{kind}:{request.name}"] = (kind, i, 0)
    for i, choice in enumerate(problem.choices):
        for o, option in enumerate(choice.options):
            known[f"choice:{choice.name}={option.name}"] = ("choice", i, o)
    return known


def rows_of(problem: Problem, known: Mapping[str, Variable]) -> list[Row]:
    """Linear constraints, multiplied until their coefficients are whole."""
    rows = []
    for each in problem.constraints:
        bounds = [bound for bound in (each.min, each.max) if bound is not None]
        scale = lcm(*[figure.denominator for figure in (*each.terms.values(), *bounds)])
        terms = [(int(weight * scale), *known[name]) for name, weight in each.terms.items()]
        least, most = (
            None if bound is None else int(bound * scale) for bound in (each.min, each.max)
        )
        rows.append(Row(terms, least, most))
    return rows


def is_candidate(prefill: Prefill | None, chunk: int | None) -> bool:
    """Whether a chunk is listed, or min, min + step, ..., or the requested one."""
    if prefill is None or chunk is None:
        return prefill is None and chunk is None
    if chunk == prefill.requested or prefill.chunks is not None:
        return chunk == prefill.requested or chunk in (prefill.chunks or ())
    least = prefill.min or min(prefill.step or prefill.requested, prefill.requested)
    return least <= chunk <= prefill.requested and (chunk - least) % (prefill.step or 1) == 0


def least_kept(experts: Experts | None, slots: int | None) -> int | None:
    """Slots that stay in prefill at least: `keep`, and all that may not be lent."""
    if experts is None or experts.lend is None or slots is None:
        return slots
    return max(min(slots, experts.lend.keep), slots - int(experts.lend.fraction * slots // 1))


def expert_faults(experts: Experts | None, slots: int | None, kept: int | None) -> Iterator[str]:
    """Slots within their range and their sizes; of them as many kept as may be."""
    if experts is None or slots is None or kept is None:
        if [experts, slots, kept] != [None] * 3:
            yield f"{slots} expert slots, {kept} of them in prefill, is no answer here"
        return
    sizes, most = experts.slot_bytes, experts.max_slots
    if most is None and not isinstance(sizes, int):
        most = sum([count for count, _ in sizes])
    if slots < experts.min_slots or (most is not None and slots > most):
        yield f"{slots} expert slots are outside {experts.min_slots} to {most}"
    if not (least_kept(experts, slots) or 0) <= kept <= slots:
        yield f"{kept} of {slots} expert slots stay during prefill"
