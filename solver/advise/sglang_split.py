"""The best split of SGLang's bytes between tokens, window tokens and state slots.

The engine splits by constants (--swa-full-tokens-ratio, --mamba-full-memory-ratio), whatever the
requests are. Here the pools are free, the count of requests of a mean length is what is maximised,
and the flags are those with which the engine's own rules arrive at the answer; they are tried on
those rules before they are given.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.budget import rest_bytes
from kvplan.models.engines.sglang.cells import has_window_pool, window_tokens
from kvplan.models.engines.sglang.compressed import is_compressed
from kvplan.models.engines.sglang.figures import figures
from kvplan.models.engines.sglang.launch.flags import FLAGS, draft_tokens, replicas
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.pools import build, open_split
from kvplan.models.engines.sglang.state_slots import recurrent_layers, slot_bytes, slots_of_request
from kvplan.models.engines.sglang.window_demand import request_cap
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.advise.advice import (
    MOST_DIGITS,
    Advice,
    decimals,
    held,
    idle_text,
    most,
    serving,
)
from kvplan.solver.advise.sglang_experts import optimize as most_experts_of
from kvplan.solver.advise.sglang_partition import is_pipeline
from kvplan.solver.advise.sglang_partition import optimize as best_partition_of
from kvplan.solver.solve.plan import plan

LEFT_OUT = (
    "prefix reuse: a larger window or state pool keeps more cached prefixes",
    "prefill in flight: chunks that are not yet evicted from their windows",
    "lengths: all requests are counted at the mean",
)
SHOWN = ("max_total_num_tokens", "swa_layer_tokens", "max_mamba_cache_size", "max_running_requests")


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Find the flags with which the same bytes hold the most requests of a mean length.

    Stages of one pool of tokens have no split to choose, but a partition.

    Raises
    ------
    InvalidProblem : one pool of tokens alone, where there is no split to choose.
    """
    known = resolve(architecture, settings)
    if settings["kt_num_gpu_experts"] is not None:
        return most_experts_of(architecture, settings, mean_tokens)
    if is_pipeline(architecture, known):
        return best_partition_of(architecture, settings, mean_tokens)
    check_split(architecture, known, "--optimize")
    before, table = _tried(architecture, settings, mean_tokens)
    bound = most(serving(open_split(architecture, settings), mean_tokens))
    best: tuple[int, dict[str, str], dict[str, str]] = (before, {}, table)
    for requests in range(bound, max(before, bound - 3), -1):
        for flags in _candidates(architecture, known, mean_tokens, requests):
            changed = Settings(FLAGS, {k: settings[k] for k in settings.given} | flags)
            count, after = _tried(architecture, changed, mean_tokens)
            if count > best[0]:
                best = count, spelled(flags), after
            if count >= requests:
                break
        if best[0] >= requests:
            break
    return Advice(best[1], table, best[2], (before, best[0]), bound, LEFT_OUT)


def check_split(architecture: Architecture, settings: Mapping[str, Any], path: str) -> None:
    """Refuse a model that leaves no split to choose.

    Parameters
    ----------
    settings : resolved.

    Raises
    ------
    InvalidProblem : compressed layers, or one pool of tokens alone.
    """
    if is_compressed(architecture):
        expected = "a model without compressed layers (it leaves DeepSeek-V4 alone)"
        raise InvalidProblem.at(path, expected, architecture.name)
    if not has_window_pool(architecture, settings) and not recurrent_layers(architecture):
        expected = "a model with window or state pools (one pool of tokens leaves no split)"
        raise InvalidProblem.at(path, expected, architecture.name)


def _tried(
    architecture: Architecture, settings: Settings, mean_tokens: int
) -> tuple[int, dict[str, str]]:
    """Requests that the engine's own split holds with these flags, and the rows of the table."""
    settings = resolve(architecture, settings)
    problem = build(architecture, settings)
    try:
        answer = plan(problem)
    except Infeasible:
        return 0, {"pools": "refused by the engine"}
    printed = figures(architecture, settings, problem, answer)
    count = held(problem, answer, mean_tokens)
    if not settings["disable_radix_cache"] or settings["max_running_requests"] is not None:
        count = min(count, int(printed["max_running_requests"]))
    rows = {label: printed[label] for label in SHOWN if label in printed}
    rows[f"requests of {mean_tokens} tokens"] = str(count)
    rows["chunked_prefill_size"] = str(settings["chunked_prefill_size"])
    return count, rows | _idle(problem, answer, mean_tokens, count)


