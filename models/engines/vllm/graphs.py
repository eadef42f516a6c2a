"""Which CUDA graphs a launch captures, and whether their estimate comes off the budget."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from kvplan.models.engines.vllm.launch.json_values import Keys, read_json
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

Captured = Literal["none", "pieces", "full"]
KEYS = Keys(
    read=("cudagraph_mode", "mode", "level"),
    harmless=(
        *("debug_dump_path", "cache_dir", "compile_cache_save_format", "backend", "custom_ops"),
        *("ir_enable_torch_wrap", "splitting_ops", "compile_mm_encoder", "cudagraph_mm_encoder"),
        *("encoder_cudagraph_token_budgets", "encoder_cudagraph_max_vision_items_per_batch"),
        *("encoder_cudagraph_max_frames_per_batch", "cudagraph_decoder_replay"),
        *("decoder_replay_cudagraph_capture_sizes", "decoder_replay_trim_threshold"),
        *("compile_sizes", "compile_ranges_endpoints", "inductor_compile_config"),
        *("inductor_passes", "cudagraph_num_of_warmups", "cudagraph_capture_sizes"),
        *("cudagraph_copy_inputs", "cudagraph_specialize_lora", "use_inductor_graph_partition"),
        *("pass_config", "max_cudagraph_capture_size", "dynamic_shapes_config"),
        *("local_cache_dir", "fast_moe_cold_start", "max_capture_size", "use_inductor"),
        *("compile_ranges_split_points", "use_cudagraph", "full_cuda_graph", "full_cudagraph"),
        "simple_cuda_graph",
    ),
)
_MODES: dict[str, Captured] = {
    "NONE": "none",
    "PIECEWISE": "pieces",
    "FULL": "full",
    "FULL_DECODE_ONLY": "full",
    "FULL_AND_PIECEWISE": "full",
}


def captures(settings: Mapping[str, Any]) -> Captured:
    """Graphs that are captured: full ones of decode steps by default (vllm/config/compilation.py).

    None under --enforce-eager, -O0 and cudagraph_mode NONE; pieces alone under -O1 and PIECEWISE.

    Raises
    ------
    InvalidProblem : --compilation-config with keys or a mode that vLLM does not know.
    """
    config: Mapping[str, Any] = {}
    text = settings["compilation_config"]
    if text is not None and not str(text).isdecimal():
        config = read_json("--compilation-config", text, KEYS)
    if settings["enforce_eager"]:
        return "none"
    mode = config.get("cudagraph_mode")
    if mode is not None:
        if str(mode).upper() not in _MODES:
            where = "--compilation-config.cudagraph_mode"
            raise InvalidProblem.at(where, f"one of {', '.join(_MODES)}", shown(mode))
        return _MODES[str(mode).upper()]
    levels: dict[str, Captured] = {"0": "none", "1": "pieces"}
    return levels.get(str(settings["optimization_level"] or "2"), "full")


def charges_graphs(settings: Mapping[str, Any], version: Version) -> bool:
    """Whether the estimate of the graphs comes off the budget: from 0.21, unless told otherwise."""
    told = settings["estimate_graphs"]
    return version.charges_graphs if told is None else bool(told)
