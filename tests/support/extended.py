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


PARTS: dict[str, Part] = {
    "mix": _mix,
    "rank_bytes": _rank_bytes,
    "caches": _caches,
    "powers": _powers,
    "largest": _largest,
}
