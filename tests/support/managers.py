"""KVCacheManagerV2 configurations (tests/cases/trtllm_floors.json) as the adapter's managers."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan.models.engines.trtllm.cycles import LayerBuffers
from kvplan.models.engines.trtllm.manager import Ask, Constraint, Manager
from kvplan.models.reading.loader import load_data
from support.trtllm import CONFIGS

_FILE = load_data(Path(__file__).parents[1] / "cases" / "trtllm_counts.json")
COUNTS: dict[str, dict[str, Any]] = {case["name"]: case for case in _FILE["cases"]}


def manager(name: str) -> Manager:
    """Build the manager of a configuration; every request is held."""
    config, more = CONFIGS[name], COUNTS[name]
    batches = [
        Constraint(_asks(b["requests"]), b.get("shared_prefix", 0)) for b in config["batches"]
    ]
    ratio = more.get("cycle_ratio")
    return Manager(
        layers=tuple(map(_layer, config["layers"])),
        block=config["tokens_per_block"],
        constraints=tuple(batches),
        resume=Fraction(config.get("resume_utilization", "0.97")),
        state_headroom=config.get("state_headroom", False),
        max_rewind=config.get("max_rewind"),
        typical=Constraint(_asks(more["typical"])) if "typical" in more else None,
        cycle_ratio=tuple(map(Fraction, ratio)) if ratio else None,
        name=name,
    )


def _asks(requests: list[list[int]]) -> tuple[Ask, ...]:
    return tuple(Ask(*request) for request in requests)


def _layer(layer: dict[str, Any]) -> LayerBuffers:
    return LayerBuffers(
        buffers=tuple(layer["buffers"]),
        window=layer.get("window"),
        sink=layer.get("sink", 0),
        state="state" in layer,
        count=layer.get("count", 1),
        max_slots=layer.get("max_slots"),
    )
