"""Random problems that lack a few bytes and whose needs fall and rise with the capacity."""

from __future__ import annotations

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from support.draw import Data, Draw


def uneven_problem(seed: int) -> Data:
    """Live windows (with a shared prefix, scratch or a given history) 1 to 3 bytes short."""
    draw = Draw(seed, {})
    tokens = [draw.one((4, 6, 16, 24, 32)) for _ in range(draw.integer(1, 2))]
    prefix = draw.one((0, 0, 37, 100, 700))
    data: Data = {
        "ranks": [{"name": "r", "quota": 2**40}],
        "pools": [{"name": "p", "bytes": draw.one((1, 1, 3))}],
        "caches": [_window(draw, index, size) for index, size in enumerate(tokens)],
        "batches": [{"name": "b", "shared_prefix": prefix, "requests": _requests(draw, prefix)}],
    }
    if draw.chance(0.3):
        data["caches"].append({"name": "full", "kind": "full", "tokens_per_block": tokens[0] * 8})
    if draw.chance(0.3):
        data["constraints"] = [{"terms": {"blocks:p": draw.one((1, -1))}, "max": 2**30}]
    return _short(draw, data)


def _window(draw: Draw, index: int, tokens: int) -> Data:
    cache: Data = {
        "name": f"w{index}",
        "kind": "window",
        "keep": "live",
        "window": draw.one((8, 64, 1024)),
        "tokens_per_block": tokens,
    }
    if draw.chance(0.3):
        cache["sink"] = draw.integer(1, 2 * tokens)
    if draw.chance(0.4):
        cache["scratch"] = {"fraction": "1/4", "max_rewind": draw.integer(0, 40)}
    return cache


def _requests(draw: Draw, prefix: int) -> list[Data]:
    requests = []
    for name in "qs"[: draw.integer(1, 2)]:
        capacity = prefix + draw.one((40, 900, 5000, 160_000)) + draw.integer(0, 60)
        request: Data = {"name": name, "capacity": capacity, "count": draw.integer(1, 3)}
        if draw.chance(0.3):
            request["history"] = draw.integer(max(prefix, capacity - 3000), capacity)
        requests.append(request)
    return requests


def _short(draw: Draw, data: Data) -> Data:
    """The quota lowered until it is short by 1 to 3 blocks."""
    free = dict(data)
    for key in ("constraints",):
        free.pop(key, None)
    floor = plan(Problem.model_validate(free)).floors["p"] * data["pools"][0]["bytes"]
    quota = max(0, floor - draw.integer(1, 3 * data["pools"][0]["bytes"]))
    return {**data, "ranks": [{"name": "r", "quota": quota}]}


def refusal_of(data: Data) -> Infeasible | None:
    """Why it does not fit; None where it does."""
    try:
        plan(Problem.model_validate(data))
    except Infeasible as refusal:
        return refusal
    return None
