"""Decisions, and the values that they may take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.demands import Batch
from kvplan.models.elastic import Experts, Prefill
from kvplan.models.problem import Problem, request_name


class Decisions(NamedTuple):
    """What a plan decides, in the order that the problem is written."""

    blocks: tuple[int, ...]  # allocated, reserved ones included, by pool
    fitted: tuple[tuple[int, int], ...]  # (capacity, count) of each request that may shrink
    chunk: int | None  # tokens
    options: tuple[int, ...]  # positions, by choice
    slots: int | None  # expert slots a layer
    kept: int | None  # of them, those that stay during prefill
    copies: int | None  # of the batch that fill names
    scale: Fraction | None = None  # of the mix that fill has
    running: int | None = None  # requests that bytes of each are there for


class Fitted(NamedTuple):
    """A request whose capacity or count may shrink."""

    name: str
    is_count: bool
    least: int  # tokens, or requests
    most: int | None
    other: int  # the requests of a fitted capacity, the tokens of a fitted count
    flight: int  # C - H, tokens

    def faults(self, capacity: int, count: int) -> Iterator[str]:
        """What shrinks stays in its range, the other stays as it is."""
        value, other = (count, capacity) if self.is_count else (capacity, count)
        if value < self.least or (self.most is not None and value > self.most):
            yield f"{self.name} = {value} is outside {self.least} to {self.most}"
        if other != self.other:
            yield f"{self.name} asks for {self.other}, which may not become {other}"


def fitted_of(batch: Batch, index: int) -> Fitted:
    """C >= max(1, C - H, min_capacity, with a prefix of P tokens C - H + P); count >= min_count."""
    request, name, prefix = batch.requests[index], request_name(batch, index), batch.shared_prefix
    capacity, count, flight = request.capacity, request.count, request.flight_tokens
    if request.fit == "count":
        return Fitted(name, True, request.min_count or 1, count, capacity, flight)
    least = max(1, flight, request.min_capacity or 1, prefix and prefix + flight)
    return Fitted(name, False, least, capacity, 1 if count is None else count, flight)


def range_faults(
    problem: Problem, requests: Sequence[Fitted], runs: bool, decisions: Decisions
) -> Iterator[str]:
    """Fitted requests, chunk, options, slots and running requests are among those allowed."""
    for fitted, sizes in zip(requests, decisions.fitted, strict=True):
        yield from fitted.faults(*sizes)
    if not is_candidate(problem.prefill, decisions.chunk):
        yield f"a chunk of {decisions.chunk} tokens is not a candidate"
    for choice, option in zip(problem.choices, decisions.options, strict=True):
        if not 0 <= option < len(choice.options):
            yield f"choice {choice.name} has no option {option}"
    yield from expert_faults(problem.experts, decisions.slots, decisions.kept)
    if (decisions.running is not None) != runs:
        expected = "a count" if runs else "none"
        yield f"{decisions.running} running requests, expected {expected}"


def contexts_of(problem: Problem) -> list[tuple[int, int | None]]:
    """By staging entry, the capacity that it follows, and which fitted request's that is.

    Empty where no entry follows one; 0 tokens for an entry that does not, or where none runs.
    """
    entries = problem.prefill.staging if problem.prefill is not None else ()
    if not any(entry.has_context for entry in entries):
        return []
    running: list[tuple[str, int, int | None]] = []
    fitted = 0
    for batch in problem.batches:
        for index, request in enumerate(batch.requests):
            at = fitted if request.fit == "capacity" else None
            fitted += request.fit != "none"
            if request.count != 0:
                running.append((request_name(batch, index), request.capacity, at))
    found: list[tuple[int, int | None]] = []
    for entry in entries:
        rows = [row[1:] for row in running if entry.request in (None, row[0])]
        found.append(rows[0] if rows and entry.has_context else (0, None))
    return found


def is_candidate(prefill: Prefill | None, chunk: int | None) -> bool:
    """Whether a chunk is the requested one, listed, or min + k step below it."""
    if prefill is None or chunk is None:
        return prefill is None and chunk is None
    if chunk == prefill.requested or prefill.chunks is not None:
        return chunk == prefill.requested or chunk in (prefill.chunks or ())
    least = prefill.min or min(prefill.step or prefill.requested, prefill.requested)
    return least <= chunk <= prefill.requested and (chunk - least) % (prefill.step or 1) == 0


def least_kept(experts: Experts | None, slots: int | None) -> int | None:
    """Slots that stay in prefill: max(min(slots, keep), slots - floor(fraction x slots))."""
    if experts is None or experts.lend is None or slots is None:
        return slots
    return max(min(slots, experts.lend.keep), slots - int(experts.lend.fraction * slots))


def expert_faults(experts: Experts | None, slots: int | None, kept: int | None) -> Iterator[str]:
    """min_slots <= slots <= max_slots, or those that have a size; least kept <= kept <= slots."""
    if experts is None or slots is None or kept is None:
        if [experts, slots, kept] != [None] * 3:
            yield f"{slots} expert slots, {kept} of them in prefill: expected both or neither"
        return
    sizes, most = experts.slot_bytes, experts.max_slots
    if most is None and not isinstance(sizes, int):
        most = sum([count for count, _ in sizes])
    if slots < experts.min_slots or (most is not None and slots > most):
        yield f"{slots} expert slots are outside {experts.min_slots} to {most}"
    if not (least_kept(experts, slots) or 0) <= kept <= slots:
        yield f"{kept} of {slots} expert slots stay during prefill"
