"""Public placement cases: layers, cards, what an engine chose and what is best."""

from __future__ import annotations

import json
from typing import Any

from kvplan.solver.place.search.pipeline_stages import Stages
from support.cases import FOLDER


def public_cases() -> dict[str, dict[str, Any]]:
    """Cases by their public source."""
    lines = (FOLDER / "placement.jsonl").read_text().splitlines()
    return {case["source"]: case for case in map(json.loads, lines)}


def pipelines() -> dict[str, dict[str, Any]]:
    """Cases of pipeline stages."""
    return {
        source: case
        for source, case in public_cases().items()
        if "layers_count_weight_cacheblock" in case["figures"]
    }


def stages_of(figures: dict[str, Any]) -> Stages:
    """The pipeline of a case."""
    runs = figures["layers_count_weight_cacheblock"]
    return Stages(
        layer_bytes=tuple(weight for count, weight, _ in runs for _ in range(count)),
        columns=(tuple(block for count, _, block in runs for _ in range(count)),),
        limits=tuple(figures["quota"]),
        first=figures["first_stage"],
        last=figures["last_stage"],
    )


def small_mixture(**changes: Any) -> dict[str, Any]:
    """Six layers of two sizes, a fast card, a slow one, and a host: context first, then speed."""
    place = {
        "engine": "llama.cpp",
        "order": ["host", "gpu0", "gpu1"],
        "host": "host",
        "layers": [
            {"count": 2, "dense": 150, "cache": "full"},
            {
                "count": 4,
                "dense": 100,
                "experts": [400, 400, 300],
                "active": "1/4",
                "cache": "full",
            },
        ],
        "ends": {"first": {"bytes": 90, "spaces": ["host"]}, "last": {"bytes": 50}},
        "used": {name: {"base": 60, "per_token": "1/2"} for name in ("gpu0", "gpu1")},
        "read": {"gpu0": 8_000, "gpu1": 4_000, "host": 1_000},
    }
    return {
        "ranks": [
            {"name": "gpu0", "quota": 2_000},
            {"name": "gpu1", "quota": 1_200},
            {"name": "host", "quota": 6_000},
        ],
        "pools": [{"name": "kv", "bytes": 32}],
        "caches": [{"name": "full", "kind": "full"}],
        "batches": [
            {"name": "b", "requests": [{"name": "r", "capacity": 2_000, "fit": "capacity"}]}
        ],
        "place": {**place, **changes},
        "goals": ["capacity:r", "speed"],
        "fill": "none",
    }
