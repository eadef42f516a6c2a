"""llama.cpp's caches as a problem, and what it prints of them.

The engine allocates what its context asks for, so the requests of the one batch need just what it
allocates; a block is a run of 256 cells. When unified, all sequences lie in one buffer, which is
written as one request over their windows together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.models.engines.alternatives import Choice, laid_over, offering
from kvplan.models.engines.cards import machine_of
from kvplan.models.engines.estimates import missing_lines
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.llamacpp.budget import BUFFER, estimates, rank_budget
from kvplan.models.engines.llamacpp.caches import state_cache, token_caches
from kvplan.models.engines.llamacpp.choices import choices, labels, on_the_host
from kvplan.models.engines.llamacpp.flags import (
    FLAGS,
    PAD,
    SERVER,
    SERVER_SEQUENCES,
    Context,
    context_of,
    is_automatic,
    longest_context,
)
from kvplan.models.engines.llamacpp.gguf_placement import (
    is_placed,
    placed_estimates,
    placed_figures,
    placement_problem,
)
from kvplan.models.engines.llamacpp.offload import first_cached, layer_count
from kvplan.models.engines.llamacpp.projector import projector_lines
from kvplan.models.engines.llamacpp.records import StateCache, TokenCache
from kvplan.models.engines.served import refuse_cross
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank

SEQUENCE = "sequence"


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what llama.cpp 0.3.36 would allocate.

    Where --card and --host are the budget, the file is placed on them instead.

    Raises
    ------
    InvalidProblem : a model or flags that the engine, or this adapter, refuses.
    """
    refuse_cross(architecture, "llama.cpp", indexed=True)
    if "," in str(settings["device"] or ""):
        expected = "one device (several are not modelled)"
        raise InvalidProblem.at("--device", expected, shown(settings["device"]))
    if is_placed(settings):
        return placement_problem(architecture, settings)
    bare = _problem(architecture, settings)
    return offering(
        bare,
        labels(bare),
        (*choices(settings), *_with_host(architecture, settings, bare)),
        lambda changes: _problem(architecture, laid_over(FLAGS, settings, changes)),
        estimates(architecture, settings),
    )


def _with_host(
    architecture: Architecture, settings: Mapping[str, Any], bare: Problem
) -> Iterator[Choice]:
    """What goes to the host, where the card is too small and its weights are known."""

    def fits(changes: dict[str, Any]) -> bool:
        changed = laid_over(FLAGS, settings, changes)
        rank = Rank.model_validate({"name": "device", **rank_budget(architecture, changed)})
        return _device_bytes(architecture, changed) <= rank.quota_bytes

    if bare.ranks[0].memory is not None and not fits({}):
        yield from on_the_host(settings, layer_count(architecture), fits)


