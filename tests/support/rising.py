"""Small problems whose weighted goals never fall: several wide variables against each other."""

from __future__ import annotations

from typing import Any

from kvplan.models import Problem
from support.draw import Data, Draw
from support.instances import random_problem

WEIGHTS = (1, 2, 3, 5, 7, 8, "1/3", "3/2", 0.25)


def rising_problem(seed: int, *, constraints: bool = False) -> Problem:
    """A random problem with one rising weighted goal, and sometimes plain ones around it."""
    data = random_problem(seed, constraints=constraints, goals=True, weighted=False)
    draw = Draw(seed + 10**6, {})
    names = _variables(draw, data)
    if len(names) < 2:
        return Problem.model_validate(data)
    picked = draw.shuffled(draw.some(names, 2))[:4]
    while sum(name.startswith("blocks:") for name in picked) > 2:  # or the oracle takes long
        picked.remove(next(name for name in picked if name.startswith("blocks:")))
    goal: Data = {"maximize": {name: draw.one(WEIGHTS) for name in picked}}
    curved = [name for name in picked if draw.chance(0.25)]
    if curved:
        goal["curves"] = {name: _rising_curve(draw) for name in curved}
    others = [name for name in data["goals"] if draw.chance(0.3)]
    data["goals"] = [*others[:1], goal, *others[1:]]
    if "shares" in (data.get("fill") if isinstance(data.get("fill"), dict) else {}):
        del data["fill"]
    return Problem.model_validate(data)


def _variables(draw: Draw, data: Data) -> list[str]:
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    names = [f"{each['fit']}:{each['name']}" for each in requests if "fit" in each]
    names += [f"blocks:{pool['name']}" for pool in data["pools"]]
    names += [name for name in ("prefill", "experts") if name in data]
    names += [f"choice:{choice['name']}" for choice in data.get("choices", ())]
    return names


def _rising_curve(draw: Draw) -> list[list[Any]]:
    ends = sorted(draw.random.sample(range(-2, 30), draw.integer(1, 4)))
    heights = sorted(draw.integer(-5, 60) for _ in ends)
    return [list(point) for point in zip(ends, heights, strict=True)]
