"""Why an engine says that it did not start, and what to change, in that engine's flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kvplan.solver.logs.failure_rules import (
    COLLECTIVE,
    LLAMACPP,
    LMDEPLOY,
    OLLAMA,
    SGLANG,
    TRTLLM,
    VLLM,
    Rule,
)
from kvplan.solver.logs.reading.record import Failure

_FLAGS = {
    "vLLM": {
        "share": "--gpu-memory-utilization",
        "kv": "--kv-cache-dtype fp8",
        "split": "--tensor-parallel-size",
        "step": "--max-num-batched-tokens",
        "graphs": "--enforce-eager",
    },
    "SGLang": {
        "share": "--mem-fraction-static",
        "kv": "--kv-cache-dtype fp8_e4m3",
        "split": "--tp-size",
        "step": "--chunked-prefill-size",
        "graphs": "--disable-cuda-graph",
    },
    "TensorRT-LLM": {
        "share": "--free_gpu_memory_fraction",
        "kv": "--kv_cache_dtype fp8",
        "split": "--tp_size",
        "step": "--max_num_tokens",
    },
    "ATOM": {
        "share": "--gpu-memory-utilization",
        "kv": "--kv_cache_dtype fp8",
        "split": "--tensor-parallel-size",
        "step": "--max-num-batched-tokens",
        "graphs": "--enforce-eager",
    },
    "llama.cpp": {
        "share": "--n-gpu-layers",
        "kv": "--cache-type-k q8_0 --cache-type-v q8_0",
        "split": "--tensor-split over more devices,",
        "step": "--ubatch-size",
    },
    "ollama": {
        "share": "num_gpu",
        "kv": "OLLAMA_KV_CACHE_TYPE=q8_0",
        "split": "OLLAMA_SCHED_SPREAD=1 over more cards,",
        "step": "num_ctx",
    },
    "LMDeploy": {
        "share": "--cache-max-entry-count",
        "kv": "--quant-policy 8",
        "split": "--tp",
        "step": "--max-prefill-token-num",
    },
}
_PHASES = {
    "load": ("while the weights load", ("{split} higher", "a quantised checkpoint")),
    "profile": ("while the engine measures a step", ("{step} lower", "{split} higher")),
    "built": (
        "after the cache was built",
        ("{share} lower", "{step} lower", "{graphs}"),
    ),
}
_OOM = re.compile(
    # Not what a server says while it runs: "Decode out of memory happened" retracts requests.
    r"(?:\b(?:CUDA|HIP|NPU|XPU|MPS|cudaMalloc)\b[^.]{0,40}?|OutOfMemoryError[^.]{0,40}?)"
    r"out of memory(?:\. Tried to allocate (-?[\d.]+ [KMG]i?B))?"
    r"(?:.{0,200}?total capacity of ([\d.]+ [KMG]i?B) of which ([\d.]+ [KMG]i?B) is free)?",
    re.IGNORECASE,
)
_OLD_CARD = re.compile(r"; ([\d.]+ [KMG]i?B) total capacity;.{0,120}?; ([\d.]+ [KMG]i?B) free(?=;)")
"""As torch before 2.2 and torch_npu print it."""
_CARD = re.compile(r"total capacity of (\d+(?:\.\d+)?) ([KMG]iB)")
_OTHER = re.compile(r"\bProcess (\d{1,12}) has (\d+(?:\.\d+)?) ([KMG]iB) memory in use")
_RULES: dict[str, tuple[Rule, ...]] = {
    "vLLM": VLLM,
    "SGLang": SGLANG,
    "TensorRT-LLM": TRTLLM,
    "llama.cpp": LLAMACPP,
    "ollama": OLLAMA,
    "LMDeploy": LMDEPLOY,
}
NEEDLES = {engine: tuple(rule.needle for rule in rules) for engine, rules in _RULES.items()}
DEVICE_NEEDLES = (b"out of memory", b"Out of memory", b"Out Of Memory", COLLECTIVE.needle)


def failure_of(engine: str, line: int, text: str) -> Failure | None:
    """The failure that a line of this engine reports; None for any other line."""
    for rule in _RULES.get(engine, ()):
        if rule.needle.decode() not in text:
            continue
        match = rule.pattern.search(text)
        if match is not None:
            return _failure(engine, line, rule, match)
    return None


def _failure(engine: str, line: int, rule: Rule, match: re.Match[str]) -> Failure:
    groups = tuple(match.groups())
    known = tuple("?" if group is None else group.replace(",", "") for group in groups)
    remedies = [
        remedy
        for remedy in _fitting(rule, known)
        if all(f"{{{i}}}" not in remedy for i, group in enumerate(groups) if group is None)
    ]
    return Failure(
        line,
        rule.kind,
        _shortened(match[0]),
        rule.why.format(*known, **_FLAGS[engine]),
        tuple(remedy.format(*known, **_FLAGS[engine]) for remedy in remedies),
        {str(index): group for index, group in enumerate(known) if group != "?"},
    )


def _fitting(rule: Rule, known: tuple[str, ...]) -> Iterator[str]:
    """Remedies of a rule; where half the bytes are too many, a smaller dtype needs a length."""
    halved = rule.halved
    if halved is None or "?" in (known[i] for i in halved[:2]):
        yield from rule.remedies
        return
    needed, left, longest = halved
    for remedy in rule.remedies:
        if remedy != "{kv}" or Fraction(known[needed]) <= 2 * Fraction(known[left]):
            yield remedy
        elif known[longest] != "?":
            yield f"{remedy} with --max-model-len {2 * int(known[longest])}"


def _shortened(said: str) -> str:
    said = " ".join(said.split())
    return said if len(said) <= 200 else said[:197] + "..."


def device_failure(engine: str, line: int, text: str, phase: str) -> Failure | None:
    """What fails below every engine: an allocation, or a collective of the ranks."""
    failure = out_of_memory(engine, line, text, phase)
    if failure is not None:
        return failure
    match = COLLECTIVE.pattern.search(text)
    if match is None:
        return None
    flags = _FLAGS.get(engine, {})
    known = (r for r in COLLECTIVE.remedies if "{share}" not in r or "share" in flags)
    remedies = tuple(remedy.format(**flags) for remedy in known)
    return Failure(line, COLLECTIVE.kind, _shortened(match[0]), COLLECTIVE.why, remedies, {})


def out_of_memory(engine: str, line: int, text: str, phase: str) -> Failure | None:
    """An allocation that failed: at "load", in "profile", or when the cache was "built"."""
    match = _OOM.search(text)
    if match is None:
        return None
    when, remedies = _PHASES[phase]
    others = _others(text)
    if others:
        remedies = (*others, "{share} lower", *(r for r in remedies if r != "{share} lower"))
    wanted = f"an allocation of {match[1]} fails" if match[1] else "an allocation fails"
    card = (match[2], match[3]) if match[2] else next(iter(_OLD_CARD.findall(text)), None)
    left = f": {card[1]} of {card[0]} are free" if card else ""
    flags = _FLAGS.get(engine, {})
    known = (r for r in remedies if all(f"{{{name}}}" not in r for name in _missing(flags)))
    return Failure(
        line,
        "out of memory",
        _shortened(text[match.start() :][:200]),
        f"{wanted} {when}{left}",
        tuple(remedy.format(**flags) for remedy in known),
        {},
    )


def _others(text: str) -> tuple[str, ...]:
    """Ends of the other processes that hold a tenth of the card or more, as torch lists them."""
    card = _CARD.search(text)
    if card is None or "this process has" not in text:
        return ()
    much = _bytes(*card.groups()) / 10
    return tuple(
        f"end process {number}, which holds {size} {unit}"
        for number, size, unit in _OTHER.findall(text)
        if _bytes(size, unit) >= much
    )


def _bytes(size: str, unit: str) -> Fraction:
    return Fraction(size) * (1 << 10 * (1 + "KMG".index(unit[0])))


def _missing(flags: dict[str, str]) -> set[str]:
    return {"share", "kv", "split", "step", "graphs"} - flags.keys()
