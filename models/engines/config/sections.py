"""Which section of a config describes the text model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.families.config_classes import IN_SECTION
from kvplan.models.engines.families.fields import TOP, Fields

OUTER = ("thinker_config",)  # of an omni model, whose talker has caches of its own
NESTED = ("text_config", "llm_config", "language_config")


def text_fields(config: Mapping[str, Any]) -> Fields:
    """Find the part that describes the text model: the config itself, or a nested one."""
    part, path = config, TOP
    for outer in OUTER:
        inner = part.get(outer)
        if isinstance(inner, Mapping) and inner:
            part, path = inner, f"{path}.{outer}"
    for name in NESTED:
        nested = part.get(name)
        if isinstance(nested, Mapping) and nested:
            left = IN_SECTION.get(str(part.get("model_type")), {})
            return Fields({**left, **nested}, f"{path}.{name}")
    return Fields(part, path)
