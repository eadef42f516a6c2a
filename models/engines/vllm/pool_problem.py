"""From a layout to a problem: one pool of blocks, one cache for each kind of group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.models.engines.vllm.block_groups import Group, Layout, Serving
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.problem import Problem

POOL, BATCH, REQUEST = "paged", "longest", "longest"


@dataclass(frozen=True)
class Worker:
    """A rank: its pipeline stage, and what it offers as the problem's rank entry says it.

    Attributes
    ----------
    budget : the entry's quota or memory section.
    quota_bytes : bytes available for the cache; negative where nothing is left.
    """

    name: str
    stage: int
    budget: dict[str, Any]
    quota_bytes: int


def rank_entries(workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """Write the ranks of a problem."""
    return [{"name": w.name, "stage": w.stage, **w.budget} for w in workers]


def cache_of(spec: Spec, serving: Serving) -> dict[str, Any]:
    """Write the retention rule of a group (max_memory_usage_bytes / page_size_bytes).

    full, mla   ceil(ceil(L / shards) / block)
    window      ceil(min(W - 1 + retained + flight, L) / block) + 1
    chunked     ceil(min(chunk + flight, L) / block)
    cross       ceil(step tokens / block): max_num_encoder_input_tokens is --max-num-batched-tokens
    state       none: 1 + S;  align: 2 + S + checkpoints;  all: ceil(L / block) (+ S)
    """
    block = {"tokens_per_block": spec.block_tokens}
    if spec.kind in ("full", "mla"):
        shards = {"shards": serving.context_shards} if serving.context_shards > 1 else {}
        return {"kind": "full", **block, **shards}
    if spec.kind == "window":
        flight = serving.flight_tokens + serving.retained_tokens
        window = {"kind": "window", "keep": "in_flight", "window": spec.reach}
        return {**window, "in_flight": flight, "extra_blocks": 1, **block}
    if spec.kind == "chunked":
        return {"kind": "chunked", "chunk": spec.reach, "in_flight": serving.flight_tokens, **block}
    if spec.kind == "cross":
        return {"kind": "state", "blocks": -(-serving.batch_tokens // spec.block_tokens)}
    if spec.mode == "all":
        added = spec.speculative_blocks if serving.version.mode_all_adds_speculative else 0
        return {"kind": "full", "extra_blocks": added, **block}
    if spec.mode == "align":
        return {"kind": "state", "blocks": 2 + spec.speculative_blocks + serving.checkpoint_blocks}
    return {"kind": "state", "blocks": 1 + spec.speculative_blocks}


def cache_entries(groups: Sequence[Group], serving: Serving) -> list[dict[str, Any]]:
    """Write the caches: groups that need the same blocks become one, with their number."""
    alike: list[tuple[Spec, dict[str, Any], int]] = []
    for group in groups:
        rule = cache_of(group.spec, serving)
        for index, (spec, known, number) in enumerate(alike):
            if known == rule and spec.kind == group.spec.kind:
                alike[index] = (spec, known, number + 1)
                break
        else:
            alike.append((group.spec, rule, 1))
    entries: list[dict[str, Any]] = []
    for spec, rule, number in alike:
        name = _name(spec, {entry["name"] for entry in entries})
        entry = {"name": name, "pool": POOL, **rule}
        entries.append({**entry, "groups": number} if number > 1 else entry)
    return entries


def _name(spec: Spec, taken: set[str]) -> str:
    word = {"mla": "latent", "mamba": "state"}.get(spec.kind, spec.kind)
    reach = f" {spec.reach}" if spec.kind in ("window", "chunked", "cross") else ""
    name, number = f"{word}{reach}", 2
    while name in taken:
        name, number = f"{word}{reach} {number}", number + 1
    return name


def problem_of(
    layout: Layout,
    serving: Serving,
    workers: Sequence[Worker],
    *,
    name: str = "",
    auto_fit: bool = False,
    override_blocks: int | None = None,
    least_blocks: int = 0,
    **sections: Any,
) -> Problem:
    """Make the problem whose plan is what vLLM would do.

    Parameters
    ----------
    auto_fit : --max-model-len auto: the longest length up to serving.length_tokens that fits.
    override_blocks : --num-gpu-blocks-override: the count of blocks, whatever the memory. From 0.20
        on it stands for the memory in the check, too; before, the check looks at the memory.
    least_blocks : blocks that the engine refuses to start without (a hybrid's requests).
    sections : further sections (consumers and the like).

    Notes
    -----
    blocks = min over ranks of available // block bytes. The null block is one of them; the check
    counts it as usable before 0.29.
    """
    reserved = 1 if serving.version.charges_null_block else 0
    pool: dict[str, Any] = {"name": POOL, "reserved_blocks": reserved}
    stages = range(len(layout.stages))
    figures = {str(stage): layout.block_bytes(stage) for stage in stages}
    if least_blocks > reserved:
        pool["min_blocks"] = least_blocks - reserved
    pool["bytes"] = figures if len(set(figures.values())) > 1 else figures["0"]
    request = {"name": REQUEST, "capacity": serving.length_tokens}
    data: dict[str, Any] = {
        "name": name,
        "ranks": rank_entries(workers),
        "pools": [pool],
        "caches": cache_entries(layout.groups, serving),
        "batches": [{"name": BATCH, "requests": [request]}],
        **sections,
    }
    if all(cache["kind"] == "state" for cache in data["caches"]):
        data.setdefault("fill", {"pools": [POOL]})  # by default states alone get no rest
    if auto_fit and serving.length_tokens > 1:
        request["fit"] = "capacity"
    if override_blocks is not None:
        _override(data, override_blocks, layout, serving, workers)
    elif any(layout.check_bytes(stage) > layout.block_bytes(stage) for stage in stages):
        _checked(data, layout, serving, workers)
    return Problem.model_validate(data)


def _checked(
    data: dict[str, Any], layout: Layout, serving: Serving, workers: Sequence[Worker]
) -> None:
    """Hold the request against the bytes that the check charges, where blocks take fewer.

    What the check refuses needs as many blocks as have its bytes.
    """
    pool, request = data["pools"][0], data["batches"][0]["requests"][0]
    longest = longest_length(layout, serving, workers)
    if "fit" in request and longest:
        request |= {"capacity": longest}
        del request["fit"]
    if longest >= request["capacity"]:
        return
    needed = blocks_of_request(layout, serving, 1 if "fit" in request else request["capacity"])
    charged = [
        -(-needed * layout.check_bytes(w.stage) // layout.block_bytes(w.stage)) for w in workers
    ]
    pool["min_blocks"] = max(pool.get("min_blocks", 0), *charged, 0)


def _override(
    data: dict[str, Any],
    blocks: int,
    layout: Layout,
    serving: Serving,
    workers: Sequence[Worker],
) -> None:
    """Set the count of blocks; the quota becomes what they take.

    Before 0.20 the check looks at the memory and the override comes after it: the request may then
    be longer than the blocks can hold, and the plan says what they do hold.
    """
    pool, request = data["pools"][0], data["batches"][0]["requests"][0]
    if not serving.version.override_replaces_memory:
        fits = longest_length(layout, serving, workers)
        if fits < (1 if "fit" in request else serving.length_tokens):
            return
        held = _longest(layout, serving, max(blocks - pool["reserved_blocks"], 0))
        if not held:
            del data["batches"]
        elif fits > 1:
            request |= {"capacity": fits, "fit": "capacity"}
    usable = max(blocks - pool["reserved_blocks"], 0)
    pool |= {"min_blocks": usable, "max_blocks": usable}
    data["ranks"] = rank_entries(overridden(layout, workers, blocks))


def overridden(layout: Layout, workers: Sequence[Worker], blocks: int) -> tuple[Worker, ...]:
    """Give every worker exactly the bytes of so many blocks."""
    quotas = [blocks * layout.block_bytes(worker.stage) for worker in workers]
    return tuple(
        Worker(worker.name, worker.stage, {"quota": quota}, quota)
        for worker, quota in zip(workers, quotas, strict=True)
    )


def blocks_of_request(layout: Layout, serving: Serving, length_tokens: int) -> int:
    """Blocks of one request of a length: the sum over the groups."""
    return sum(group_blocks(group.spec, serving, length_tokens) for group in layout.groups)


def group_blocks(spec: Spec, serving: Serving, length_tokens: int) -> int:
    """Blocks of one request in one group, by the rule that `cache_of` writes."""
    rule = cache_of(spec, serving)
    if rule["kind"] == "state":
        return int(rule["blocks"])
    extra = int(rule.get("extra_blocks", 0))
    reach = length_tokens
    if rule["kind"] == "window":
        reach = min(rule["window"] - 1 + rule["in_flight"], length_tokens)
    elif rule["kind"] == "chunked":
        reach = min(rule["chunk"] + rule["in_flight"], length_tokens)
    tokens = spec.block_tokens * int(rule.get("shards", 1))
    return -(-reach // tokens) + extra


def longest_length(layout: Layout, serving: Serving, workers: Sequence[Worker]) -> int:
    """Longest length up to serving.length_tokens that one request of every worker can have; or 0.

    The need never falls with the length, so bisection is exact.
    """
    lengths = []
    for worker in workers:
        block_bytes = layout.check_bytes(worker.stage)
        if not block_bytes:
            lengths.append(serving.length_tokens)
            continue
        null = 1 if serving.version.charges_null_block else 0
        usable = max(worker.quota_bytes, 0) // block_bytes - null
        lengths.append(_longest(layout, serving, usable))
    return min(lengths)


def _longest(layout: Layout, serving: Serving, usable_blocks: int) -> int:
    least, most = 0, serving.length_tokens
    while least < most:
        middle = (least + most + 1) // 2
        if blocks_of_request(layout, serving, middle) <= usable_blocks:
            least = middle
        else:
            most = middle - 1
    return least
