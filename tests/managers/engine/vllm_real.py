"""vLLM's own configuration, planning, scheduler and block pool, without a model to run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from vllm import SamplingParams
from vllm.engine.arg_utils import EngineArgs
from vllm.v1.core import kv_cache_utils
from vllm.v1.core.sched.scheduler import Scheduler
from vllm.v1.core.single_type_kv_cache_manager import register_all_kvcache_specs
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, SlidingWindowSpec
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 512,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
}


@dataclass
class Layer:
    """Layers of one kind: how many, KV heads, head dimensions, window (0: full)."""

    count: int
    heads: int
    key_dim: int
    value_dim: int
    window: int = 0
    block: int = 16

    def spec(self) -> Any:
        common = {
            "block_size": self.block,
            "num_kv_heads": self.heads,
            "head_size": self.key_dim,
            "head_size_v": self.value_dim,
            "dtype": torch.bfloat16,
        }
        if self.window:
            return SlidingWindowSpec(sliding_window=self.window, **common)
        return FullAttentionSpec(**common)


def specs_of(layers: list[Layer]) -> dict[str, Any]:
    """Layers of the kinds, one after the other."""
    kinds = [layer.spec() for layer in layers for _ in range(layer.count)]
    return {f"model.layers.{index}.self_attn.attn": spec for index, spec in enumerate(kinds)}


def config_of(length: int, step: int, requests: int, **more: Any) -> Any:
    """A VllmConfig for a CPU, with the default layout."""
    folder = Path(mkdtemp())
    (folder / "config.json").write_text(json.dumps(MODEL))
    arguments = EngineArgs(
        model=str(folder),
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=length,
        max_num_batched_tokens=step,
        max_num_seqs=requests,
        enable_prefix_caching=False,
        async_scheduling=False,
        **more,
    )
    config = arguments.create_engine_config()
    config.cache_config.kv_cache_layout = KVCacheLayout.LBNHC.name
    register_all_kvcache_specs(config)
    return config


def planned(config: Any, specs: dict[str, Any], available: int) -> KVCacheConfig:
    """One worker's KV cache as vLLM plans it (with kvplan where it is plugged in)."""
    (made,) = kv_cache_utils.get_kv_cache_configs(config, [specs], [available])
    return made


class Served:
    """The real scheduler, and a model that answers every request with the same token."""

    def __init__(self, config: Any, kv: KVCacheConfig) -> None:
        config.cache_config.num_gpu_blocks = kv.num_blocks
        block, hashed = kv_cache_utils.resolve_kv_cache_block_sizes(kv, config)
        self.scheduler = Scheduler(
            config, kv, StructuredOutputManager(config), block_size=block, hash_block_size=hashed
        )
        self.steps = self.preempted = self.most_running = 0

    @property
    def blocks_held(self) -> int:
        """Blocks that are not free; the null block is always held."""
        pool = self.scheduler.kv_cache_manager.block_pool
        return pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()

    def add(self, name: str, prompt: int, output: int) -> None:
        """Queue one request."""
        params = SamplingParams(max_tokens=output, ignore_eos=True, detokenize=False)
        self.scheduler.add_request(Request(name, [7] * prompt, params, None))

    def step(self) -> bool:
        """Schedule and answer once; whether anything was scheduled."""
        out = self.scheduler.schedule()
        if not out.total_num_scheduled_tokens:
            return False
        names = list(out.num_scheduled_tokens)
        requests = [self.scheduler.requests[name] for name in names]
        sampled = [[7] if r.num_computed_tokens >= r.num_tokens else [] for r in requests]
        self.steps += 1
        self.preempted += len(out.preempted_req_ids or ())
        self.most_running = max(self.most_running, len(names))
        answer = ModelRunnerOutput(names, {n: i for i, n in enumerate(names)}, sampled)
        self.scheduler.update_from_output(out, answer)
        return True
