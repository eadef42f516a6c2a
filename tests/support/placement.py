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
