"""Raw log lines whose words are not an adapter's labels: pools, caches and overrides by name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.models import Problem
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.flags import chunk_tokens
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.models.engines.vllm.refusals import refused_counts
from kvplan.solver.cli.model.model_numbers import numbers_in, within
from kvplan.solver.logs.reading.interval import GIB

Figures = Mapping[str, str]
_N = r"-?\d[\d,]*(?:\.\d+)?"


@dataclass(frozen=True)
class Form:
    """A line that may be of one of several pools.

    Attributes
    ----------
    pattern : its figures as named groups.
    pools : for each pool that it may be of, its name and what the plan has by group.
    """

    pattern: re.Pattern[str]
    pools: tuple[tuple[str, Figures], ...]


def forms_of(engine: str, figures: Figures, problem: Problem) -> list[Form]:
    """Forms of an engine's lines, with the figures of a plan."""
    makers = {
        "vllm": _vllm,
        "sglang": _sglang,
        "tensorrt-llm": _trtllm,
        "atom": _atom,
        "llama.cpp": _llamacpp,
    }
    return list(makers[engine](figures, problem)) if engine in makers else []


def more_figures(
    engine: str, architecture: Architecture, settings: Mapping[str, Any], figures: Figures
) -> dict[str, str]:
    """Settings and counts that an engine prints beside its figures, as its own rules derive them.

    vLLM before 0.9 counts its blocks first, and refuses then.
    """
    if engine == "vllm" and not figures.keys() & {"num_gpu_blocks"}:
        return refused_counts(server_of(architecture, settings))
    if engine != "sglang":
        return {}
    known = resolve(architecture, settings)
    longest, chunk = context_tokens(architecture, known), chunk_tokens(known)
    printed = {"chunked_prefill_size": chunk, "context_len": longest}
    printed["max_prefill_tokens"] = known["max_prefill_tokens"]
    return {label: str(value) for label, value in printed.items() if value}


def compare_raw(forms: Sequence[Sequence[Form]], line: str) -> list[str] | None:
    """Differences of a line from the pool that it fits best; None if no form reads it.

    Parameters
    ----------
    forms : of the plan, and of the plans at either end of the readings.
    """
    for index, form in enumerate(forms[0]):
        match = form.pattern.search(line)
        if match is None or not form.pools:
            continue
        found = [
            list(_differences(match, name, [each[index].pools[place][1] for each in forms]))
            for place, (name, _) in enumerate(form.pools)
        ]
        return min(found, key=len)
    return None


def _differences(match: re.Match[str], name: str, plans: Sequence[Figures]) -> Iterator[str]:
    for group, text in match.groupdict().items():
        values = [plan[group] for plan in plans if group in plan]
        if text is None or not values:
            continue
        logged = numbers_in(text)[0]
        if not within(logged, [numbers_in(value)[0] for value in values]):
            told = values[0] if len(set(values)) == 1 else f"{values[1]} to {values[-1]}"
            yield f"{name}{group.replace('_', ' ')}: the log says {text}, the plan {told}"


def _vllm(figures: Figures, problem: Problem) -> Iterator[Form]:
    if "Auto-fit max_model_len" in figures:
        asked, fits = numbers_in(figures["Auto-fit max_model_len"])
        own = {"asked": asked.text, "fits": fits.text}
        own["available"] = figures["Available KV cache memory"]
        words = rf"reduced from (?P<asked>{_N}) to (?P<fits>{_N})"
        room = rf"(?: to fit in .*?\((?P<available>{_N} GiB))?"
        yield Form(re.compile(rf"Auto-fit max_model_len: {words}{room}"), (("auto-fit: ", own),))
    if "num_gpu_blocks" in figures:
        pools = (("", {"num_gpu_blocks": figures["num_gpu_blocks"]}),)
        override = r"Overriding num_gpu_blocks=[\d,]+ with num_gpu_blocks_override="
        for words in (override, "# (?:GPU|cuda|CUDA) blocks: "):
            yield Form(re.compile(rf"{words}(?P<num_gpu_blocks>{_N})"), pools)


def _sglang(figures: Figures, problem: Problem) -> Iterator[Form]:
    names = {"#tokens": "tokens", "K size": "K_size", "V size": "V_size", "KV size": "KV_size"}
    target = {group: figures[label] for label, group in names.items() if label in figures}
    pools = [("", target)]
    if "swa_layer_tokens" in figures:
        window = {"tokens": figures["swa_layer_tokens"]}
        if "swa K size" in figures:
            window |= {"K_size": figures["swa K size"], "V_size": figures["swa V size"]}
        else:
            half = float(numbers_in(figures["swa KV size"])[0].value) / GIB / 2
            window |= dict.fromkeys(("K_size", "V_size"), f"{half:.3f} GB")
        pools.append(("window ", window))
        parts = ("K size", "V size", "swa KV size")
        both = sum(numbers_in(figures[name])[0].value for name in parts)
        pool = {"swa": figures["swa_layer_tokens"], "full": figures["full_layer_tokens"]}
        pool["mem_usage"] = f"{float(both / GIB):.2f} GB"
        usage = rf"SWAKVPool mem usage: (?P<mem_usage>{_N} GB)"
        sized = rf"{usage}, swa size: (?P<swa>{_N}), full size: (?P<full>{_N})"
        yield Form(re.compile(sized), (("", pool),))
    sizes = rf"(?:.*?\bK size: (?P<K_size>{_N} GB))?(?:.*?\bV size: (?P<V_size>{_N} GB))?"
    whole = rf"(?:.*?\b(?:KV|Cache) size: (?P<KV_size>{_N} GB))?"
    yield Form(
        re.compile(rf"KV Cache is allocated\..*?#tokens: (?P<tokens>{_N}){sizes}{whole}"),
        tuple(pools),
    )


