"""Small problems with a linear row that two pools, or a pool and the slots, can mend."""

from __future__ import annotations

from kvplan.models import Problem
from support.draw import Data, Draw
from support.instances import random_problem


def shared_row_problem(seed: int) -> Problem:
    """A random problem with a floor for two members, and sometimes another row beside it."""
    data = random_problem(seed, constraints=False, weighted=False, lend=seed % 5 == 0)
    draw = Draw(seed + 10**6, {})
    pools = [f"blocks:{pool['name']}" for pool in data["pools"]]
    settings = [name for name in ("experts",) if name in data]
    shared = draw.shuffled([*pools, *settings])[:2]
    rest = [name for name in [*pools, *_fitted(data), *_settings(data)] if name not in shared]
    terms = {name: draw.one((1, 1, 2, 3)) for name in shared}
    if rest and draw.chance(0.4):
        terms[draw.one(rest)] = draw.one((-1, -2, -3))
    rows: list[Data] = [{"terms": terms, "min": draw.integer(1, 70)}]
    if draw.chance(0.3):
        rows[0]["max"] = rows[0]["min"] + draw.integer(0, 9)
    if rest and draw.chance(0.3):
        rows.append({"terms": {draw.one(rest): draw.one((-1, 2))}, "max": draw.integer(1, 60)})
    data["constraints"] = rows
    if isinstance(data.get("fill"), dict) and "shares" in data["fill"]:
        del data["fill"]
    return Problem.model_validate(data)


def _fitted(data: Data) -> list[str]:
    requests = [request for batch in data["batches"] for request in batch["requests"]]
    return [f"{each['fit']}:{each['name']}" for each in requests if "fit" in each]


def _settings(data: Data) -> list[str]:
    return [name for name in ("prefill",) if name in data]
