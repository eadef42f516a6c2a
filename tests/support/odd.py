"""Random small problems with what once gave wrong answers, on top of `support.instances`.

Bounds on copies and counts, falling and flat curves, shares beside everything, equal labels,
prefixes with several windows, quotas a few bytes short, granule steps, and figures near 2^31, 2^53
and 2^62.
"""

from __future__ import annotations

from typing import Any

from kvplan.models import Infeasible, Problem, Undecided
from kvplan.solver import plan
from support.draw import Data, Draw
from support.instances import random_problem
from support.quotas import with_quotas

GIB = 2**30
PARTS = ("copies", "counts", "curve", "shares", "labels", "prefix", "short")


def odd_problem(seed: int, *parts: str) -> Data:
    """Plain data of a small problem with some of `PARTS`; the named ones at least.

    Parameters
    ----------
    seed : equal seeds and parts give equal problems.
    """
    draw = Draw(seed + 2 * 10**9, {"memory": False})
    wanted = {*parts, *draw.some(PARTS)[:3]}
    prefix = "prefix" in wanted
    switches = {"prefix": True} if prefix else {}
    data = random_problem(seed, memory=False, **switches)
    if prefix:
        _several_windows(draw, data)
    if "copies" in wanted:
        _bound_copies(draw, data)
    if "counts" in wanted:
        _bound_counts(draw, data)
    if "curve" in wanted:
        _bend(draw, data)
    if "shares" in wanted:
        names = draw.shuffled([pool["name"] for pool in data["pools"]])
        parts_of_one = draw.one((["1/2", "1/2", 0], ["1/3", "1/5", "1/7"], [1, 0, 0]))
        data["fill"] = {"shares": dict(zip(names, parts_of_one, strict=False))}
    if "labels" in wanted:
        _repeat_label(draw, data)
    data = with_quotas(draw, data)
    return _short(draw, data) if "short" in wanted else data


def _several_windows(draw: Draw, data: Data) -> None:
    """Two or three live windows of different block sizes in one pool."""
    pool = draw.one(data["pools"])["name"]
    for number in range(draw.integer(1, 2)):
        data["caches"].append(
            {
                "name": f"further{number}",
                "pool": pool,
                "kind": "window",
                "keep": "live",
                "window": draw.integer(1, 20),
                "tokens_per_block": draw.one((2, 3, 4)),
            }
        )


def _serving(data: Data) -> list[str]:
    """Batches that take a block whatever their requests shrink to."""
    kinds = {cache["kind"] for cache in data["caches"]}
    attends = kinds & {"full", "window", "chunked"}
    return [
        batch["name"]
        for batch in data["batches"]
        if any(
            request.get("count", 1) > 0
            and ("state" in kinds or (attends and request["capacity"] > 0))
            for request in batch["requests"]
        )
    ]


def _bound_copies(draw: Draw, data: Data) -> None:
    """At most, at least, or just so many copies of a batch; beside blocks, or alone."""
    if not _serving(data):
        return
    terms: dict[str, Any] = {f"copies:{draw.one(_serving(data))}": draw.one((1, 1, 2, -1))}
    if draw.chance(0.3):
        terms[f"blocks:{draw.one(data['pools'])['name']}"] = draw.one((1, -1))
    low, high = draw.integer(-3, 3), draw.integer(1, 6)
    form = draw.one(({"max": high}, {"max": high}, {"min": low}, {"min": low, "max": high}))
    data["constraints"] = [*data["constraints"], {"terms": terms, **form}][-2:]


def _bound_counts(draw: Draw, data: Data) -> None:
    """A bound on something that is fitted, capacity or count."""
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    fitted = [f"{request['fit']}:{request['name']}" for request in requests if "fit" in request]
    if fitted:
        name = draw.one(fitted)
        form = draw.one(({"max": draw.integer(1, 30)}, {"min": draw.integer(1, 5)}))
        data["constraints"] = [*data["constraints"], {"terms": {name: 1}, **form}][-2:]


def _bend(draw: Draw, data: Data) -> None:
    """A first goal along curves that rise, stay and fall."""
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    names = [f"{request['fit']}:{request['name']}" for request in requests if "fit" in request]
    names += [name for name in ("prefill", "experts") if name in data]
    names += [f"blocks:{pool['name']}" for pool in data["pools"]]
    picked = draw.shuffled(names)[: draw.integer(1, 2)]
    curves = {}
    for name in picked:
        ends = sorted(draw.random.sample(range(30), draw.integer(2, 4)))
        worths = [draw.one((0, 1, 4, 4, 9)) for _ in ends]
        curves[name] = [[end, worth] for end, worth in zip(ends, worths, strict=True)]
    weights = {name: draw.one((1, 3, "1/2", -1)) for name in picked}
    data["goals"] = [{"maximize": weights, "curves": curves}, *data["goals"]][:3]


def _repeat_label(draw: Draw, data: Data) -> None:
    """Two goals with one label and different curves."""
    name = f"blocks:{draw.one(data['pools'])['name']}"
    goals = [
        {"maximize": {name: 1}, "curves": {name: [[1, 1], [draw.integer(2, 9), most]]}}
        for most in (1, 5)
    ]
    data["goals"] = [*goals, *data["goals"]][:3]


def _short(draw: Draw, data: Data) -> Data:
    """Quotas at what the best plan takes, or one to three bytes below."""
    try:
        answer = plan(Problem.model_validate(data), deadline=5)
    except (Infeasible, Undecided):
        return data
    fewer = draw.integer(0, 3)
    ranks = zip(data["ranks"], answer.ranks, strict=True)
    quotas = [
        {"name": rank["name"], "stage": rank["stage"], "quota": max(0, taken.used - fewer)}
        for rank, taken in ranks
    ]
    return data | {"ranks": quotas}


def at_granule_step(seed: int) -> Data:
    """A problem with "auto" granules whose quotas lie a few bytes around a step."""
    draw = Draw(seed + 3 * 10**9, {})
    step = GIB << draw.integer(1, 4)
    blocks = draw.integer(3, 30)
    pools = [
        {"name": name, "bytes": step // blocks + draw.integer(-3, 3), "granule": "auto"}
        for name in "ab"[: draw.integer(1, 2)]
    ]
    return {
        "ranks": [{"name": "r", "quota": step + draw.integer(-2, 2)}],
        "tokens_per_block": 4,
        "pools": pools,
        "caches": [
            {"name": f"c{pool['name']}", "pool": pool["name"], "kind": "full"} for pool in pools
        ],
        "batches": [{"name": "b", "requests": [{"name": "q", "capacity": 200, "fit": "capacity"}]}],
    }


def scaled(data: Data, factor: int) -> Data:
    """The problem with every byte figure multiplied; its decisions stay the same.

    Only problems without readings, fractions of bytes and "auto" granules can be scaled.
    """
    keys = {"quota", "bytes", "granule", "base", "slot_bytes", "per_token"}

    def walked(value: Any, key: str = "") -> Any:
        if key == "table":
            return [[tokens, figure * factor] for tokens, figure in value]
        if key == "slot_bytes" and isinstance(value, list):
            return [[slots, figure * factor] for slots, figure in value]
        if isinstance(value, dict):
            inner = key in keys
            return {k: walked(v, key if inner else k) for k, v in value.items()}
        if isinstance(value, list):
            return [walked(each, key) for each in value]
        if key not in keys or isinstance(value, bool):
            return value
        if isinstance(value, str):
            numerator, _, denominator = value.partition("/")
            return f"{int(numerator) * factor}/{denominator or 1}"
        return value * factor

    result: Data = walked(data)
    return result
