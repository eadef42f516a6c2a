"""Models that vLLM gave up, each with the last version that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.errors import InvalidProblem

LAST_VERSION = {
    "AyaVisionForConditionalGeneration": (0, 24, 0),
    "BaiChuanForCausalLM": (0, 23, 0),
    "BaichuanForCausalLM": (0, 23, 0),
    "BambaForCausalLM": (0, 23, 0),
    "Dots1ForCausalLM": (0, 23, 0),
    "HCXVisionForCausalLM": (0, 28, 0),
    "InternLM2VEForCausalLM": (0, 23, 0),
    "MPTForCausalLM": (0, 28, 0),
    "MiniMaxForCausalLM": (0, 23, 0),
    "MiniMaxM1ForCausalLM": (0, 23, 0),
    "MiniMaxText01ForCausalLM": (0, 23, 0),
    "MiniMaxVL01ForConditionalGeneration": (0, 23, 0),
    "MptForCausalLM": (0, 28, 0),
    "RWForCausalLM": (0, 28, 0),
    "StableLMEpochForCausalLM": (0, 28, 0),
    "TeleChatForCausalLM": (0, 25, 0),
    "XverseForCausalLM": (0, 23, 0),
}
"""vllm/model_executor/models/registry.py, _PREVIOUSLY_SUPPORTED_MODELS.

Persimmon and Phi-4-multimodal stand there, too, and run on the Transformers backend since.
"""


def retired_text(architecture: Architecture, version: Version) -> str:
    """Say that a version does not have the model any more; empty where it does."""
    last = LAST_VERSION.get(architecture.name)
    if last is None or version.number[:2] <= last[:2]:
        return ""
    return f"{architecture.name} was supported until {'.'.join(map(str, last))}"


def check_supported(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> None:
    """Refuse a version that is asked for and has not this model any more.

    Raises
    ------
    InvalidProblem : with the last version that has it.
    """
    said = retired_text(architecture, version)
    if said and "engine_version" in getattr(settings, "given", ()):
        raise InvalidProblem.at("--engine-version", said, version.text)
