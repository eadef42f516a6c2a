"""The problem that a log describes: its room, its pools, and the longest request.

A log prints rounded bytes and exact counts. Bytes of a block are the roundest figure (the one with
the most factors of two) that both allow, and the room is cut to what gives the count that the
engine printed, so that the plan of the problem is the start of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kvplan.models import InvalidProblem
from kvplan.solver.logs.concurrency import agrees
from kvplan.solver.logs.interval import Interval, printed
from kvplan.solver.logs.record import CORE, RankLog
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


def described(start: Start) -> dict[str, Any]:
    """A problem, as data.

    Raises
    ------
    InvalidProblem : the log does not say what the cache may take, or how much it holds.
    """
    ranks = [share.rank for share in start.shares if share.rank.label != CORE]
    records = (*ranks, *start.cores) or tuple(share.rank for share in start.shares)
    pools = _pools(start, ranks, records)
    first = pools[0]
    sizes = [pool.block_bytes or roundest(pool.size, pool.blocks, pool.blocks) for pool in pools]
    state = max((_whole_bytes(rank, "state") for rank in ranks), default=0)
    least = state + sum(pool.blocks * size for pool, size in zip(pools, sizes, strict=True))
    problem: dict[str, Any] = {
        "version": 1,
        "name": f"{_title(start, records)}{_warning(records)}",
        "ranks": [
            {"name": name, **_budget(rank, room)}
            for name, rank, room in _rooms(ranks, first, least, least + sizes[0] - 1)
        ],
        "tokens_per_block": first.block_tokens,
        "pools": [_pool(*pair, pair[0] is first) for pair in zip(pools, sizes, strict=True)],
        "caches": [{"name": first.name, "pool": first.name, "kind": "full"}],
        "fill": {"pools": [first.name]},
    }
    if state:
        problem["consumers"] = [{"name": "state", "bytes": state}]
    longest = _longest(start, records)
    if longest:
        request = {"name": "request", "capacity": longest}
        problem["batches"] = [{"name": "longest", "requests": [request]}]
    return problem


def _longest(start: Start, records: Sequence[RankLog]) -> int | None:
    """Tokens of the longest request that the engine wants to serve."""
    found = _first(records, "longest") or _first(records, "n_ctx")
    refused = (one.figures["0"] for one in start.failures if one.kind == "context")
    words = (r.words["max-model-len"] for r in records if "max-model-len" in r.words)
    return found or next((int(tokens) for tokens in (*refused, *words)), None)


def _pool(pool: Pool, block_bytes: int, is_counted: bool) -> dict[str, Any]:
    """A pool; those beside the counted one keep what the log gives them."""
    sized: dict[str, Any] = {"name": pool.name, "bytes": block_bytes}
    if pool.is_override:
        return sized | {"max_blocks": pool.blocks}
    return sized if is_counted else sized | {"min_blocks": pool.blocks, "max_blocks": pool.blocks}


def _whole_bytes(rank: RankLog, name: str) -> int:
    return rank.figures[name].middle if name in rank.figures else 0


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


def _title(start: Start, records: Sequence[RankLog]) -> str:
    models = [record.words["model"] for record in records if "model" in record.words]
    model = f"{models[0]} on " if models else ""
    return f"{model}{start.engine}, from {start.source}"


def _warning(records: Sequence[RankLog]) -> str:
    """What a problem of one cache cannot say."""
    for record in records:
        for tokens, _, longest, ratio in record.pairs:
            if tokens and longest and ratio is not None and not agrees(tokens, longest, ratio):
                return "; layers of several kinds: as of one kind that holds the printed tokens"
    return ""


def _first(records: Sequence[RankLog], name: str) -> int | None:
    return next((value for record in records if (value := record.whole(name))), None)


def _pools(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """Pools of a rank; the first is the one that requests are counted in."""
    for read in (_of_caches, _of_sglang, _of_blocks, _of_tokens, _of_refusal):
        pools = read(start, ranks, records)
        if pools:
            return pools
    raise InvalidProblem.at(
        start.source, "a count, and the bytes that it takes or may take", "a log without them"
    )


def _of_caches(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """llama.cpp: cells and size of each cache."""
    caches = [rank for rank in ranks if "cells" in rank.figures and "size" in rank.figures]
    pools = []
    for index, rank in enumerate(caches):
        cells = (rank.whole("cells") or 0) * (rank.whole("streams") or 1)
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
        return []
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


def _of_tokens(start: Start, ranks: Sequence[RankLog], records: Sequence[RankLog]) -> list[Pool]:
    """vLLM: tokens of the core in the smallest rank's room."""
    room = min((r.figures["available"] for r in ranks if "available" in r.figures), default=None)
    tokens, blocks = _first(records, "tokens"), _first(records, "blocks")
    measured = _first(records, "measured blocks")
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
            return [Pool("kv", int(left.centre // size), 16, left, size)]
    return []


def _printed_gib(text: str) -> Interval:
    return printed(text, "GiB", 2)


def _rooms(
    ranks: Sequence[RankLog], first: Pool, least: int, most: int
) -> list[tuple[str, RankLog | None, int]]:
    """Name and room of each rank; the smallest has what gives the printed count."""
    held = [rank for rank in ranks if "available" in rank.figures]
    if held:
        return [(_name(rank), rank, _room(rank.figures["available"], least, most)) for rank in held]
    counted = [rank for rank in ranks if rank.count is not None and "cells" not in rank.figures]
    size = (most + 1 - least) // first.block_tokens
    smallest = min((_tokens(rank, first) for rank in counted), default=0)
    rooms: list[tuple[str, RankLog | None, int]] = [
        (_name(rank), rank, least + (_tokens(rank, first) - smallest) * size) for rank in counted
    ]
    return rooms or [("rank0", None, least)]


def _tokens(rank: RankLog, first: Pool) -> int:
    """Tokens that a rank counted, by blocks where the log counts those."""
    blocks = rank.whole("blocks")
    if blocks is not None:
        return blocks * first.block_tokens
    return (rank.count or (0,))[0]


def _room(room: Interval, least: int, most: int) -> int:
    """A printed room, cut to what gives the count where it may be that."""
    if room.high < least or room.low > most:
        return max(0, room.middle)
    return min(max(room.middle, least), most)


def _name(rank: RankLog) -> str:
    return f"rank{rank.label}" if rank.label.isdecimal() else rank.label.replace(" ", "_")


def _budget(rank: RankLog | None, room: int) -> Mapping[str, Any]:
    """The readings where they make the room, else the room as a quota.

    What rounding leaves open goes to the peak, so that the readings leave the room to the byte.
    """
    figures = rank.figures if rank is not None else {}
    if not figures.keys() >= {"total", "utilization"}:
        return {"quota": room}
    total, share = figures["total"].middle, figures["utilization"].centre
    memory: dict[str, Any] = {"total": total, "utilization": str(share)}
    for name in ("non_torch", "safety"):
        if name in figures:
            memory[name] = max(0, figures[name].middle)
    if "graphs" in figures and "peak" in figures:
        memory["graphs"] = max(0, figures["graphs"].middle)
    taken = sum(memory.get(name, 0) for name in ("non_torch", "safety", "graphs"))
    peak = int(total * share) - taken - room
    return {"memory": {**memory, "peak_torch": peak}} if peak >= 0 else {"quota": room}
