"""Random goals, linear constraints and fills for small problems."""

from __future__ import annotations

from typing import Any

from support.draw import Data, Draw


def _fitted(data: Data) -> list[str]:
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    return [f"{each['fit']}:{each['name']}" for each in requests if "fit" in each]


def _full_batches(data: Data) -> list[str]:
    """Batches that need a block whatever their requests shrink to."""
    kinds = {cache["kind"] for cache in data["caches"]}
    return [
        batch["name"]
        for batch in data["batches"]
        if any(
            request.get("count", 1) > 0
            and ("state" in kinds or ("full" in kinds and request["capacity"] > 0))
            for request in batch["requests"]
        )
    ]


def _settings(data: Data) -> list[str]:
    present = [name for name in ("prefill", "experts") if name in data]
    return present + [f"choice:{choice['name']}" for choice in data.get("choices", ())]


def _blocks(data: Data) -> list[str]:
    return [f"blocks:{pool['name']}" for pool in data["pools"]]


def goals(draw: Draw, data: Data) -> list[Any]:
    """No goal, some variables in any order, or a weighted goal among them."""
    if not draw.has("goals", 0.6):
        return []
    wide = [*_fitted(data), *_settings(data)]
    if draw.chance(0.15):
        wide.append(draw.one(_blocks(data)))
    if draw.chance(0.15) and _full_batches(data):
        wide.append(f"copies:{draw.one(_full_batches(data))}")
    listed: list[Any] = draw.shuffled(draw.some(wide)) if wide else []
    if draw.has("weighted", 0.4):
        listed.insert(draw.integer(0, len(listed)), weighted(draw, data))
    return listed


def weighted(draw: Draw, data: Data) -> Data:
    """Several variables against each other, some through curves."""
    pool = [*_fitted(data), *_settings(data)]
    if len(pool) < 2 or draw.chance(0.2):
        pool.append(draw.one(_blocks(data)))
    picked = draw.some(pool, 2)[:3]
    # Two members at least or a weight of -1 or so: never another goal's plain variable again.
    least = -3 if len(picked) > 1 else -1
    weights = {name: draw.one((least, 1, 2, "1/3", 5, 0.25)) for name in picked}
    if len(picked) == 1:
        weights = {picked[0]: least}
    goal: Data = {"maximize": weights}
    curved = [name for name in picked if draw.chance(0.35)]
    if curved:
        goal["curves"] = {name: _curve(draw) for name in curved}
    return goal


def _curve(draw: Draw) -> list[list[int]]:
    ends = sorted(draw.random.sample(range(-2, 30), draw.integer(1, 4)))
    return [[end, draw.integer(-5, 60)] for end in ends]


def constraints(draw: Draw, data: Data) -> list[Data]:
    """Linear constraints of mixed sign; on blocks, on what is fitted, on settings."""
    if not draw.has("constraints", 0.2):
        return []
    drawn = []
    for _ in range(draw.one((1, 1, 2))):
        variables = [*_blocks(data), *_fitted(data)]
        variables += [name for name in ("prefill", "experts") if name in data]
        for choice in data.get("choices", ()):
            variables.append(f"choice:{choice['name']}={draw.one(choice['options'])['name']}")
        if draw.chance(0.1) and _full_batches(data):
            variables.append(f"copies:{draw.one(_full_batches(data))}")
        picked = draw.shuffled(draw.some(variables))[:3]
        while sum(name.startswith(("blocks:", "copies:")) for name in picked) > 2:
            picked = picked[:-1]
        terms = {name: draw.one((1, 2, 4, -1, -3, -5, "1/2", "-3/2")) for name in picked}
        bounds = {"max": draw.integer(0, 80), "min": draw.integer(-80, 0)}
        kept = draw.one((("max",), ("min",), ("min", "max")))
        drawn.append({"terms": terms, **{key: bounds[key] for key in kept}})
    return drawn


def touch_blocks(data: Data) -> bool:
    """Whether a constraint or a weighted goal looks at blocks."""
    sums = [list(each["terms"]) for each in data["constraints"]]
    sums += [list(goal["maximize"]) for goal in data["goals"] if not isinstance(goal, str)]
    return any(name.startswith(("blocks:", "copies:")) for each in sums for name in each)


def fill(draw: Draw, data: Data) -> Data:
    """Every form; shares only where nothing but floors and plain goals speaks of blocks."""
    names = [pool["name"] for pool in data["pools"]]
    forms: list[Any] = [None, "none", {"pools": draw.shuffled(draw.some(names))}]
    if _full_batches(data):
        forms.append({"batch": draw.one(_full_batches(data))})
    if not touch_blocks(data):
        shares: list[Any] = draw.one(
            ([0.5, 0.5, 0], ["1/3", "1/3", "1/3"], [0.8, 0.2, 0], [0.3, 0.1, 0.05])
        )
        picked = draw.shuffled(draw.some(names))
        forms += [{"shares": dict(zip(picked, shares, strict=False))}] * 2
    form = draw.one(forms) if draw.has("fill", 0.8) else None
    return {} if form is None else {"fill": form}
