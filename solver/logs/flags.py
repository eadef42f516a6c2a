"""An engine's flags as a log shows them, for a model's own config."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from kvplan.solver.logs.reading.interval import GIB, Interval
from kvplan.solver.logs.reading.record import CORE, RankLog
from kvplan.solver.logs.verdict import Start

ADAPTERS = {
    "vLLM": "vllm",
    "SGLang": "sglang",
    "TensorRT-LLM": "tensorrt-llm",
    "ATOM": "atom",
    "llama.cpp": "llama.cpp",
}
"""Names of `kvplan model --engine` by the engines of logs."""
_OLDEST, _NEWEST = (0, 19), (0, 33)
_SPARE = GIB // 50
"""What the rounded sizes of two pools may be short of."""


def flags_of(start: Start) -> list[tuple[str, str]]:
    """Flags and values, in an engine's own spelling."""
    ranks = [share.rank for share in start.shares]
    records = [*ranks, *start.cores]
    makers = {
        "vLLM": _vllm,
        "SGLang": _sglang,
        "TensorRT-LLM": _trtllm,
        "ATOM": _atom,
        "llama.cpp": _llamacpp,
    }
    flags = list(makers[start.engine](ranks, records))
    known = {name for name, _ in flags}
    refused = list(_refused(start, known))
    known |= {name for name, _ in refused}
    return [*flags, *refused, *_typed(records, known)]


def _typed(records: Sequence[RankLog], known: set[str]) -> Iterator[tuple[str, str]]:
    """The other flags of the server's command line, as its log repeats them."""
    words = {name: value for record in records for name, value in record.words.items()}
    for name, value in words.items():
        if name.startswith("--") and name not in known:
            yield name, value


def _refused(start: Start, known: set[str]) -> Iterator[tuple[str, str]]:
    """What only vLLM's refusal says: the length that was asked for, and the bytes that are left."""
    for one in start.failures if start.engine == "vLLM" else ():
        if one.kind == "context" and "--max-model-len" not in known:
            yield "--max-model-len", one.figures["0"]
        if one.kind == "context" and "2" in one.figures and "--available" not in known:
            yield "--available", f"{one.figures['2']}GiB"


def _word(records: Sequence[RankLog], name: str) -> str | None:
    return next((record.words[name] for record in records if name in record.words), None)


def _whole(records: Sequence[RankLog], name: str) -> int | None:
    return next((value for record in records if (value := record.whole(name))), None)


def _gib(figure: Interval) -> str:
    """A reading as the engine printed it, so that it stays an interval."""
    return f"{float(figure.centre / GIB):.2f}GiB"


def _available(ranks: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    for rank in ranks:
        if "available" in rank.figures:
            yield "--available", _gib(rank.figures["available"])


def _parallel(ranks: Sequence[RankLog], prefix: str) -> int:
    """Ranks of a kind that the labels number: TP0, PP1_TP3."""
    numbers = [int(n) for rank in ranks for n in re.findall(rf"{prefix}(\d+)", rank.label)]
    return max(numbers, default=0) + 1


def _vllm(ranks: Sequence[RankLog], records: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    version = re.match(r"(\d+)\.(\d+)", _word(records, "version") or "")
    if version is not None:
        number = min(max((int(version[1]), int(version[2])), _OLDEST), _NEWEST)
        yield "--engine-version", f"{number[0]}.{number[1]}.0"
    longest = _whole(records, "longest") or _word(records, "max-model-len")
    if longest:
        yield "--max-model-len", str(longest)
    stages = int(_word(records, "pipeline-parallel-size") or _parallel(ranks, "PP"))
    workers = len([rank for rank in ranks if rank.label != CORE])
    tensor = _word(records, "tensor-parallel-size") or str(max(1, workers // stages))
    yield "--tensor-parallel-size", tensor
    if stages > 1:
        yield "--pipeline-parallel-size", str(stages)
    for name in ("kv-cache-dtype", "max-num-batched-tokens"):
        value = _word(records, name)
        if value and value != "auto":
            yield f"--{name}", value
    measured = any("measured blocks" in record.figures for record in records)
    blocks = _whole(records, "blocks")
    if measured and blocks:
        yield "--num-gpu-blocks-override", str(blocks)
    yield from _available(ranks)


def _sglang(ranks: Sequence[RankLog], records: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    tensor = _word(records, "tp-size") or str(_parallel(ranks, "TP"))
    yield "--tp-size", tensor
    stages = int(_word(records, "pp-size") or _parallel(ranks, "PP"))
    if stages > 1:
        yield "--pp-size", str(stages)
    for name in ("page-size", "kv-cache-dtype"):
        value = _word(records, name)
        if value and value != "auto":
            yield f"--{name}", value
    for flag, figure in (
        ("--context-length", "longest"),
        ("--chunked-prefill-size", "chunk"),
        ("--max-total-tokens", "tokens"),
        ("--max-mamba-cache-size", "slots"),
    ):
        value_found = _whole(records, figure)
        if value_found and value_found > 0:
            yield flag, str(value_found)
    sizes = [rank.figures["pool"].high for rank in ranks if "pool" in rank.figures]
    states = sum((_size(ranks, name) for name in ("conv", "ssm")), 0)
    if sizes:
        yield "--available", str(int(max(sizes)) + states + _SPARE)


def _size(ranks: Sequence[RankLog], name: str) -> int:
    return int(max((r.figures[name].high for r in ranks if name in r.figures), default=0))


def _trtllm(ranks: Sequence[RankLog], records: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    if len(ranks) > 1:
        yield "--tp_size", str(len(ranks))
    for flag, figure in (("--tokens_per_block", "block_tokens"), ("--max_seq_len", "window")):
        value = _whole(records, figure)
        if value:
            yield flag, str(value)
    pools = [rank.figures["pool"] for rank in ranks if "pool" in rank.figures]
    if pools:
        yield "--available", _gib(min(pools))


def _atom(ranks: Sequence[RankLog], records: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    yield "--tensor-parallel-size", str(max(1, len(ranks)))
    yield from _available(ranks)


def _llamacpp(ranks: Sequence[RankLog], records: Sequence[RankLog]) -> Iterator[tuple[str, str]]:
    cells, streams = _whole(records, "cells"), _whole(records, "streams") or 1
    context = _whole(records, "n_ctx") or (cells * streams if cells else None)
    for flag, value in (
        ("--ctx-size", context),
        ("--parallel", _whole(records, "n_seq_max") or streams),
        ("--batch-size", _whole(records, "n_batch")),
        ("--ubatch-size", _whole(records, "n_ubatch")),
    ):
        if value:
            yield flag, str(value)
    for flag, name in (("--cache-type-k", "K"), ("--cache-type-v", "V")):
        kind = next(
            (r.words[name] for r in records if r.words.get("kind") != "states" and name in r.words),
            None,
        )
        if kind:
            yield flag, kind
    whole = sum(rank.figures["size"].high for rank in ranks if "size" in rank.figures)
    if whole:
        yield "--available", str(int(whole))
