"""Random small problems over all that a problem can say, for the oracle and the engines."""

from __future__ import annotations

from hypothesis import strategies as st

from kvplan.models import Problem
from support import layouts
from support.demands import batches
from support.draw import Data, Draw
from support.priorities import constraints, fill, goals
from support.quotas import with_quotas

UTILIZATIONS = ("1/2", "19/20", "97/100", 1, 1)


def random_problem(seed: int, **switches: bool) -> Data:
    """Plain data of a small, valid problem; two in three are feasible.

    Parameters
    ----------
    seed : equal seeds and switches give equal problems.
    switches : a feature forced in or out: prefill, staging, experts, lend, choices, consumers,
        prefix, flights, sinks, scratch, shards, granules, fit, memory, stages, constraints,
        goals, weighted, fill, and fields of pools by name (max_blocks, reserved_blocks ...).
    """
    draw = Draw(seed, switches)
    unit = draw.one(layouts.UNITS)
    stages = 2 if draw.has("stages", 0.3) else 1
    ranks = [
        {"name": f"rank{index}", "stage": index % stages, "quota": 2**50}
        for index in range(max(stages, draw.one((1, 1, 2, 3))))
    ]
    data: Data = {"ranks": ranks, "tokens_per_block": draw.integer(2, 8)}
    data["resume_utilization"] = draw.one(UTILIZATIONS)
    if draw.has("prefill", 0.5):
        data["prefill"] = layouts.prefill(draw, stages, unit)
    if draw.has("experts", 0.35):
        data["experts"] = layouts.experts(draw, stages, unit)
    _pools_and_caches(draw, data, stages, unit)
    _consumers_and_choices(draw, data, unit)
    data["goals"] = goals(draw, data)
    data["constraints"] = constraints(draw, data)
    if len(data["pools"]) > 2:
        data["constraints"] = data["constraints"][:1]  # or three pools are counted at once
    data |= fill(draw, data)
    return with_quotas(draw, data)


def _pools_and_caches(draw: Draw, data: Data, stages: int, unit: int) -> None:
    prefix = draw.has("prefix", 0.25)
    kinds = layouts.PREFIX_KINDS if prefix else layouts.KINDS
    names = "abc"[: draw.one((1, 2, 2, 3))]
    data["pools"] = [layouts.pool(draw, name, stages, unit) for name in names]
    owners = [*names, *(draw.one(names) for _ in range(draw.integer(0, 2)))]
    data["caches"] = [
        layouts.cache(draw, index, owner, draw.one(kinds), prefill="prefill" in data)
        for index, owner in enumerate(owners)
    ]
    data["batches"] = batches(draw, data, prefix=prefix)


def _consumers_and_choices(draw: Draw, data: Data, unit: int) -> None:
    if draw.has("consumers", 0.4):
        data["consumers"] = [layouts.living(draw, "weights", data["ranks"], unit)]
    if draw.has("choices", 0.3):
        data["choices"] = [
            {
                "name": f"way{index}",
                "options": [
                    layouts.living(draw, name, data["ranks"], unit)
                    for name in ("best", "good", "poor")[: draw.integer(1, 3)]
                ],
            }
            for index in range(draw.one((1, 1, 2)))
        ]


def small_problem(seed: int, **switches: bool) -> Problem:
    """The same, validated."""
    return Problem.model_validate(random_problem(seed, **switches))


def problems(**switches: bool) -> st.SearchStrategy[Data]:
    """Draw plain data of small problems."""
    return st.integers(0, 2**32 - 1).map(lambda seed: random_problem(seed, **switches))
