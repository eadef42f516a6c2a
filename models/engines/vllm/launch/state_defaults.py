"""What vLLM derives about states: prefix caching, cache mode, dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture, Recurrent
from kvplan.models.engines.vllm.launch.defaults import Derived
from kvplan.models.engines.vllm.launch.speculation import Speculation
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.errors import InvalidProblem

_MODE_ALL = frozenset(
    {
        *("nemotron_h", "granitemoehybrid", "falcon_h1", "jamba", "zamba2", "mamba", "mamba2"),
        *("bamba", "falcon_mamba"),
    }
)


def prefix_caching(
    settings: Mapping[str, Any], version: Version, architecture: Architecture
) -> Derived:
    """--enable-prefix-caching: off for states without attention, for others on.

    Hybrids: off before 0.26 (ModelConfig.is_prefix_caching_supported). A --mamba-cache-mode other
    than none asks for it.
    """
    flag, given = "--enable-prefix-caching", settings["enable_prefix_caching"]
    if given is not None:
        return Derived(flag, bool(given), "given", given=True)
    if settings["mamba_cache_mode"] in ("align", "all"):
        return Derived(flag, True, "asked for by --mamba-cache-mode")
    states = [isinstance(layer, Recurrent) for layer in architecture.target]
    if all(states):
        return Derived(flag, False, "default without attention layers")
    if any(states):
        on = version.number >= (0, 26, 0)
        return Derived(flag, on, f"hybrids: {'on from' if on else 'off before'} 0.26")
    return Derived(flag, True, "default")


def state_mode(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, draft: Speculation
) -> Derived:
    """--mamba-cache-mode: none without prefix caching; else align from 0.28 on.

    Up to 0.27 all, where the model's class supports it (MambaModelConfig; Bamba to 0.23; in 0.20
    not with a draft).

    Raises
    ------
    InvalidProblem : a mode that this version has no more.
    """
    flag, given = "--mamba-cache-mode", settings["mamba_cache_mode"]
    if given == "all" and not version.has_state_mode_all:
        raise InvalidProblem.at(flag, f"none or align in {version.text}", "all")
    if not prefix_caching(settings, version, architecture).value:
        return Derived(flag, "none", "no prefix caching")
    if given in ("align", "all"):
        return Derived(flag, str(given), "given", given=True)
    if version.number >= (0, 28, 0):
        return Derived(flag, "align", "prefix caching from 0.28")
    if architecture.model_type not in _MODE_ALL or (
        architecture.model_type == "bamba" and version.number >= (0, 24, 0)
    ):
        return Derived(flag, "align", "prefix caching, a class without mode all")
    if draft.method and (0, 20, 0) <= version.number < (0, 21, 0):
        return Derived(flag, "align", "prefix caching and speculation in 0.20")
    return Derived(flag, "all", "prefix caching up to 0.27, a class with mode all")


def state_dtype(
    settings: Mapping[str, Any], version: Version, architecture: Architecture, layer: Recurrent
) -> Derived:
    """--mamba-ssm-cache-dtype: the config's, else that of the convolution.

    Nemotron-H without one: float32, in 0.19 float16 (NemotronHForCausalLMConfig). Linear attention
    looks at --mamba-cache-dtype alone (linear_attention_state_dtype).
    """
    flag, given = "--mamba-ssm-cache-dtype", settings["mamba_ssm_cache_dtype"]
    if layer.recurrence == "linear":
        return Derived(flag, None, "linear attention: that of --mamba-cache-dtype")
    if given != "auto":
        return Derived(flag, str(given), "given", given=True)
    if layer.state_dtype:
        return Derived(flag, layer.state_dtype, "the config's")
    if architecture.model_type == "nemotron_h":
        old = version.number < (0, 20, 0)
        return Derived(flag, "float16" if old else "float32", f"Nemotron-H in {version.text}")
    return Derived(flag, None, "that of --mamba-cache-dtype")
