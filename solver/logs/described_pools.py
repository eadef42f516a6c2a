"""The pools of a start as its log has them, by engine."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvplan.models import InvalidProblem
from kvplan.solver.logs.reading.interval import Interval, printed
from kvplan.solver.logs.reading.record import RankLog
from kvplan.solver.logs.verdict import Start

_BLOCK_TOKENS = {"vLLM": 16, "ATOM": 16, "LMDeploy": 64, "TensorRT-LLM": 32, "SGLang": 1}
"""Tokens of a block where the log prints none: the engine's default."""


class Pool(NamedTuple):
    """A pool as the log has it: so many blocks of so many tokens, in some room."""

    name: str
    blocks: int
    block_tokens: int
    size: Interval
    block_bytes: int | None = None
    is_override: bool = False


def roundest(room: Interval, blocks: int, most: int) -> int:
    """Bytes of a block: the figure with the most factors of two that gives a count in a room.

    Parameters
    ----------
    most : blocks that are too many; as many as there are where the room is the pool itself.
    """
    low, high = -int(-room.low // most), int(room.high // max(1, blocks))
    low, high = max(1, min(low, high)), max(1, high)
    step = 1
    while high // (2 * step) * 2 * step >= low:
        step *= 2
    return high // step * step


def first_whole(records: Sequence[RankLog], name: str) -> int | None:
    """The first whole figure of some name in the records."""
    return next((value for record in records if (value := record.whole(name))), None)


def pools_of(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """Pools of a rank; the first is the one that requests are counted in."""
    for read in (_of_caches, _of_sglang, _of_blocks, _of_tokens, _of_refusal):
        pools = read(start, ranks, records)
        if pools:
            return pools
    expected = "a count, and the bytes that it takes or may take"
    got = "a log without them (check-log says what it holds; kvplan model CONFIG needs less)"
    raise InvalidProblem.at(start.source, expected, got)


def _of_caches(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """llama.cpp: cells and size of each cache."""
    context = first_whole(records, "n_ctx") or 0
    caches = [rank for rank in ranks if "size" in rank.figures]
    pools = []
    for index, rank in enumerate(caches):
        cells = (rank.whole("cells") or 0) * (rank.whole("streams") or 1)
        if "cells" not in rank.figures:  # older: one cache, which holds the context
            cells = context
        if not cells:
            continue
        each = 256 if cells % 256 == 0 else 1
        name = "cells" if not index else rank.label.replace(" ", "_")
        pools.append(Pool(name, cells // each, each, rank.figures["size"]))
    return sorted(pools, key=lambda pool: -pool.blocks * pool.block_tokens) if pools else []


def _of_sglang(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """SGLang: tokens and bytes of each pool; pools as large as the target's are its layers."""
    held = [rank for rank in ranks if rank.tokens_by_pool and "pool" in rank.figures]
    if not held:
        return []
    rank = min(held, key=lambda rank: rank.tokens_by_pool)
    page = int(next((r.words["page-size"] for r in records if "page-size" in r.words), 1))
    counts = rank.tokens_by_pool
    target = rank.whole("tokens") or counts[0]
    sizes: dict[int, Interval] = {}
    for index, count in enumerate(counts, 1):
        size = rank.figures[f"pool {index}"]
        sizes[count] = sizes[count] + size if count in sizes else size
    ordered = sorted(sizes, key=lambda count: count != target)
    return [
        Pool("tokens" if not index else f"pool_{index}", count // page, page, sizes[count])
        for index, count in enumerate(ordered)
        if count >= page
    ]


def _of_blocks(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """ATOM, TensorRT-LLM, LMDeploy: blocks, and their bytes or what they take in all."""
    rank = min(
        (rank for rank in ranks if rank.whole("blocks")),
        key=lambda rank: rank.whole("blocks") or 0,
        default=None,
    )
    if rank is None:
        return _of_allocation(start, ranks)
    blocks = rank.whole("blocks") or 0
    each = rank.whole("block_tokens") or _BLOCK_TOKENS.get(start.engine, 16)
    size = rank.whole("block_bytes")
    if size:
        return [Pool("kv", blocks, each, Interval.exactly(size * blocks), size)]
    if "block" in rank.figures:
        session = rank.whole("session")
        each = session // blocks if session and not session % blocks else each
        whole = rank.figures["block"].times(Interval.exactly(blocks))
        return [Pool("kv", blocks, each, whole)]
    return [Pool("kv", blocks, each, rank.figures["pool"])] if "pool" in rank.figures else []


def _of_allocation(start: Start, ranks: Sequence[RankLog]) -> list[Pool]:
    """TensorRT-LLM's older lines: tokens, and the bytes that are allocated for them."""
    held = [r for r in ranks if start.engine == "TensorRT-LLM" and "pool" in r.figures]
    rank = min(held, key=lambda rank: rank.whole("tokens") or 0, default=None)
    tokens = rank.whole("tokens") if rank is not None else None
    if rank is None or not tokens:
        return []
    each = rank.whole("block_tokens") or 1
    return [Pool("kv", tokens // each, each, rank.figures["pool"])]


def _of_tokens(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """vLLM: tokens of the core in the smallest rank's room."""
    room = min((r.figures["available"] for r in ranks if "available" in r.figures), default=None)
    tokens, blocks = first_whole(records, "tokens"), first_whole(records, "blocks")
    measured = first_whole(records, "measured blocks")
    if room is None or room.high <= 0 or not (tokens or blocks):
        return []
    each = 16
    if blocks and tokens and not tokens % blocks and not measured:
        each = tokens // blocks
    elif tokens and tokens % each:
        each = 1
    count = measured or (tokens // each if tokens else blocks or 0)
    size = roundest(room, count, count + 1)
    taken = (blocks or count) if measured else count
    return [Pool("kv", taken, each, Interval.exactly(size * taken), size, measured is not None)]


def _of_refusal(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """A refused start: bytes that one request needs, and what is there."""
    for failure in start.failures:
        given = failure.figures
        if failure.kind == "context" and "2" in given:
            needed, left = (_printed_gib(given[name]) for name in ("1", "2"))
            blocks = -(-int(given["0"]) // 16)
            size = roundest(needed, blocks, blocks)
            return [Pool("kv", _blocks_left(given, left, size, records), 16, left, size)]
    return []


def _blocks_left(
    given: Mapping[str, str], left: Interval, size: int, records: Sequence[RankLog]
) -> int:
    """Blocks of what is left: those of the length that would start, where the log names one.

    From 0.29 on that length leaves the null block out, and what is printed of the room must do.
    """
    version = next((r.words["version"] for r in records if "version" in r.words), "0")
    number = [int(part) for part in re.findall(r"\d+", version)[:2]]
    blocks = int(given.get("3", 0)) // 16
    if number < [0, 29] and left.low < (blocks + 1) * size and blocks * size <= left.high:
        return blocks
    return int(left.centre // size)


def _printed_gib(text: str) -> Interval:
    return printed(text, "GiB", 2)
