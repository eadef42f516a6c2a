"""Start vLLM on a tiny random gemma-3 in several modes and generate; prints JSON.

Arguments: a folder for the model, then one JSON object a start: environment and engine arguments.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

WINDOWS, FULL = 25, 4
CONFIG = {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "num_hidden_layers": WINDOWS + FULL,
    "sliding_window": 256,
    "layer_types": [
        "full_attention" if index % 7 == 6 else "sliding_attention"
        for index in range(WINDOWS + FULL)
    ],
    "vocab_size": 512,
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "query_pre_attn_scalar": 32,
    "hidden_activation": "gelu_pytorch_tanh",
    "torch_dtype": "float32",
    "tie_word_embeddings": True,
}
PROMPTS = [[(7 * i + j * j) % 500 + 3 for j in range(length)] for i, length in enumerate((40, 700))]


def write_model(folder: Path) -> None:
    """A model whose tokens depend on what its caches hold (vLLM's dummy weights are all but 0)."""
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(1)
    hidden, inner, head = (CONFIG[key] for key in ("hidden_size", "intermediate_size", "head_dim"))
    query, kept = (head * CONFIG[f"num_{kind}_heads"] for kind in ("attention", "key_value"))
    shapes = {"model.embed_tokens": (CONFIG["vocab_size"], hidden), "model.norm": (hidden,)}
    for index in range(CONFIG["num_hidden_layers"]):
        layer = f"model.layers.{index}"
        linear = {
            "q": (query, hidden),
            "k": (kept, hidden),
            "v": (kept, hidden),
            "o": (hidden, query),
        }
        shapes |= {f"{layer}.self_attn.{name}_proj": shape for name, shape in linear.items()}
        shapes |= {f"{layer}.self_attn.{name}_norm": (head,) for name in "qk"}
        shapes |= {f"{layer}.mlp.{name}_proj": (inner, hidden) for name in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj"] = (hidden, inner)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            shapes[f"{layer}.{name}_layernorm"] = (hidden,)
    weights = {
        f"{name}.weight": torch.randn(shape) * (0.3 if len(shape) > 1 else 0.1)
        for name, shape in shapes.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def start(folder: Path, **arguments: Any) -> Any:
    from vllm import LLM

    given = {
        "max_model_len": 4096,
        "max_num_batched_tokens": 512,
        "max_num_seqs": 16,
        **arguments,
    }
    return LLM(
        model=str(folder),
        skip_tokenizer_init=True,
        enforce_eager=True,
        dtype="float32",
        enable_prefix_caching=False,
        disable_log_stats=True,
        **given,
    )


def generated(llm: Any) -> list[Any]:
    """Tokens and logprobs of two requests."""
    from vllm import SamplingParams

    params = SamplingParams(
        temperature=0.0, max_tokens=12, logprobs=1, detokenize=False, ignore_eos=True
    )
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in PROMPTS], params, use_tqdm=False)
    return [
        [
            list(one.outputs[0].token_ids),
            [
                step[token].logprob
                for token, step in zip(
                    one.outputs[0].token_ids, one.outputs[0].logprobs, strict=True
                )
            ],
        ]
        for one in outputs
    ]


def run(folder: Path, setting: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(setting.get("environment", {}))
    began = time.perf_counter()
    try:
        llm = start(folder, **setting.get("arguments", {}))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    answer: dict[str, Any] = {"seconds": time.perf_counter() - began}
    cache = llm.llm_engine.vllm_config.cache_config
    answer["blocks"] = cache.num_gpu_blocks
    core = getattr(llm.llm_engine.engine_core, "engine_core", None)
    if core is not None:
        answer["groups"] = [
            len(g.layer_names) for g in core.scheduler.kv_cache_config.kv_cache_groups
        ]
    if setting.get("generate", True):
        answer["generated"] = generated(llm)
    return answer


def main() -> None:
    folder = Path(sys.argv[1])
    write_model(folder)
    answers = [run(folder, json.loads(text)) for text in sys.argv[2:]]
    print()
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