def _device_bytes(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """Bytes of all caches on the device, in whole blocks as they are allocated."""
    held, state = 0, state_cache(architecture, settings)
    for cache in token_caches(architecture, settings):
        each = cache.key_bytes + cache.value_bytes
        held += cache.cells * cache.streams * (each - cache.host_key_bytes - cache.host_value_bytes)
    if state is None:
        return held
    each = state.conv_bytes + state.recurrent_bytes - state.host_bytes
    return held + state.sequences * state.rows * each


def _problem(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """The problem alone."""
    context = context_of(architecture, settings)
    tokens = token_caches(architecture, settings)
    state = state_cache(architecture, settings)
    machine = machine_of(settings.get("gpu"))
    largest = machine.largest_buffer if machine is not None else 0
    pools = [_pool(cache, largest) for cache in tokens]
    caches = [_rule(one, context) for one in tokens]
    if state is not None:
        each = state.conv_bytes + state.recurrent_bytes
        pools.append({"name": "state", "bytes": _placed(each, state.host_bytes)})
        caches.append({"name": "state", "pool": "state", "kind": "state", "blocks": state.rows})
    return Problem.model_validate(
        {
            "name": f"{architecture.name} in llama.cpp",
            "ranks": _ranks(architecture, settings, tokens, state),
            "tokens_per_block": PAD,
            "pools": pools,
            "caches": caches,
            "batches": [{"name": "context", "requests": _requests(context, state)}],
            "fill": "none",
        }
    )


def _ranks(
    architecture: Architecture,
    settings: Mapping[str, Any],
    tokens: list[TokenCache],
    state: StateCache | None,
) -> list[dict[str, Any]]:
    """Write the device, and the host with just the bytes of the layers that stay there."""
    ranks = [{"name": "device", **rank_budget(architecture, settings)}]
    host = sum(
        cache.cells * cache.streams * (cache.host_key_bytes + cache.host_value_bytes)
        for cache in tokens
    )
    if state is not None:
        host += state.sequences * state.rows * state.host_bytes
    return [*ranks, {"name": "host", "stage": 1, "quota": host}] if host else ranks


def _pool(cache: TokenCache, largest_buffer: int) -> dict[str, Any]:
    """Write the buffers of keys and values.

    The allocator cuts a cache between tensors (ggml_backend_alloc_ctx_tensors_from_buft), so one
    allocation's limit holds for a tensor: all cells of one layer's keys, or values.
    """
    parts = (
        ("k", cache.key_bytes, cache.host_key_bytes),
        ("v", cache.value_bytes, cache.host_value_bytes),
    )
    buffers = [
        {"name": name, "bytes": _placed(PAD * each, PAD * host)}
        for name, each, host in parts
        if each
    ]
    pool = {"name": cache.name, "buffers": buffers}
    if not largest_buffer or not cache.widest_row_bytes:
        return pool
    return pool | {"max_blocks": largest_buffer // (PAD * cache.widest_row_bytes)}


def _placed(each: int, host: int) -> int | dict[str, int]:
    """Bytes of a block, or by stage where layers lie on the host."""
    return {"0": each - host, "1": host} if host else each


def _rule(cache: TokenCache, context: Context) -> dict[str, Any]:
    """Write how many cells a sequence takes: all of its context, or window + ubatch."""
    rule: dict[str, Any] = {"name": cache.name, "pool": cache.name, "kind": "full"}
    if cache.ratio > 1:
        return rule | {"tokens_per_block": PAD * cache.ratio}
    if cache.window and cache.cells < context.cells:
        reach = cache.window * (context.sequences if context.streams == 1 else 1)
        rule |= {"kind": "window", "keep": "in_flight", "window": reach}
        rule["in_flight"] = context.ubatch + 1
    return rule


def _requests(context: Context, state: StateCache | None) -> list[dict[str, Any]]:
    """Write the sequences; the unified buffer is one request, and the others hold states alone."""
    request = {"name": SEQUENCE, "capacity": context.cells, "count": context.streams}
    others = context.sequences - context.streams
    if state is None or not others:
        return [request]
    return [request, {"name": "states", "capacity": 0, "count": others}]


def at_context(architecture: Architecture, settings: Mapping[str, Any], runs: int) -> Problem:
    """The problem with a context of so many runs of 256 cells for each buffer.

    Windows and the compute buffer follow from the context, so that a longer one is another problem.
    """
    streams = context_of(architecture, settings).streams
    return _problem(architecture, {**settings, "ctx_size": runs * PAD * streams})


def assumptions(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each value that the server derives, and on what lies on the host."""
    lines = []
    if is_automatic(settings):
        why = f"{SERVER}, which then unifies the buffers"
        lines.append(f"--parallel: auto -> {SERVER_SEQUENCES} ({why})")
    if not settings["ctx_size"]:
        lines.append(f"--ctx-size: 0 -> {longest_context(architecture)} (the model's, not fitted)")
    lines += _overlong(architecture, settings)
    start, count = first_cached(architecture, settings), layer_count(architecture)
    placed = is_placed(settings)
    found = (
        placed_estimates(architecture, settings) if placed else estimates(architecture, settings)
    )
    if start:
        lines.append(f"the caches of {min(start, count)} of {count} layers lie on the host")
    return (
        *lines,
        *projector_lines(settings),
        *missing_lines(architecture, found, BUFFER),
        *(one.line for one in found),
    )


def _overlong(architecture: Architecture, settings: Mapping[str, Any]) -> list[str]:
    """A warning of the engine, which allocates all the same (llama_context, n_ctx_train)."""
    trained, cells = longest_context(architecture), context_of(architecture, settings).cells
    if not settings["ctx_size"] or not 0 < trained < cells:
        return []
    why = f"trained with {trained}: llama.cpp warns, {SERVER} caps a slot at that"
    return [f"--ctx-size: {cells} a sequence ({why})"]


def figures(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> dict[str, str]:
    """Return the figures of the log: n_ctx, n_ctx_seq, and cells and MiB of each cache."""
    if plan.placement is not None:
        return placed_figures(plan.placement)
    context = context_of(architecture, settings)
    lines = {"n_ctx": str(context.total), "n_ctx_seq": str(context.cells)}
    lines |= {"n_batch": str(context.batch), "n_ubatch": str(context.ubatch)}
    lines["n_seq_max"] = str(context.sequences)
    total = 0
    for cache in token_caches(architecture, settings):
        total += plan.blocks[cache.name] * PAD * (cache.key_bytes + cache.value_bytes)
        rows = plan.blocks[cache.name] * PAD
        lines[f"{cache.name} cells"] = str(rows // cache.streams)
        lines[f"{cache.name} layers"] = str(cache.layers)
        lines[f"{cache.name} streams"] = str(cache.streams)
        lines[f"{cache.name} K"] = mib(rows * cache.key_bytes)
        lines[f"{cache.name} V"] = mib(rows * cache.value_bytes)
        lines[f"{cache.name} size"] = mib(rows * (cache.key_bytes + cache.value_bytes))
    lines["KV total"] = mib(total)
    state = state_cache(architecture, settings)
    if state is not None:
        rows = plan.blocks["state"]
        lines["RS cells"] = str(rows // state.rows)
        lines["RS layers"] = str(state.layers)
        lines["RS R"] = mib(rows * state.conv_bytes)
        lines["RS S"] = mib(rows * state.recurrent_bytes)
        lines["RS size"] = mib(rows * (state.conv_bytes + state.recurrent_bytes))
    return lines


def mib(count: int) -> str:
    """Bytes / 2^20 with two decimals, a tie to the even digit, as the log has it."""
    scaled, rest = divmod(count * 100, 2**20)
    scaled += rest > 2**19 or (rest == 2**19 and scaled % 2 == 1)
    return f"{scaled // 100}.{scaled % 100:02d} MiB"
