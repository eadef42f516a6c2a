"""The problems of several engines on one card as one: each its own pools, one quota for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, Literal

from kvplan.models.engines.alternatives import variant
from kvplan.models.engines.estimates import kept_estimate
from kvplan.models.engines.shared.part import Part, context_flag
from kvplan.models.errors import InvalidProblem
from kvplan.models.pools import Cache
from kvplan.models.problem import Problem
from kvplan.models.reading.overrides import apply_overrides

Sharing = Literal["joint", "priority"]
CARD, BATCH = "card", "together"
STEP = Fraction(1, 10_000)
"""Utilizations are printed to so much, rounded up."""
ROUNDING = "utilizations rounded up"
_RANKS = ("--tensor-parallel-size", "--tp-size", "--tp ")


def joint_problem(parts: Sequence[Part], sharing: Sharing = "joint") -> Problem:
    """Make the problem of all models at once, with the launches that would change it.

    Joint: what is left holds as many requests of each model alike. Priority: the first one has it.

    Raises
    ------
    InvalidProblem : different cards.
    """
    bare = _bare(parts, sharing)
    found = []
    for at, part in enumerate(parts):
        for choice in part.problem.variants:
            if choice.name.startswith(_RANKS):  # all models would have to go along
                continue
            data = part.problem.model_dump(mode="json", exclude_unset=True)
            try:
                changed = Problem.model_validate(apply_overrides(data, choice.set))
                others = [*parts[:at], part.with_problem(changed), *parts[at + 1 :]]
                entry = variant(f"{part.label}: {choice.name}", bare, _bare(others, sharing))
            except InvalidProblem:
                continue
            found += [entry] if entry is not None else []
    data = bare.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate({**data, **({"variants": found} if found else {})})


def _bare(parts: Sequence[Part], sharing: Sharing) -> Problem:
    totals = {part.memory.total for part in parts}
    if len(totals) > 1:
        raise InvalidProblem.at("--gpu", "one card for all models", f"{len(totals)} totals")
    ranks = list(_ranks(parts))
    zeros = dict.fromkeys((rank["name"] for rank in ranks), 0)
    pools = [pool for part in parts for pool in _pools(part, zeros)]
    return Problem.model_validate(
        {
            "name": "; ".join(f"{part.label}: {_named(part)}" for part in parts),
            "ranks": ranks,
            "pools": pools,
            "caches": [entry for part in parts for entry in _caches(part)],
            "batches": [{"name": BATCH, "requests": list(_requests(parts))}],
            "fill": _fill(parts, pools, sharing),
            "labels": _labels(parts),
        }
    )


def _named(part: Part) -> str:
    """A problem's name without its list of estimates, which the card has."""
    return part.problem.name.partition("; estimated")[0]


