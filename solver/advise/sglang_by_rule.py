"""SGLang's own split of its pools with some flags, and the flags whose split holds the most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import islice
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.cells import has_window_pool, window_tokens
from kvplan.models.engines.sglang.figures import running_requests
from kvplan.models.engines.sglang.launch.flags import FLAGS, draft_tokens, replicas, swa_ratio
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.pools import build
from kvplan.models.engines.sglang.state_slots import recurrent_layers
from kvplan.models.engines.sglang.window_demand import request_cap, shared_tokens
from kvplan.models.errors import Infeasible
from kvplan.models.layouts.pool_split import Split
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.models.ranks import at_rank
from kvplan.solver.advise.sglang_split import candidates, spelled
from kvplan.solver.managers.mix import requests_at_once
from kvplan.solver.managers.workload import Workload
from kvplan.solver.solve.plan import plan

ENOUGH, MOST_DECIMALS = Fraction(999, 1000), 5
"""Flags are enough from this share of the best on; ratios of two to six decimals are tried."""


def serving_data(
    problem: Problem, architecture: Architecture, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Pools and caches as running requests fill them.

    A request holds its window, what is not yet evicted, and a page; the chunks in flight lie in the
    window pool whole (compute_swa_request_cap).
    """
    data = problem.model_dump(mode="json", exclude_unset=True)
    if not has_window_pool(architecture, settings):
        return data
    page, window = problem.tokens_per_block, window_tokens(architecture)
    chunks = -(-shared_tokens(settings) // page)
    flight = int(settings["swa_eviction_interval"]) * max(1, draft_tokens(settings))
    cache = {
        "name": "window",
        "pool": "window",
        "kind": "window",
        "keep": "in_flight",
        "window": window,
        "in_flight": flight,
        "extra_blocks": 1,
    }
    # The flag's range is of all window tokens: those of the chunks count, too.
    data["constraints"] = [{**row, "min": chunks} for row in data.get("constraints", ())]
    data["caches"] = [c if c["name"] != "window" else cache for c in data["caches"]]
    data["pools"] = [
        p if p["name"] != "window" else {**p, "reserved_blocks": chunks} for p in data["pools"]
    ]
    return data


def by_rule(
    name: str,
    architecture: Architecture,
    settings: Settings,
    changes: Mapping[str, Any],
    workload: Workload,
) -> Split | None:
    """What the engine's own rule makes with some flags laid over; None where it refuses."""
    changed = Settings(FLAGS, {key: settings[key] for key in settings.given} | dict(changes))
    known = resolve(architecture, changed)
    problem = build(architecture, changed)
    try:
        answer = plan(problem)
    except Infeasible:
        return None
    held = requests_at_once(serving_data(problem, architecture, known), answer.blocks, workload)
    if not known["disable_radix_cache"] or known["max_running_requests"] is not None:
        held = min(held, Fraction(running_requests(architecture, known, problem, answer)))
    flags = changes or _ratios(architecture, known)
    return split_of(name, spelled(flags), problem, answer, held)


def _ratios(architecture: Architecture, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The ratios that rule a launch."""
    found = {}
    if has_window_pool(architecture, settings):
        found["swa_full_tokens_ratio"] = swa_ratio(architecture, settings)
    if recurrent_layers(architecture):
        found["mamba_full_memory_ratio"] = Fraction(settings["mamba_full_memory_ratio"])
    return found


def split_of(
    name: str, flags: Mapping[str, str], problem: Problem, answer: Plan, held: Fraction
) -> Split:
    """Tokens and bytes of every pool; the padding slot of a state pool counts as bytes alone."""
    tokens, bytes_ = {}, {}
    states = {cache.pool for cache in problem.caches if cache.kind == "state"}
    for pool in problem.pools:
        blocks = answer.blocks[pool.name]
        slots = blocks - pool.reserved_blocks
        tokens[pool.name] = slots if pool.name in states else blocks * problem.tokens_per_block
        each = sum(at_rank(buffer.bytes, problem.ranks[0]) for buffer in pool.layout)
        bytes_[pool.name] = blocks * each
    return Split(name=name, flags=flags, tokens=tokens, bytes=bytes_, requests=held)


def flags_to_paste(
    architecture: Architecture,
    settings: Settings,
    workload: Workload,
    window_share: Fraction,
    best: Split,
    own: Split | None,
) -> Split | None:
    """The shortest flags with which the engine's own rule holds the most; None where its own do."""
    if _sized_by_requests(architecture, settings):
        return _capped(architecture, settings, workload, best, own)
    chosen = own
    for flags in _flags(architecture, settings, window_share, best):
        if chosen is not None and chosen.requests >= best.requests * ENOUGH:
            break
        found = by_rule("with these flags", architecture, settings, flags, workload)
        if found is not None and (chosen is None or found.requests > chosen.requests):
            chosen = found
    return None if chosen is own else chosen


def _sized_by_requests(architecture: Architecture, settings: Settings) -> bool:
    """Whether --max-running-requests sizes a pool, since there is no radix cache."""
    known = resolve(architecture, settings)
    if not known["disable_radix_cache"] or known["max_mamba_cache_size"] is not None:
        return False
    if has_window_pool(architecture, known):
        return request_cap(known, window_tokens(architecture)) is not None
    return known["max_running_requests"] is not None


def _capped(
    architecture: Architecture,
    settings: Settings,
    workload: Workload,
    best: Split,
    own: Split | None,
) -> Split | None:
    """The most requests that pools sized for them still hold: more of them leave fewer tokens."""
    known = resolve(architecture, settings)

    def split(requests: int) -> Split | None:
        flags = {"max_running_requests": requests * replicas(known)}
        return by_rule("with these flags", architecture, settings, flags, workload)

    least, most = 1, max(1, int(-(-best.requests // 1)))
    while least < most:
        middle = (least + most + 1) // 2
        tried = split(middle)
        if tried is not None and tried.requests >= middle:
            least = middle
        else:
            most = middle - 1
    found = [each for each in (own, split(least), split(least + 1)) if each is not None]
    chosen = max(found, key=lambda each: each.requests, default=None)
    return None if chosen is own else chosen


def _flags(
    architecture: Architecture, settings: Settings, window_share: Fraction, best: Split
) -> Iterator[dict[str, Any]]:
    """Flags to try: without a cap on the requests where none is given, then with one."""
    known = resolve(architecture, settings)
    running = max(1, int(-(-best.requests // 1)))
    for uncapped in (True, False):
        for requests in (running, running - 1):
            tried = candidates(architecture, known, window_share, requests) if requests else ()
            for flags in islice(tried, MOST_DECIMALS):
                if uncapped and len(flags) > 1 and known["max_running_requests"] is None:
                    flags.pop("max_running_requests", None)
                yield flags
