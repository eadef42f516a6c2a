"""The element type of weights and, by default, of keys and values: --dtype, or what auto finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.launch.defaults import Derived

_SHORT = {"half": "float16", "float": "float32"}


def model_dtype(architecture: Architecture, settings: Mapping[str, Any]) -> Derived:
    """--dtype, or what `auto` makes of the config (_resolve_auto_dtype, vllm/config/model.py).

    Auto never runs in float32: a config that says so, or none (then the files of the weights may
    say it), becomes the card's preferred type of two bytes, float16 before compute capability 8.0.
    """
    flag, word = "--dtype", settings["dtype"]
    if word != "auto":
        return Derived(flag, _SHORT.get(word, str(word)), "given", given=True)
    if architecture.dtype in ("", "float32"):
        said = "names no dtype" if not architecture.dtype else "says float32"
        return Derived(flag, "bfloat16", f"auto; the config {said}")
    return Derived(flag, architecture.dtype, "the config's", given=True)
