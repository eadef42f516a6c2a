"""The problem that a log describes: its room, its pools, and the longest request.

A log prints rounded bytes and exact counts. Bytes of a block are the roundest figure (the one with
the most factors of two) that both allow, and the room is cut to what gives the count that the
engine printed, so that the plan of the problem is the start of the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.solver.logs.concurrency import agrees
from kvplan.solver.logs.described_pools import Pool, first_whole, pools_of, roundest
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import CORE, RankLog
from kvplan.solver.logs.verdict import Start


def described(start: Start) -> dict[str, Any]:
    """A problem, as data.

    Raises
    ------
    InvalidProblem : the log does not say what the cache may take, or how much it holds.
    """
    ranks = [share.rank for share in start.shares if share.rank.label != CORE]
    records = (*ranks, *start.cores) or tuple(share.rank for share in start.shares)
    pools = pools_of(start, ranks, records)
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
        request: dict[str, Any] = {"name": "request", "capacity": longest}
        if first.is_override:  # the engine starts, however long its longest request
            request["fit"] = "capacity"
        problem["batches"] = [{"name": "longest", "requests": [request]}]
    return problem


def _longest(start: Start, records: Sequence[RankLog]) -> int | None:
    """Tokens of the longest request that the engine wants to serve."""
    found = next(
        (n for name in ("session", "longest", "n_ctx") if (n := first_whole(records, name))), None
    )
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
    return rooms or [("rank0", None, max(least, min(first.size.middle, most)))]


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