def _idle(problem: Problem, answer: Plan, mean_tokens: int, count: int) -> dict[str, str]:
    """What so many requests leave idle in each pool."""
    rows = {}
    for pool in map(problem.pool_of, problem.caches):
        used = count * blocks_of_request(problem, pool, mean_tokens)
        rows[f"idle in {pool}"] = idle_text(problem, answer, pool, used)
    return rows


def blocks_of_request(problem: Problem, pool: str, mean_tokens: int) -> int:
    """Blocks of one request in a pool, which has one cache."""
    cache = next(c for c in problem.caches if problem.pool_of(c) == pool)
    if cache.kind == "state":
        return cache.blocks or 1
    flight = cache.in_flight if isinstance(cache.in_flight, int) else 1
    reach = min(cache.window - 1 + flight if cache.window else mean_tokens, mean_tokens)
    return -(-reach // problem.tokens_per_block) + cache.extra_blocks


def _candidates(
    architecture: Architecture, settings: Settings, mean_tokens: int, requests: int
) -> Iterator[dict[str, Any]]:
    """Flags that should hold so many requests of one length, the shortest decimals first."""
    problem, ratio = open_split(architecture, settings), Fraction(1)
    if has_window_pool(architecture, settings):
        pages = [blocks_of_request(problem, p, mean_tokens) for p in ("window", "full")]
        ratio = Fraction(*pages)
    return candidates(architecture, settings, ratio, requests)


def candidates(
    architecture: Architecture, settings: Mapping[str, Any], window_share: Fraction, requests: int
) -> Iterator[dict[str, Any]]:
    """Flags of a split, the shortest decimals first.

    Parameters
    ----------
    window_share : window tokens for each full token; at most 1.
    requests : that run at once.
    """
    fixed: dict[str, Any] = {}
    exact: dict[str, Fraction] = {}
    limited = settings["max_running_requests"] is not None or not settings["disable_radix_cache"]
    apart = has_window_pool(architecture, settings)
    if apart and request_cap(settings, window_tokens(architecture)) is None:
        exact["swa_full_tokens_ratio"] = min(Fraction(1), window_share)
    if recurrent_layers(architecture):
        slots = requests * slots_of_request(settings)
        if settings["max_mamba_cache_size"] is not None:
            fixed["max_mamba_cache_size"] = slots * replicas(settings)
        elif settings["disable_radix_cache"]:
            limited = True
        else:
            exact["mamba_full_memory_ratio"] = _state_ratio(architecture, settings, slots)
    if limited:
        fixed["max_running_requests"] = requests * replicas(settings)
    for texts in zip(*map(decimals, exact.values()), strict=True) if exact else [()]:
        yield fixed | {key: Fraction(text) for key, text in zip(exact, texts, strict=True)}


def _state_ratio(architecture: Architecture, settings: Mapping[str, Any], slots: int) -> Fraction:
    """The ratio q whose share q/(1+q) of the rest holds just so many slots."""
    slot, drafts = slot_bytes(architecture, settings), draft_tokens(settings)
    need = slots * slot * (1 + Fraction(drafts, slots_of_request(settings))) + slot * (1 + drafts)
    share = need / rest_bytes(settings)
    return share / (1 - share)


def spelled(flags: Mapping[str, Any]) -> dict[str, str]:
    """Settings as flags and their texts."""
    return {"--" + key.replace("_", "-"): _text(value) for key, value in flags.items()}


def _text(value: int | Fraction) -> str:
    """Write a count, or a ratio as the decimal that it is."""
    if isinstance(value, int):
        return str(value)
    digits = next(d for d in range(MOST_DIGITS + 1) if 10**d % value.denominator == 0)
    scaled = value.numerator * 10**digits // value.denominator
    return f"{scaled // 10**digits}.{scaled % 10**digits:0{max(1, digits)}d}"
