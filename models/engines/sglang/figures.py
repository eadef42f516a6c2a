"""What SGLang prints of its pools, as functions of a plan. Its "GB" is 2^30 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.sglang.cells import cells, has_window_pool
from kvplan.models.engines.sglang.compressed import compressed_figures, is_compressed
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.flags import (
    estimated_requests,
    wanted_requests,
)
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.state_slots import recurrent_layers, slot_parts, slots_of_request
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem


def tokens_of(problem: Problem, plan: Plan, pool: str) -> int:
    """Tokens of a pool."""
    reserved = next(p.reserved_blocks for p in problem.pools if p.name == pool)
    return (plan.blocks[pool] - reserved) * problem.tokens_per_block


def full_tokens(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> int:
    """max_total_num_tokens; without attention a token costs nothing, and a context's are taken."""
    if "full" in plan.blocks:
        return tokens_of(problem, plan, "full")
    tokens = int(settings["max_total_tokens"] or context_tokens(architecture, settings))
    return tokens // problem.tokens_per_block * problem.tokens_per_block


def running_requests(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> int:
    """max_running_requests (resolve_max_num_reqs).

    What was asked, or 512 a context's worth of tokens, from 2048 to 4096; at most half the tokens,
    and the state slots over the slots of a request.
    """
    tokens = full_tokens(architecture, settings, problem, plan)
    asked = wanted_requests(settings)
    if asked is None:
        asked = estimated_requests(tokens, context_tokens(architecture, settings))
    limits = [asked, tokens // 2]
    if recurrent_layers(architecture):
        limits.append(state_slots(problem, plan) // slots_of_request(settings))
    return min(limits)


def state_slots(problem: Problem, plan: Plan) -> int:
    """max_mamba_cache_size: slots without the padding slot."""
    return tokens_of(problem, plan, "state") // problem.tokens_per_block


def gib(count: int) -> str:
    """Bytes / 2^30 with two decimals, as the log has it."""
    hundredths = (count * 200 + 2**30) // 2**31
    return f"{hundredths // 100}.{hundredths % 100:02d} GB"


def figures(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> dict[str, str]:
    """Return the lines of the log by their labels, those of the first stage.

    Sizes are of the buffers, which have a page of padding more than tokens (memory_pool.py).
    """
    settings = resolve(architecture, settings)
    tokens = full_tokens(architecture, settings, problem, plan)
    if is_compressed(architecture):
        window = tokens_of(problem, plan, "window")
        lines = {"max_total_num_tokens": str(tokens), "full": str(tokens), "swa": str(window)}
        lines |= compressed_figures(architecture, settings, tokens, window)
        running = running_requests(architecture, settings, problem, plan)
        return lines | {"max_running_requests": str(running)}
    cell = cells(architecture, settings)[0]
    page = problem.tokens_per_block
    sizes = {"K size": gib((tokens + page) * cell.keys)}
    sizes["V size"] = gib((tokens + page) * cell.values)
    if cell.keys and not cell.values:
        sizes = {"KV size": sizes["K size"]}
    lines = {"max_total_num_tokens": str(tokens), "#tokens": str(tokens), **sizes}
    lines["KV Cache is allocated. #tokens"] = _line(str(tokens), sizes)
    if has_window_pool(architecture, settings):
        window = _window_tokens(settings, tokens, tokens_of(problem, plan, "window"))
        lines |= {"full_layer_tokens": str(tokens), "swa_layer_tokens": str(window)}
        lines["swa KV size"] = gib((window + page) * cell.window)
        if 2 * cell.window_keys != cell.window:
            lines["swa K size"] = gib((window + page) * cell.window_keys)
            lines["swa V size"] = gib((window + page) * (cell.window - cell.window_keys))
    if recurrent_layers(architecture):
        slots = state_slots(problem, plan)
        conv, recurrent = slot_parts(architecture, settings)
        parts = (("conv_state size", conv), ("ssm_state size", recurrent))
        states = {name: gib((slots + 1) * each).replace(" ", "") for name, each in parts}
        lines |= {"max_mamba_cache_size": str(slots), **states}
        lines["Mamba Cache is allocated. max_mamba_cache_size"] = _line(str(slots), states)
    lines["max_running_requests"] = str(running_requests(architecture, settings, problem, plan))
    return lines


def _line(first: str, rest: Mapping[str, str]) -> str:
    return ", ".join([first, *(f"{name}: {value}" for name, value in rest.items())])


def _window_tokens(settings: Mapping[str, Any], full: int, window: int) -> int:
    """Window tokens; a request cap that --max-total-tokens cuts short is not whole pages."""
    limit, page = settings["max_total_tokens"], int(settings["page_size"])
    if limit is None or not settings["disable_radix_cache"]:
        return window
    return min(window, int(limit)) if full == int(limit) // page * page else window
