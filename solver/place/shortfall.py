"""Why no placement fits: which space is short, by how much, and what would help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial

from kvplan.models import Advice, Infeasible, Problem
from kvplan.models.errors import InvalidProblem, Remedy, Shortfall
from kvplan.models.reading.overrides import apply_overrides
from kvplan.models.reading.paths import item_path
from kvplan.models.units import exact_bytes, human_bytes
from kvplan.solver.place.search.placement_search import PlaceSearch
from kvplan.solver.place.slot_program import Program

MOST_MORE, MOST_OTHERS = 2**50, 2**20


def refused(problem: Problem, program: Program) -> Infeasible:
    """The refusal: for each space the bytes that would make room there alone."""
    short = list(_short(problem))
    reasons = [
        f"rank {name} is short by {exact_bytes(count)}: with so many more there, a placement fits"
        for name, count in short
    ]
    if not short:
        reasons = ["no placement fits, whatever one rank had: all ranks together are too small"]
        reasons.append(_together(program))
    refusal = Infeasible(
        ["no placement fits at the least context", *reasons],
        [Shortfall(rank=name, phase="prefill", bytes=count) for name, count in short],
    )
    refusal.advised_by(lambda: Advice(remedies=tuple(_remedies(problem, short))))
    return refusal


def _fits(problem: Problem) -> bool:
    search = PlaceSearch(problem)
    return search.decide.fits(search.program.least())


def _short(problem: Problem) -> Iterator[tuple[str, int]]:
    """Ranks and the least bytes more with which a placement fits; ranks where none do are out."""
    search = PlaceSearch(problem)
    values = search.program.least()
    for index, rank in enumerate(problem.ranks):

        def with_more(more: int, at: int = index) -> bool:
            search.program.more = {at: more}
            return search.decide.fits(values)

        least = _least(with_more)
        if least is not None:
            yield rank.name, least


def _least(fits: Callable[[int], bool], most: int = MOST_MORE) -> int | None:
    """The smallest number that fits, bytes by default; None where none up to `most` does."""
    if not fits(most):
        return None
    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _together(program: Program) -> str:
    """What all layers ask for against what all ranks leave, at the least values."""
    spread = program.spread(program.least(), ())
    if spread is None:
        return "a pool's max_blocks is below what the requests need"
    need = sum(slot.held + sum(t.bytes for t in slot.experts) for slot in spread.slots)
    have = sum(space.room for space in spread.spaces)
    return f"layers and experts take {human_bytes(need)}, all ranks leave {human_bytes(have)}"


def _remedies(problem: Problem, short: list[tuple[str, int]]) -> Iterator[Remedy]:
    """Changes that were tried: more bytes on a rank, a shorter request, a variant."""
    for name, count in short:
        rank = next(rank for rank in problem.ranks if rank.name == name)
        to = rank.quota_bytes + count
        text = f"give rank {name} {exact_bytes(count)} more"
        yield Remedy(f"ranks.{name}.quota", rank.quota_bytes, to, text)
    yield from _shorter(problem)
    yield from _looser(problem)
    yield from _variants(problem)


def _variants(problem: Problem) -> Iterator[Remedy]:
    """Each variant of the problem, such as a smaller KV type or ubatch, that fits as a whole."""
    data = problem.model_dump(mode="json", exclude_unset=True)
    for index, variant in enumerate(problem.variants):
        try:
            changed = Problem.model_validate(apply_overrides(data, variant.set))
        except InvalidProblem:
            continue
        if _fits(changed):
            change = item_path("variants", problem.variants, index)
            yield Remedy(change, None, variant.name, f"variant {variant.name}")


def _looser(problem: Problem) -> Iterator[Remedy]:
    """The nearest bound of each row on layers or experts that lets some of them lie elsewhere."""
    for index, row in enumerate(problem.constraints):
        for bound, side in (("min", -1), ("max", 1)):
            now = getattr(row, bound)
            if now is None:
                continue
            start = int(now // 1) if side < 0 else -int(-now // 1)
            more = _least(partial(_fits_bounded, problem, index, bound, start, side), MOST_OTHERS)
            if more is not None:
                to, change = start + side * more, f"constraints[{index}].{bound}"
                word = "at least" if side < 0 else "at most"
                text = f"{' + '.join(row.terms)}: {word} {to} instead of {now}"
                yield Remedy(change, str(now), to, text)


def _fits_bounded(problem: Problem, at: int, bound: str, start: int, side: int, more: int) -> bool:
    """Whether a placement fits with one bound moved by so many layers or experts."""
    rows = list(problem.constraints)
    rows[at] = rows[at].model_copy(update={bound: Fraction(start + side * more)})
    return _fits(problem.model_copy(update={"constraints": tuple(rows)}))


def _shorter(problem: Problem) -> Iterator[Remedy]:
    """The longest capacity of each given request with which a placement fits."""
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests):
            if request.fit != "none" or request.capacity < 2:
                continue

            def at(tokens: int, b: int = b, r: int = r) -> bool:
                batches = list(problem.batches)
                requests = list(batches[b].requests)
                flight = requests[r].flight_tokens
                change = {"capacity": tokens, "history": max(0, tokens - flight)}
                requests[r] = requests[r].model_copy(update=change)
                batches[b] = batches[b].model_copy(update={"requests": tuple(requests)})
                return _fits(Problem.model_validate({**_fields(problem), "batches": batches}))

            low, high = 0, request.capacity
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if at(middle) else (low, middle)
            if low:
                name = f"batches.{batch.name}.requests.{request.name or r}.capacity"
                text = f"a context of {low:,} tokens instead of {request.capacity:,}"
                yield Remedy(name, request.capacity, low, text)


def _fields(problem: Problem) -> dict[str, object]:
    return {name: getattr(problem, name) for name in type(problem).model_fields}