def _trtllm(figures: Figures, problem: Problem) -> Iterator[Form]:
    each = problem.tokens_per_block
    slots = [
        (label.removesuffix(" slots"), int(value))
        for label, value in figures.items()
        if re.fullmatch(r"pool group \d+ slots", label)
    ]
    size = f"{int(figures['total bytes']) / GIB:.2f} GiB"
    longest = max((r.capacity for batch in problem.batches for r in batch.requests), default=0)
    whole = {"per_sequence": str(-(-longest // each)), "window": str(longest)}
    if not longest or any(cache.kind != "full" for cache in problem.caches):
        whole = {}
    pools = tuple(
        (
            f"{name} ",
            {
                "blocks": str(count),
                "tokens_per_block": str(each),
                "tokens": str(count * each),
                "allocated": size,
                "bytes": figures["total bytes"],
                **whole,
            },
        )
        for name, count in slots
    )
    per = rf"(?P<tokens_per_block>{_N})"
    sequence = rf"blocks per sequence: (?P<per_sequence>{_N}) \[window size=(?P<window>{_N})\], "
    for words in (
        rf"(?:{sequence})?tokens per block={per}, primary blocks=(?P<blocks>{_N})",
        rf"Number of tokens per block: {per}",
        rf"Number of blocks in KV cache primary pool: (?P<blocks>{_N})",
        rf"Allocated (?P<allocated>{_N} GiB) for max tokens in paged KV cache \((?P<tokens>{_N})\)",
        rf"Using (?P<tokens>{_N}) tokens in paged KV cache",
        rf"Allocate (?P<bytes>{_N}) bytes for k/v cache",
    ):
        yield Form(re.compile(words), pools)


def _atom(figures: Figures, problem: Problem) -> Iterator[Form]:
    blocks = {"entries": figures["num_kvcache_blocks"], "entry_bytes": figures["block_bytes"]}
    pools: list[tuple[str, Figures]] = [("paged ", blocks)]
    if "state entries" in figures:
        names = ("entries", "entry_bytes", "reserved")
        pools.append(("state ", {name: figures[f"state {name}"] for name in names}))
    yield Form(
        re.compile(
            rf"sub-pool \S+: entries=(?P<entries>{_N}), entry_bytes=(?P<entry_bytes>{_N})"
            rf"(?:, reserved=(?P<reserved>{_N} ?GB))?"
        ),
        tuple(pools),
    )


def _llamacpp(figures: Figures, problem: Problem) -> Iterator[Form]:
    pools: list[tuple[str, Figures]] = []
    for label in figures:
        if not label.endswith(" cells"):
            continue
        name = label.removesuffix(" cells")
        parts = {"R": "K", "S": "V"} if name == "RS" else {"K": "K", "V": "V"}
        parts |= {"size": "size", "cells": "cells", "layers": "layers", "streams": "streams"}
        own = {
            group: figures[f"{name} {own}"]
            for own, group in parts.items()
            if f"{name} {own}" in figures
        }
        pools.append((f"{name} ", own))
    sizes = rf"[KR] \(\w+\): +(?P<K>{_N} MiB), +[VS] \(\w+\): +(?P<V>{_N} MiB)"
    cells = (
        r"\( *(?P<cells>\d+) cells, *(?P<layers>\d+) layers, *\d+(?:/ *(?P<streams>\d+))? seqs\)"
    )
    for words in (
        rf"size = +(?P<size>{_N} MiB) {cells}(?:, +{sizes})?",
        rf"KV self size += +(?P<size>{_N} MiB), +{sizes}",
        rf"KV self size += +(?P<size>{_N} MiB), +c\^KV \(\w+\): +(?P<K>{_N} MiB)",
        rf"(?:KV|RS) buffer size = +(?P<size>{_N} MiB)",
    ):
        yield Form(re.compile(words), tuple(pools))
    if "n_ctx_seq" in figures:
        each = re.compile(rf"n_ctx_per_seq += +(?P<n_ctx_seq>{_N})")
        yield Form(each, (("", {"n_ctx_seq": figures["n_ctx_seq"]}),))
