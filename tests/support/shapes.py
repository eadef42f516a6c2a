"""Public models by what their configs say (tests/cases/model_configs.json), read as layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.layers import Architecture
from kvplan.models.reading.loader import load_data

CONFIGS: dict[str, dict[str, Any]] = load_data(
    Path(__file__).parents[1] / "cases" / "model_configs.json"
)


def architecture(name: str, **changes: Any) -> Architecture:
    """Layers of a model, with fields of its text model's config laid over."""
    config = CONFIGS[name]
    if "text_config" in config:
        return read_architecture({**config, "text_config": {**config["text_config"], **changes}})
    return read_architecture({**config, **changes})
