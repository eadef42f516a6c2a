"""What single lines of vLLM and its forks say, whatever stands before them.

GiB are rounded to two decimals, zeros at the end dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kvplan.solver.logs.engines.vllm_launch import SETTINGS
from kvplan.solver.logs.reading.interval import FIGURE as _N
from kvplan.solver.logs.reading.interval import Interval, printed

_COUNT = r"(-?\d[\d,]{0,30})"

_PATTERNS = {
    re.compile(rf"total_gpu_memory \({_N}GiB\) x gpu_memory_utilization \({_N}\) = {_N}GiB"): (
        ("total", "GiB"),
        ("utilization", ""),
        ("budget", "GiB"),
    ),
    re.compile(
        rf"model weights take {_N}GiB; non_torch_memory takes {_N}GiB; PyTorch activation peak "
        rf"memory takes {_N}GiB; the rest of the memory reserved for KV Cache is {_N}GiB"
    ): (("weights", "GiB"), ("non_torch", "GiB"), ("activation", "GiB"), ("available", "GiB")),
    re.compile(
        rf"total_gpu_memory={_N}GiB,? initial_memory_usage={_N}GiB,? peak_torch_memory={_N}GiB,? "
        rf"memory_usage_post_profile={_N}GiB,? non_torch_memory={_N}GiB,? kv_cache_size={_N}GiB,? "
        rf"gpu_memory_utilization={_N}"
    ): (
        ("total", "GiB"),
        ("used before", "GiB"),
        ("torch_peak", "GiB"),
        ("used after", "GiB"),
        ("non_torch", "GiB"),
        ("available", "GiB"),
        ("utilization", ""),
    ),
    # 0.6.5 prints one figure a line.
    re.compile(rf"total_gpu_memory\s+{_N}GiB"): (("total", "GiB"),),
    re.compile(rf"gpu_memory_utilization\s+{_N}(?![\w.)])"): (("utilization", ""),),
    re.compile(rf"current vLLM instance can use\s+{_N}GiB"): (("budget", "GiB"),),
    re.compile(rf"model weights take\s+{_N}GiB(?!;)"): (("weights", "GiB"),),
    re.compile(rf"non_torch_memory\s+{_N}GiB"): (("non_torch", "GiB"),),
    re.compile(rf"PyTorch activation peak memory\s+{_N}GiB"): (("activation", "GiB"),),
    re.compile(rf"available_kv_cache_memory\s+{_N}GiB"): (("available", "GiB"),),
    re.compile(rf"Available KV cache memory: {_N} GiB"): (("available", "GiB"),),
    re.compile(rf"Initial free memory {_N} GiB, reserved {_N} GiB memory for KV Cache"): (
        ("free", "GiB"),
        ("available", "GiB"),
    ),
    re.compile(rf"Available memory: {_N}, total memory: {_N}"): (("available", ""), ("total", "")),
    re.compile(rf"(?:[Mm]odel loading|Loading model weights) took {_N} Gi?B"): (("loaded", "GiB"),),
    re.compile(rf"Estimated CUDA graph memory: {_N} GiB"): (("graphs", "GiB"),),
    re.compile(rf"CUDA graph pool memory: {_N} GiB \(actual\), {_N} GiB \(estimated\)"): (
        ("graph pool", "GiB"),
        ("graphs", "GiB"),
    ),
    re.compile(
        rf"Total non KV cache memory: {_N}GiB; torch peak memory increase: {_N}GiB; non-torch "
        rf"forward increase memory: {_N}GiB; weights memory: {_N}GiB"
    ): (
        ("not cache", "GiB"),
        ("torch increase", "GiB"),
        ("other increase", "GiB"),
        ("weights in all", "GiB"),
    ),
    re.compile(rf"[Gg]raph capturing finished in .{{1,30}}, took {_N} GiB"): (("captured", "GiB"),),
    re.compile(
        rf"gpu-memory-utilization={_N} is equivalent to --gpu-memory-utilization={_N} without.*?"
        rf"increase --gpu-memory-utilization to {_N}(?=[.\s]*$|\. |\.?\\n)"
    ): (("share", "4"), ("share without graphs", "4"), ("share with graphs", "4")),
    re.compile(rf"Current kv cache memory in use is {_N} GiB"): (("in use", "GiB"),),
    re.compile(rf"Current kv cache memory in use is {_N} bytes"): (("in use", ""),),
    re.compile(rf"# (?:GPU|cuda|CUDA) blocks: {_COUNT}"): (("blocks", ""),),
    re.compile(rf"(?<!_)num_gpu_blocks(?: is)?: {_COUNT}"): (("blocks", ""),),
    re.compile(rf"[A-Z]{{3}}(?: \+ host)? KV cache size: {_COUNT} tokens"): (("tokens", ""),),
    re.compile(rf"Maximum concurrency for {_COUNT} tokens per request: {_N}x"): (
        ("longest", ""),
        ("concurrency", ""),
    ),
}
_OVERRIDE = re.compile(
    rf"Overriding num_gpu_blocks=(?:{_COUNT}) with num_gpu_blocks_override=({_COUNT[1:]}"
)
_STARTUP = re.compile(
    rf"Free memory on device.{{0,30}}?\({_N}/{_N} GiB\) on startup\. Desired GPU memory "
    rf"utilization is \({_N}, {_N} GiB\)\. Actual usage(.{{0,400}}?)Replace "
    rf".{{0,80}}?--kv-cache-memory=(\d{{1,20}})`? ?(?:\({_N} GiB\))?"
)
_FULL = re.compile(rf"or `?--kv-cache-memory=(\d{{1,20}})`? ?(?:\({_N} GiB\))? to fully")
_USE = re.compile(rf"{_N} GiB for ([\w -]{{1,60}})")
NEEDLES = (
    b"KV cache memory",
    b"kv cache memory in use",
    b" KV cache size: ",
    b"Maximum concurrency for",
    b" blocks: ",
    b"num_gpu_blocks",
    b"gpu_memory_utilization",
    b"gpu-memory-utilization=",
    b"reserved for KV Cache is",
    b"Free memory on device",
    b"total memory: ",
    b"GiB memory for KV Cache",
    b"total_gpu_memory",
    b"vLLM instance can use",
    b"model weights take",
    b"non_torch_memory",
    b"PyTorch activation peak memory",
    b"available_kv_cache_memory",
    b"Estimated CUDA graph memory",
    b"CUDA graph pool memory",
    b"Total non KV cache memory",
    b"raph capturing finished",
    b"odel loading took",
    b"Loading model weights took",
    *SETTINGS,
)


def figures_of(text: str) -> tuple[dict[str, Interval], int]:
    """Figures of a line, and where the first of them stands (-1 where there are none)."""
    found: dict[str, Interval] = {}
    places: list[int] = []
    for pattern, names in _PATTERNS.items():
        match = pattern.search(text)
        if match is not None and "num_gpu_blocks_override" not in text:
            places.append(match.start())
            found.update(_read(names, match))
    for place, more in (_override(text), _startup(text)):
        if more:
            places.append(place)
            found.update(more)
    return found, min(places, default=-1)


def _read(
    names: tuple[tuple[str, str], ...], match: re.Match[str]
) -> Iterator[tuple[str, Interval]]:
    for (name, unit), value in zip(names, match.groups(), strict=True):
        if unit == "4":
            yield name, printed(value, "", 4)
        else:
            yield name, printed(value, unit, 2 if unit or name == "concurrency" else 0)


def _override(text: str) -> tuple[int, dict[str, Interval]]:
    """An override of counted blocks. Over 0 blocks it is the probe of graph memory: no count."""
    match = _OVERRIDE.search(text)
    if match is None or not int(match[1].replace(",", "")):
        return -1, {}
    return match.start(), {"measured blocks": printed(match[1]), "blocks": printed(match[2])}


def _startup(text: str) -> tuple[int, dict[str, Interval]]:
    match = _STARTUP.search(text)
    if match is None:
        return -1, {}
    free, total, utilization, budget, uses, suggested, again = match.groups()
    found = {
        name: printed(value, "GiB", 2)
        for name, value in (("free", free), ("total", total), ("budget", budget))
    }
    found["utilization"] = Interval.exactly(Fraction(utilization))
    parts = {what: printed(use, "GiB", 2) for use, what in _USE.findall(uses)}
    found["used"] = sum(parts.values(), Interval.exactly(0))
    for what, use in parts.items():
        for name in ("weight", "activation", "non-torch", "raph"):
            if name in what:
                found[f"used {name}"] = use
    found["suggested"] = printed(suggested)
    if again is not None:
        found["suggested in GiB"] = printed(again, "GiB", 2)
    full = _FULL.search(text)
    if full is not None:
        found["suggested at most"] = printed(full[1])
        if full[2] is not None:
            found["suggested at most in GiB"] = printed(full[2], "GiB", 2)
    return match.start(), found
