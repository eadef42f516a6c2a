"""Small random placement problems as plain data, of every form that the format has."""

from __future__ import annotations

import random
from typing import Any


def drawn_problem(draw: random.Random) -> dict[str, Any]:
    """Up to three layers, three spaces and three tensors; a few tokens."""
    host = "host" if draw.random() < 0.85 else None
    cards = [f"gpu{at}" for at in range(draw.randint(1, 2 if host else 3))]
    names = cards + ([host] if host else [])
    layers, unit = _layers(draw), draw.choice(("tensor", "tensor", "layer", "expert"))
    if unit == "expert":
        for run in layers:
            if run["experts"]:
                run["frequency"] = [f"{draw.randint(1, 4)}/8" for _ in run["experts"]]
    order = list(names)
    draw.shuffle(order)
    place: dict[str, Any] = {
        "order": order,
        "layers": layers,
        "ends": _ends(draw, names),
        "experts": draw.choice(("own", "own", "next", "any")),
        "unit": unit,
        "used": {
            name: {"base": draw.randint(0, 3), "per_token": draw.choice((0, 1, "1/2", "3/4"))}
            for name in names
            if draw.random() < 0.5
        },
    }
    if host:
        place |= {"host": host, "mirror": draw.random() < 0.15}
    if draw.random() < 0.2:
        place["used"]["pipelined"] = {"base": draw.randint(0, 4), "per_token": 1}
    if draw.random() < 0.8:
        place["read"] = {name: draw.randint(1, 12) for name in names}
        if draw.random() < 0.3:
            place["read"]["hop"] = draw.choice((10**9, 10**12))
    return _around(draw, place, names)


def _layers(draw: random.Random) -> list[dict[str, Any]]:
    found, tensors = [], 3
    for _ in range(draw.randint(1, 3)):
        number = draw.randint(0, min(2, tensors))
        tensors -= number
        found.append(
            {
                "count": 1,
                "dense": draw.randint(0, 8),
                "state": draw.choice((0, 0, 3)),
                "experts": [draw.randint(2, 9) for _ in range(number)],
                "active": draw.choice(("1/2", "1/3", 1)),
                "cache": draw.choice((["full"], ["full", "other"], ["other"], {"full": 2}, None)),
            }
        )
    if draw.random() < 0.3 and not found[0]["experts"]:
        found[0]["count"] = 2
    return found


def _ends(draw: random.Random, names: list[str]) -> dict[str, Any]:
    ends: dict[str, Any] = {}
    for end in ("first", "last"):
        if draw.random() < 0.5:
            ends[end] = {"bytes": draw.randint(1, 6)}
            if draw.random() < 0.3:
                ends[end]["spaces"] = [draw.choice(names)]
    if draw.random() < 0.15:
        ends["draft"] = {"bytes": draw.randint(1, 4), "cache": draw.choice(("full", {"full": 1}))}
    return ends


def _around(draw: random.Random, place: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Quotas about what is needed, pools, requests, goals, rows and consumers."""
    kind = draw.choice(({"kind": "window", "window": 3}, {"kind": "state"}))
    place["layers"][-1]["cache"] = ["full", "other"]
    weights = sum(r["count"] * (r["dense"] + r["state"] + 4) for r in place["layers"])
    weights += sum(sum(run["experts"]) for run in place["layers"])
    ranks = [{"name": name, "quota": draw.randint(4, max(8, weights))} for name in names]
    if names[-1] == "host" and draw.random() < 0.7:
        ranks[-1]["quota"] = 4 * weights
    requests: list[dict[str, Any]] = [{"name": "r", "capacity": draw.randint(2, 6)}]
    requests[0] |= {"fit": "capacity"} if draw.random() < 0.7 else {}
    if draw.random() < 0.3:
        requests.append({"name": "q", "capacity": 2, "fit": draw.choice(("none", "capacity"))})
    goals = [f"capacity:{r['name']}" for r in requests if r.get("fit") == "capacity"]
    if "host" in names:
        goals += ["layers_on_gpu", "experts_on_gpu"]
    goals += ["speed"] if "read" in place else []
    draw.shuffle(goals)
    data = {
        "ranks": ranks,
        "tokens_per_block": draw.choice((1, 2, 3)),
        "pools": [
            {"name": "kv", "bytes": draw.randint(1, 3), "reserved_blocks": draw.randint(0, 1)},
            {"name": "rest", "bytes": draw.randint(1, 3)},
        ],
        "caches": [
            {"name": "full", "pool": "kv", "kind": "full"},
            {"name": "other", "pool": "rest", **kind},
        ],
        "batches": [{"name": "b", "requests": requests}],
        "place": place,
        "goals": goals[: draw.randint(0, 2)],
        "fill": "none",
    }
    if draw.random() < 0.15:
        what = draw.choice([f"layers:{name}" for name in names])
        data["constraints"] = [{"terms": {what: 1}, draw.choice(("min", "max")): 1}]
    if draw.random() < 0.15:
        consumer = {
            "name": "c",
            "bytes": {names[0]: 2},
            "phases": [draw.choice(("load", "decode"))],
        }
        data["consumers"] = [consumer]
    return data
