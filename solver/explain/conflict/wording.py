"""Demands in the user's own names."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.models import Claim, Problem
from kvplan.models.base import ByStage
from kvplan.models.demands import Request
from kvplan.models.elastic import Staging
from kvplan.models.problem import request_name
from kvplan.models.reading.paths import (
    batch_path,
    flags_at,
    item_path,
    pool_path,
    rank_path,
    request_path,
)
from kvplan.models.units import exact_bytes
from kvplan.solver.explain.conflict.items import Item
from kvplan.solver.formulate.formulation import Held


def claim_of(problem: Problem, held: Held | None, item: Item) -> Claim:
    """What a demand asks for, and where it stands."""
    path, text = _WRITERS[item.kind](problem, held, *item.at)
    paths = [path]
    if item.kind == "quota":
        own = rank_path(problem, *item.at)
        paths.append(path.replace(own, "ranks.*", 1))
    return Claim(item.kind, path, text + flags_at(problem, *paths))


def request_title(problem: Problem, b: int, r: int) -> str:
    """`request long`, with its batch where there are several."""
    batch = problem.batches[b]
    name = batch.requests[r].name or f"{batch.name}.{r}"
    return f"request {name}" + (f" of batch {batch.name}" if len(problem.batches) > 1 else "")


def _request(problem: Problem, _: Held | None, b: int, r: int) -> tuple[str, str]:
    batch = problem.batches[b]
    text = _floor(batch.requests[r], batch.shared_prefix)
    return request_path(problem, b, r), f"{request_title(problem, b, r)}: {text}"


def _floor(request: Request, prefix_tokens: int) -> str:
    """Capacity and count of a request, the fitted one at its floor."""
    capacity, count = request.capacity, 1 if request.count is None else request.count
    of_capacity, of_count = "", ""
    if request.fit == "capacity":
        capacity, of_capacity = least_capacity(request, prefix_tokens), "at least "
    elif request.fit == "count":
        count, of_count = request.min_count or 1, "at least "
    tokens = f"{of_capacity}{capacity:_} tokens" if capacity else "state only (0 tokens)"
    if count == 1 and not of_count:
        return tokens
    return f"{of_count}{count:_}, {tokens} each" if of_count else f"{count:_} x {tokens}"


def least_capacity(request: Request, prefix_tokens: int) -> int:
    """Tokens of a request at its floor; history never falls below a shared prompt."""
    if request.fit != "capacity":
        return request.capacity
    with_prefix = prefix_tokens + request.flight_tokens if prefix_tokens else 0
    return max(request.least_capacity, with_prefix)


def _batch(problem: Problem, _: Held | None, b: int) -> tuple[str, str]:
    batch = problem.batches[b]
    text = f"batch {batch.name}: {len(batch.requests):_} requests at their floors"
    return batch_path(problem, b), text


def _quota(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    rank = problem.ranks[index]
    text = f"quota of rank {rank.name}: {exact_bytes(rank.quota_bytes)}"
    field = "quota" if rank.memory is None else "memory"
    return f"{rank_path(problem, index)}.{field}", text


def _consumer(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    consumer = problem.consumers[index]
    figure = consumer.bytes
    shown = _figures(figure)
    if consumer.per_request != 0:
        each = f"{_figures(consumer.per_request)} a running request"
        shown = each if figure == 0 else f"{shown}, and {each}"
    where = "" if consumer.phases is None else f" in {' '.join(consumer.phases)}"
    path = item_path("consumers", problem.consumers, index)
    return path, f"consumer {consumer.name}: {shown}{where}"


def _figures(figure: ByStage) -> str:
    """Bytes, or bytes by stage or rank."""
    if isinstance(figure, int):
        return exact_bytes(figure)
    return ", ".join(f"{key}: {exact_bytes(count)}" for key, count in figure.items())


def _choice(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    choice = problem.choices[index]
    options = ", ".join(option.name for option in choice.options)
    path = item_path("choices", problem.choices, index)
    return path, f"choice {choice.name}: one of {options}"


def _staging(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    assert problem.prefill is not None
    entry = problem.prefill.staging[index]
    least, context = problem.prefill.candidates[0], least_context(problem, entry)
    path = item_path("prefill.staging", problem.prefill.staging, index)
    taken = exact_bytes(entry.bytes_of(least, context))
    text = f"staging {entry.name}: {taken} at a chunk of {least:_}"
    place = problem.context_of(entry) if entry.has_context else None
    if place is not None:
        text += f" and {context:_} tokens of {request_name(problem.batches[place[0]], place[1])}"
    return path, text


def least_context(problem: Problem, entry: Staging) -> int:
    """The context that an entry follows, its request at its floor; 0 without one."""
    place = problem.context_of(entry) if entry.has_context else None
    if place is None:
        return 0
    batch = problem.batches[place[0]]
    request = batch.requests[place[1]]
    return least_capacity(request, batch.shared_prefix) if request.count != 0 else 0


def _chunk_floor(problem: Problem, _: Held | None) -> tuple[str, str]:
    assert problem.prefill is not None
    return "prefill", f"chunk floor: at least {problem.prefill.candidates[0]:_} tokens a chunk"


def _expert_floor(problem: Problem, _: Held | None) -> tuple[str, str]:
    experts = problem.experts
    assert experts is not None
    return "experts.min_slots", f"expert floor: at least {experts.min_slots:_} {experts.unit}"


def _pool_minimum(problem: Problem, held: Held | None, index: int) -> tuple[str, str]:
    pool = problem.pools[index]
    kept = held.floors.get(pool.name, 0) if held is not None else 0
    least, why = max((pool.min_blocks, ""), (kept, ", the floor of the plan that is resized"))
    text = f"pool {pool.name}: at least {least:_} usable blocks{why}"
    return f"{pool_path(problem, index)}.min_blocks", text


def _pool_limit(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    pool = problem.pools[index]
    text = f"pool {pool.name}: at most {pool.max_blocks:_} usable blocks"
    return f"{pool_path(problem, index)}.max_blocks", text


def _allocation_limit(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    pool = problem.pools[index]
    limits = [exact_bytes(b.max_bytes) for b in pool.layout if b.max_bytes is not None]
    field = "max_bytes" if pool.buffers is None else "buffers"
    text = f"pool {pool.name}: allocations of at most {', '.join(limits)}"
    return f"{pool_path(problem, index)}.{field}", text


def _constraint(problem: Problem, _: Held | None, index: int) -> tuple[str, str]:
    constraint = problem.constraints[index]
    terms = " + ".join(f"{factor} {name}" for name, factor in constraint.terms.items())
    low = "" if constraint.min is None else f"{constraint.min} <= "
    high = "" if constraint.max is None else f" <= {constraint.max}"
    return f"constraints[{index}]", f"constraint {index}: {low}{terms}{high}"


_WRITERS: dict[str, Callable[..., tuple[str, str]]] = {
    "request": _request,
    "batch": _batch,
    "quota": _quota,
    "consumer": _consumer,
    "choice": _choice,
    "staging": _staging,
    "chunk floor": _chunk_floor,
    "expert floor": _expert_floor,
    "pool minimum": _pool_minimum,
    "pool limit": _pool_limit,
    "allocation limit": _allocation_limit,
    "constraint": _constraint,
}
