"""What a launch does not say and no rule can derive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.errors import InvalidProblem


def no_budget(engine: str, expected: str, settings: Mapping[str, Any]) -> InvalidProblem:
    """The error of a budget without its terms: the weights by their flag, if the card is known."""
    if settings.get("total_bytes") is not None and settings.get("weights_bytes") is None:
        weights = "GiB of weights on one rank beside the card (the size of their files)"
        other = "a model folder or a GGUF file as CONFIG"
        return InvalidProblem.at("--weights-gib", f"{weights}, or {other}", "none")
    return InvalidProblem.at(f"--engine {engine}", expected, "no budget")
