"""SGLang's own configurator, hooks and allocators, with stand-ins for the server around them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import sglang_stubs

sglang_stubs.install()

import torch  # noqa: E402 - after the stubs
from sglang.srt import runtime_context  # noqa: E402

SCHEDULE = SimpleNamespace(
    swa_full_tokens_ratio=0.8,
    mamba_full_memory_ratio=0.9,
    max_mamba_cache_size=None,
    max_running_requests=None,
    max_total_tokens=None,
    chunked_prefill_size=8192,
    disable_overlap_schedule=False,
    page_size=1,
)
PARALLEL = SimpleNamespace(attn_tp_size=1, attn_dcp_size=1, pp_size=1, launch_world_size=1)
MEMORY = SimpleNamespace(
    enable_unified_memory=False, disable_radix_cache=False, enable_hisparse=False
)
MAMBA = SimpleNamespace(
    enable_linear_replayssm_spec=False,
    enable_mamba_extra_buffer=False,
    enable_mamba_extra_buffer_lazy=False,
)
CONTEXT = SimpleNamespace(override=lambda source, **fields: SCHEDULE.__dict__.update(fields))
STANDINS = {
    "get_schedule": SCHEDULE,
    "get_parallel": PARALLEL,
    "get_memory": MEMORY,
    "get_exec": SimpleNamespace(mamba=MAMBA),
    "get_disagg": SimpleNamespace(disaggregation_mode="null", enable_pd_role_switch=False),
    "get_spec": SimpleNamespace(speculative_algorithm=None, speculative_num_draft_tokens=None),
    "get_context": CONTEXT,
}
for name, value in STANDINS.items():
    setattr(runtime_context, name, lambda value=value: value)

from sglang.srt.configs.model_config import AttentionArch  # noqa: E402
from sglang.srt.mem_cache.allocator.mamba import MambaSlotAllocator  # noqa: E402
from sglang.srt.mem_cache.allocator.swa import SWATokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator  # noqa: E402
from sglang.srt.mem_cache.base_swa_memory_pool import BaseSWAKVPool  # noqa: E402
from sglang.srt.mem_cache.kv_cache_configurator import KVCacheConfigurator  # noqa: E402
from sglang.srt.speculative.spec_info import SpeculativeAlgorithm  # noqa: E402

CONTEXT_LENGTH = 131072


class NoPool(BaseSWAKVPool):
    """A KV pool without memory: allocators only ask it for the mapping."""

    def __init__(self) -> None:
        self.full_to_swa_index_mapping: Any = None

    def register_mapping(self, full_to_swa_index_mapping: Any) -> None:
        self.full_to_swa_index_mapping = full_to_swa_index_mapping

    def translate_loc_from_full_to_swa(self, kv_indices: Any) -> Any:
        return self.full_to_swa_index_mapping[kv_indices]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


NoPool.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


def configurator(**fields: Any) -> KVCacheConfigurator:
    """A KVCacheConfigurator with what its planning part reads."""
    made = object.__new__(KVCacheConfigurator)
    known = {
        "attn_dp_size": 1,
        "pp_size": 1,
        "page_size": 1,
        "kv_cache_dtype": torch.bfloat16,
        "kv_cache_dtype_str": "auto",
        "spec_algorithm": SpeculativeAlgorithm.NONE,
        "is_draft_worker": False,
        "is_hybrid_swa": False,
        "sliding_window_size": None,
        "spec_aux_config": SimpleNamespace(),
        "mambaish_config": None,
        "hybrid_gdn_config": None,
        "hybrid_kda_config": None,
        "extra_mamba_cache_bytes_per_req": 0,
        "kv_shard_spec": None,
        "use_mla_backend": False,
        **fields,
    }
    for name, value in known.items():
        setattr(made, name, value)
    return made


def window_model(
    full: int, windows: int, heads: tuple[int, int], dims: tuple[int, int], window: int
) -> Any:
    """Layers and KV heads of (full, window) layers, dimensions of keys and values."""
    model = SimpleNamespace(
        attention_arch=AttentionArch.MHA,
        hf_config=SimpleNamespace(architectures=["Other"]),
        context_len=CONTEXT_LENGTH,
        head_dim=dims[0],
        v_head_dim=dims[1],
        swa_head_dim=dims[0],
        swa_v_head_dim=dims[1],
        get_num_kv_heads=lambda tp: heads[0],
        get_swa_num_kv_heads=lambda tp: heads[1],
    )
    layers = SimpleNamespace(
        full_attention_layer_ids=list(range(full)),
        swa_attention_layer_ids=list(range(full, full + windows)),
    )
    return configurator(
        model_config=model, layer_info=layers, is_hybrid_swa=True, sliding_window_size=window
    )


class Windows:
    """SGLang's allocator of full and window tokens."""

    def __init__(self, config: Any, window: int) -> None:
        self.pool = SWATokenToKVPoolAllocator(
            config.full_max_total_num_tokens,
            config.swa_max_total_num_tokens,
            1,
            torch.bfloat16,
            "cpu",
            NoPool(),
            need_sort=False,
        )
        self.window = window

    def fits(self, prompt: int, output: int, promised: int) -> bool:
        """The admission rule: all tokens of the full pool, a window and a page of the other."""
        head = min(prompt + output, self.window) + 1
        return (
            prompt + output + promised <= self.pool.full_available_size()
            and head <= self.pool.swa_available_size()
        )

    def room(self) -> int:
        return int(self.pool.swa_available_size())

    def take(self, count: int) -> Any:
        return self.pool.alloc(count)

    def slide(self, tokens: Any, freed: int, length: int) -> int:
        """Free what lies before the window of the next token; the new count of freed tokens."""
        dead = max(freed, length - self.window)
        if dead > freed:
            self.pool.free_swa(tokens[freed:dead])
        return dead

    def give(self, tokens: Any, freed: int) -> None:
        self.pool.free_full(tokens[:freed])
        self.pool.free(tokens[freed:])

    def admit(self) -> Any:
        return None


class States:
    """SGLang's allocators of tokens and state slots."""

    def __init__(self, tokens: int, slots: int, ratio: int) -> None:
        self.pool = TokenToKVPoolAllocator(tokens, torch.bfloat16, "cpu", None, need_sort=False)
        self.slots, self.ratio = MambaSlotAllocator(slots, "cpu"), ratio

    def fits(self, prompt: int, output: int, promised: int) -> bool:
        return (
            prompt + output + promised <= self.pool.available_size()
            and self.slots.available_size() >= self.ratio
        )

    def room(self) -> int:
        return int(self.pool.available_size())

    def take(self, count: int) -> Any:
        return self.pool.alloc(count)

    def slide(self, tokens: Any, freed: int, length: int) -> int:
        return 0

    def give(self, tokens: Any, held: Any) -> None:
        self.pool.free(tokens)
        self.slots.free(held)

    def admit(self) -> Any:
        return self.slots.alloc(self.ratio)
