"""Random small problems with parts of the format that `support.instances` leaves out.

They are drawn on top of its problems from numbers of their own, so that its problems stay the same.
"""

from __future__ import annotations

from collections.abc import Callable

from support.draw import Data, Draw
from support.instances import random_problem
from support.quotas import with_quotas

Part = Callable[[Draw, Data], None]


def extended_problem(seed: int, *parts: str) -> Data:
    """Plain data of a small problem with these parts of `PARTS`, and perhaps others.

    Parameters
    ----------
    seed : equal seeds and parts give equal problems.
    """
    draw = Draw(seed + 4 * 10**9, {})
    wanted = {*parts, *[part for part in PARTS if draw.chance(0.3)]}
    data = random_problem(seed, **({"prefix": False} if "caches" in wanted else {}))
    for name, part in PARTS.items():
        if name in wanted:
            part(draw, data)
    for rank in data["ranks"]:
        rank.pop("memory", None)
        rank["quota"] = 2**50
    return with_quotas(draw, data)


def _rank_bytes(draw: Draw, data: Data) -> None:
    """Blocks whose bytes differ between the ranks of a stage."""
    if len(data["ranks"]) == 1:
        data["ranks"] = [*data["ranks"], {**data["ranks"][0], "name": "twin"}]
    for pool in data["pools"]:
        for buffer in pool.get("buffers", [pool]):
            figure = buffer["bytes"]
            most = figure if isinstance(figure, int) else max(figure.values())
            named = {
                rank["name"]: draw.one((most, most // 2 + 1, 0))
                for rank in data["ranks"]
                if isinstance(figure, int) or draw.chance(0.6)
            }
            first = data["ranks"][0]["name"]
            named[first] = most  # or no rank holds the pool
            buffer["bytes"] = named if isinstance(figure, int) else {**figure, **named}


def _caches(draw: Draw, data: Data) -> None:
    """Requests that use some of the caches only."""
    caches = data["caches"]
    if len(caches) == 1:
        caches.append({"name": "other", "pool": caches[0]["pool"], "kind": "full"})
    names = [cache["name"] for cache in caches]
    for batch in data["batches"]:
        for request in batch["requests"]:
            if draw.chance(0.7):
                request["caches"] = draw.some(names)


def _mix(draw: Draw, data: Data) -> None:
    """As much as fits of one to three lengths."""
    entries: list[Data] = []
    for _ in range(draw.integer(1, 3)):
        entry: Data = {"capacity": draw.integer(0, 40), "share": draw.one(("1/3", "2/7", 1, 0.25))}
        if draw.chance(0.5):
            entry["history"] = draw.integer(0, entry["capacity"])
        entries.append(entry)
    entries[0] = {"capacity": draw.integer(1, 40), "share": entries[0]["share"]}
    data["fill"] = {"mix": entries}


def _powers(draw: Draw, data: Data) -> None:
    """Allocations and staging rounded up to powers of two."""
    for pool in data["pools"]:
        for buffer in pool.get("buffers", [pool]):
            if draw.chance(0.7) or pool is data["pools"][0]:
                buffer["granule"] = "pow2"
    for entry in data.get("prefill", {}).get("staging", ()):
        if draw.chance(0.5):
            entry["granule"] = "pow2"


def _largest(draw: Draw, data: Data) -> None:
    """A largest allocation of some buffers."""
    for pool in data["pools"]:
        for buffer in pool.get("buffers", [pool]):
            if buffer.get("granule") != "auto" and draw.chance(0.7):
                figure = buffer["bytes"]
                most = figure if isinstance(figure, int) else max(figure.values())
                buffer["max_bytes"] = most * draw.integer(8, 40) + draw.integer(0, 99)


def _contexts(draw: Draw, data: Data) -> None:
    """Staging that follows the capacity of a request, often a fitted one."""
    if "prefill" not in data:
        data["prefill"] = {"requested": 8, "chunks": [2, 3, 5]}
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    fitted = [request for request in requests if request.get("fit") == "capacity"]
    staging = data["prefill"].setdefault("staging", [])
    for entry in staging:
        if draw.chance(0.3):
            entry["group"] = "shared"
    for number in range(draw.integer(1, 2)):
        request = draw.one(fitted if fitted and draw.chance(0.8) else requests)
        entry = {"name": f"scores{number}", "request": request["name"]}
        entry |= _followed(draw, data, request["capacity"])
        if draw.chance(0.3) and not number:
            entry["group"] = "shared"
        staging.append(entry)


def _followed(draw: Draw, data: Data, capacity: int) -> Data:
    """Bytes by chunk and context: a rate, a table over either, a base, a granule."""
    block = data["pools"][0].get("bytes", 64)
    each = max(1, (block if isinstance(block, int) else 64) // 16)
    entry: Data = {}
    if draw.chance(0.8):
        entry["per_token_context"] = draw.one((each, f"{each}/3", draw.integer(0, 4)))
    if draw.chance(0.4) or not entry:
        last = max(2, capacity)
        entry["context_table"] = [[last // 2, each], [last, draw.integer(1, 9) * each]]
    if draw.chance(0.3):
        entry["table"] = [[2, each], [data["prefill"]["requested"] + 2, 3 * each]]
    elif draw.chance(0.5):
        entry |= {"base": draw.integer(0, 99), "per_token": draw.one((each, "7/2"))}
    if draw.chance(0.4):
        entry["granule"] = draw.one((64, 100, "pow2"))
    return entry


def _running(draw: Draw, data: Data) -> None:
    """Bytes of each running request, in some phases, on some ranks."""
    phases = draw.one((None, ["decode"], ["load", "prefill"], ["prefill", "encode"]))
    buffers = [buffer for pool in data["pools"] for buffer in pool.get("buffers", [pool])]
    sizes = [buffer["bytes"] for buffer in buffers]
    block = max([size if isinstance(size, int) else max(size.values()) for size in sizes])
    for number in range(draw.integer(1, 2)):
        figure: object = block * draw.integer(1, 8) // 4 + draw.integer(1, 9)
        if draw.chance(0.4):
            figure = {data["ranks"][0]["name"]: figure}
        consumer: Data = {"name": f"each{number}", "per_request": figure}
        if draw.chance(0.3):
            consumer["bytes"] = draw.integer(0, 99)
        if phases is not None:
            consumer["phases"] = phases
        data.setdefault("consumers", []).append(consumer)


PARTS: dict[str, Part] = {
    "mix": _mix,
    "rank_bytes": _rank_bytes,
    "caches": _caches,
    "powers": _powers,
    "largest": _largest,
    "contexts": _contexts,
    "running": _running,
}
