"""vLLM servers by a model's name and flags, and the models' configs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvplan.models import Plan, Problem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.solver import plan

FILE = Path(__file__).parents[1] / "cases" / "model_configs.json"
CONFIGS: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
"""Configs by model, with the fields that caches depend on."""
TOKENS = "GPU KV cache size"


def architecture(model: str) -> Architecture:
    return read_architecture(CONFIGS[model])


def settings(flags: str, *more: str) -> Settings:
    common = {"gpu": None, "total_bytes": None, "weights_bytes": None}
    return read_settings(vllm.FLAGS, (*flags.split(), *more), common)


def problem(model: str, flags: str, *more: str) -> Problem:
    return vllm.build(architecture(model), settings(flags, *more))


def served(model: str, flags: str, *more: str) -> tuple[dict[str, str], Plan]:
    """What vLLM prints, and the plan."""
    known, given = architecture(model), settings(flags, *more)
    asked = vllm.build(known, given)
    answer = plan(asked)
    return vllm.figures(known, given, asked, answer), answer


def speculative(method: str, tokens: int, model: Path | None = None) -> tuple[str, str]:
    """The flag and its value."""
    data: dict[str, Any] = {"method": method, "num_speculative_tokens": tokens}
    if model is not None:
        data["model"] = str(model)
    return "--speculative-config", json.dumps(data)