def _ranks(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """The card with all charges; each share that a line asks for; each llama.cpp's host."""
    first = parts[0].memory
    other: dict[str, int] = {}
    ranges: dict[str, str] = {}
    for kept in kept_estimate(parts[0].settings, card_share(parts)):
        other[f"{kept.term} (estimated)"] = kept.bytes
        ranges[f"{kept.term} (estimated)"] = kept.spread
    for part in parts:
        for term, size in part.charges.items():
            other[f"{part.label} {term}"] = size
            if term in part.memory.ranges:
                ranges[f"{part.label} {term}"] = part.memory.ranges[term]
    printed = [part for part in parts if part.engine != "llama.cpp" and not part.has_own_share]
    if printed:
        other[ROUNDING] = -(-(first.total or 0) * len(printed) * STEP.numerator // STEP.denominator)
    if "total" in first.ranges:
        ranges["total"] = first.ranges["total"]
    memory: dict[str, Any] = {"total": first.total, "utilization": str(card_share(parts))}
    memory |= {"estimated": list(first.estimated)} if first.estimated else {}
    memory |= {"ranges": ranges} if ranges else {}
    yield {"name": CARD, "memory": {**memory, "other": other}}
    for part in parts:
        if part.has_own_share:
            own = part.memory.model_dump(mode="json", exclude_unset=True)
            yield {"name": own_rank(part), "memory": own}
        for rank in part.problem.ranks[1:]:
            yield {"name": f"{part.label} {rank.name}", "quota": rank.quota}


def card_share(parts: Sequence[Part]) -> Fraction:
    """Share of the card for all together: vLLM's default where one starts with it, else all."""
    shares = [part.memory.utilization for part in parts if not part.has_own_share]
    return min((share for share in shares if share is not None), default=Fraction(1))


def own_rank(part: Part) -> str:
    """Name of the share that a launch line asks for."""
    return f"{part.label} share"


def _pools(part: Part, zeros: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Pools by rank; an engine with a share of its own takes all of it."""
    for pool in part.problem.pools:
        entry = pool.model_dump(mode="json", exclude_unset=True)
        entry["name"] = _own(part, pool.name, len(part.problem.pools))
        for buffer in entry.get("buffers", [entry]):
            buffer["bytes"] = zeros | _by_rank(part, buffer["bytes"])
        if part.has_own_share:
            held = part.problem.ranks[0].quota_bytes // entry["bytes"][CARD]
            entry["min_blocks"] = max(0, held - pool.reserved_blocks, pool.min_blocks)
        yield entry


def _by_rank(part: Part, figure: int | dict[str, int]) -> dict[str, int]:
    """Bytes of a block on the card, in the share, and on the host."""
    on_card = figure if isinstance(figure, int) else figure["0"]
    bytes_by = {CARD: on_card}
    if part.has_own_share:
        bytes_by[own_rank(part)] = on_card
    for rank in part.problem.ranks[1:]:
        assert not isinstance(figure, int)
        bytes_by[f"{part.label} {rank.name}"] = figure[str(rank.stage)]
    return bytes_by


def _own(part: Part, name: str, count: int) -> str:
    return part.label if count == 1 else f"{part.label} {name}"


def _caches(part: Part) -> Iterator[dict[str, Any]]:
    problem = part.problem
    for cache in problem.caches:
        entry = cache.model_dump(mode="json", exclude_unset=True)
        entry["name"] = _cache_name(part, cache)
        pool = cache.pool or problem.pools[0].name
        entry["pool"] = _own(part, pool, len(problem.pools))
        entry.setdefault("tokens_per_block", problem.tokens_per_block)
        yield entry


def _cache_name(part: Part, cache: Cache) -> str:
    return _own(part, cache.name, len(part.problem.caches))


def _requests(parts: Sequence[Part]) -> Iterator[dict[str, Any]]:
    """Each model's requests on its own caches; a target's hold its draft's rows, too."""
    for part in parts:
        if part.target:
            continue
        drafts = [other for other in parts if other.target == part.label]
        caches = [
            _cache_name(one, cache) for one in (part, *drafts) for cache in one.problem.caches
        ]
        requests = [one for batch in part.problem.batches for one in batch.requests]
        for request in requests:
            entry = request.model_dump(mode="json", exclude_unset=True)
            entry.pop("fit", None)  # --max-model-len auto asks for the model's length
            yield {**entry, "name": request_name(part, request.name), "caches": caches}


def request_name(part: Part, name: str | None) -> str:
    """Name of a model's request in the joint problem."""
    requests = [one for batch in part.problem.batches for one in batch.requests]
    return part.label if len(requests) == 1 else f"{part.label} {name}"


def _fill(parts: Sequence[Part], pools: Sequence[dict[str, Any]], sharing: Sharing) -> Any:
    """Who takes the rest; llama.cpp allocates what its context asks for and no more."""
    if all(part.engine == "llama.cpp" for part in parts):
        return "none"
    growing = {part.label for part in parts if part.engine != "llama.cpp"}
    first = [pool["name"] for pool in pools if pool["name"].split()[0] in growing]
    if sharing == "priority" or len(growing) < len(parts) or any(p.has_own_share for p in parts):
        return {"pools": first}
    return {"batch": BATCH}


def _labels(parts: Sequence[Part]) -> dict[str, str]:
    """Lengths by the flag of the model's own line."""
    found = {}
    for part in parts:
        for batch in part.problem.batches:
            for request in batch.requests:
                if part.target or not request.capacity or (request.count or 1) > 1:
                    continue
                path = f"batches.{BATCH}.requests.{request_name(part, request.name)}.capacity"
                found[path] = f"{part.label}: {context_flag(part, request.capacity)[0]}"
    return found
