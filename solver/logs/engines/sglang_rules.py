"""What must hold between the figures of SGLang's ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kvplan.solver.logs.compare import compare, said, wrong
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import RankLog, Wrong

_RATIOS = (Fraction(1), Fraction(3, 2))
"""Of key to value bytes of a token: alike, or dims of 192 and 128 (MiMo-V2, DeepSeek's heads)."""
_ALIKE = ("tokens", "chunk", "prefill", "requests", "longest", "slots", "block_tokens")
"""Settings and counts that one start decides for all of its ranks."""


def sglang_wrong(rank: RankLog) -> Iterator[Wrong]:
    """Sums, and what two lines of one rank say."""
    figures = rank.figures
    if figures.keys() >= {"pools together", "pools before"} and rank.tokens_by_pool:
        yield from compare(rank, "pools together", figures["pools before"], "the pools before it")
    if figures.keys() >= {"free before", "free after", "loaded"}:
        left = figures["free before"] - figures["loaded"]
        yield from compare(rank, "free after", left, "free before the load - loaded")
    tokens, requests = rank.whole("tokens"), rank.whole("requests")
    if tokens is not None and rank.tokens_by_pool and tokens not in rank.tokens_by_pool:
        pools = " and ".join(map(str, dict.fromkeys(rank.tokens_by_pool)))
        yield wrong(rank, "tokens", f"{tokens} where {pools} are allocated")
    yield from _odd_pools(rank)
    if tokens is not None and requests is not None and requests > max(1, tokens):
        yield wrong(rank, "requests", f"{requests} at once in {tokens} tokens")
    for index in range(1, len(rank.tokens_by_pool) + 1):
        yield from _keys_and_values(rank, index)


def _odd_pools(rank: RankLog) -> Iterator[Wrong]:
    """Target and draft have one count; only window pools, which their sum names, have another."""
    counts, tokens = rank.tokens_by_pool, rank.whole("tokens")
    if tokens not in counts or "pools together" in rank.figures:
        return
    for count in dict.fromkeys(counts):
        if count != tokens:
            yield wrong(rank, "pool", f"{count} tokens where max_total_num_tokens is {tokens}")


def _keys_and_values(rank: RankLog, index: int) -> Iterator[Wrong]:
    """Keys and values of a token are dims of a head, or types, in a small ratio."""
    keys, values = rank.figures.get(f"K {index}"), rank.figures.get(f"V {index}")
    if keys is None or values is None or keys.low <= 0 or values.low <= 0:
        return
    ratio = keys.over(values)
    if not any(ratio.low <= each <= ratio.high for each in _RATIOS):
        text = f"{said('K', keys)} beside values of {said('V', values)}: no ratio of head dims"
        yield wrong(rank, f"K {index}", text)


def alike_wrong(ranks: Sequence[RankLog]) -> Iterator[Wrong]:
    """What ranks of one start print alike, and bytes of a token of ranks of one stage."""
    for name in _ALIKE:
        values = [(rank, value) for rank in ranks if (value := rank.whole(name)) is not None]
        yield from _minority(values, name)
    pools = max((len(rank.tokens_by_pool) for rank in ranks), default=0)
    for index in range(1, pools + 1):
        for part in ("K", "V", "KV"):
            yield from _sizes(ranks, part, index)
    yield from _allocated(ranks)


def _minority(values: Sequence[tuple[RankLog, int]], name: str) -> Iterator[Wrong]:
    """Ranks that differ from the value that most (else the first) of them print."""
    every = [value for _, value in values]
    if name == "tokens" or len(set(every)) < 2:  # counts that differ are told as a disagreement
        return
    usual = max(every, key=lambda value: (every.count(value), -every.index(value)))
    for rank, value in values:
        if value != usual:
            yield wrong(rank, name, f"{value} where the other ranks print {usual}")


def _sizes(ranks: Sequence[RankLog], part: str, index: int) -> Iterator[Wrong]:
    """Keys of a token are as many bytes on every rank of a stage."""
    name = f"{part} {index}"
    held = [rank for rank in ranks if name in rank.figures and len(rank.tokens_by_pool) >= index]
    each = {
        id(rank): rank.figures[name].over(Interval.exactly(rank.tokens_by_pool[index - 1]))
        for rank in held
        if rank.tokens_by_pool[index - 1]
    }
    yield from outliers([rank for rank in held if id(rank) in each], each, name)


def _allocated(ranks: Sequence[RankLog]) -> Iterator[Wrong]:
    """Bytes of a token of TensorRT-LLM's pools are the same on every rank of a stage."""
    held = [rank for rank in ranks if rank.whole("tokens") and "windows" in rank.figures]
    each = {
        id(rank): rank.figures["pool"].over(rank.figures["tokens"])
        for rank in held
        if "pool" in rank.figures
    }
    yield from outliers([rank for rank in held if id(rank) in each], each, "pool")


def outliers(held: Sequence[RankLog], each: dict[int, Interval], name: str) -> Iterator[Wrong]:
    """Ranks whose bytes of a token are not those of the others of their stage."""
    for rank in held:
        others = [each[id(one)] for one in held if one is not rank and _stage(one) == _stage(rank)]
        fitting = sum(each[id(rank)].meets(other) for other in others)
        if others and 2 * fitting < len(others):
            text = (
                f"{said(name, rank.figures[name])}: another size of a token than the other ranks'"
            )
            yield wrong(rank, name, text)


def _stage(rank: RankLog) -> str:
    return next((part for part in rank.label.split("_") if part.startswith("PP")), "")
