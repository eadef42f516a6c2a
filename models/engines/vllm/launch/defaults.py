"""What vLLM derives when a launch does not say it: a rule each, with its versions and source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture, Attention, Latent
from kvplan.models.engines.vllm.launch.attention_config import attention_backend
from kvplan.models.engines.vllm.launch.speculation import Speculation
from kvplan.models.engines.vllm.launch.versions import Version

GIB = 2**30
HUGE_CARD_BYTES, LARGE_CARD_BYTES = 160 * GIB, 70 * GIB


@dataclass(frozen=True)
class Derived:
    """A value that a flag would set, and why it is what it is.

    Attributes
    ----------
    given : whether the flag itself said so.
    """

    flag: str
    value: Any
    reason: str
    given: bool = False

    @property
    def line(self) -> str:
        """As the output lists it."""
        return f"{self.flag}: {self.value} ({self.reason})"


def utilization(settings: Mapping[str, Any], version: Version) -> Derived:
    """--gpu-memory-utilization: 0.9, from 0.20 on 0.92 (vllm/config/cache.py)."""
    flag, given = "--gpu-memory-utilization", settings["gpu_memory_utilization"]
    if given is not None:
        return Derived(flag, Fraction(given), "given", given=True)
    share = Fraction(92, 100) if version.number >= (0, 20, 0) else Fraction(9, 10)
    return Derived(flag, share, f"default of {version.text}")


def _card(settings: Mapping[str, Any], version: Version) -> tuple[int, int, str]:
    """Step tokens and requests of a server by card (EngineArgs.get_batch_defaults).

    160 GiB and more, from 0.28 on: 16,384 and 1,024; 70 GiB and more, no A100: 8,192 and 1,024;
    others: 2,048 and 256. Without a card the second is assumed.
    """
    total = settings.get("total_bytes")
    name = str(settings.get("gpu") or "").lower()
    if total is None:
        return 8192, 1024, "no --gpu: a card of 70 GiB and more, no A100"
    if total >= HUGE_CARD_BYTES and version.number >= (0, 28, 0):
        return 16384, 1024, "a card of 160 GiB and more, from 0.28"
    if total >= LARGE_CARD_BYTES and "a100" not in name:
        return 8192, 1024, "a card of 70 GiB and more"
    small = "an A100" if total >= LARGE_CARD_BYTES else "a card below 70 GiB"
    return 2048, 256, small


def _factor(settings: Mapping[str, Any]) -> int:
    """--performance-mode throughput doubles what a launch does not say."""
    return 2 if settings["performance_mode"] == "throughput" else 1


def step_tokens(
    settings: Mapping[str, Any], version: Version, length_tokens: int | None = None
) -> Derived:
    """--max-num-batched-tokens: by card, at most max_num_seqs x max_model_len.

    Without chunked prefill at least one whole request (vllm/engine/arg_utils.py).
    """
    flag, given = "--max-num-batched-tokens", settings["max_num_batched_tokens"]
    if given is not None:
        return Derived(flag, max(1, int(given)), "given", given=True)
    tokens, sequences, reason = _card(settings, version)
    tokens, sequences = tokens * _factor(settings), sequences * _factor(settings)
    if length_tokens is not None:
        if settings["enable_chunked_prefill"] is False:
            tokens = max(tokens, length_tokens)
        tokens = min(tokens, int(settings["max_num_seqs"] or sequences) * length_tokens)
    return Derived(flag, max(1, tokens), reason)


def sequences(settings: Mapping[str, Any], version: Version) -> Derived:
    """--max-num-seqs: by card, at most --max-num-batched-tokens (vllm/engine/arg_utils.py)."""
    flag, given = "--max-num-seqs", settings["max_num_seqs"]
    if given is not None:
        return Derived(flag, int(given), "given", given=True)
    _, most, reason = _card(settings, version)
    most *= _factor(settings)
    step = settings["max_num_batched_tokens"]
    if step is not None and int(step) < most:
        return Derived(flag, max(1, int(step)), "at most --max-num-batched-tokens")
    return Derived(flag, most, reason)


def draft_kv_dtype(target: str, draft: Speculation, *, patched: bool = False) -> Derived:
    """KV dtype of a draft: --kv-cache-dtype, unless the JSON's kv_cache_dtype says another.

    patched : 1Cat-vLLM keeps a separate draft in the dtype of its weights.
    """
    flag = "draft's KV dtype"
    if draft.kv_dtype is not None:
        return Derived(flag, draft.kv_dtype, "given", given=True)
    if patched and draft.dtype:
        return Derived(flag, draft.dtype, "patched build: that of its weights")
    return Derived(flag, target, "--kv-cache-dtype holds for the draft")


BACKEND_BLOCKS = {
    "FLASHMLA": 64,
    "CUTLASS_MLA": 128,
    "FLASHINFER_MLA": 32,
    "TOKENSPEED_MLA": 32,
    "FLASHMLA_SPARSE": 64,
    "FLASHINFER_MLA_SPARSE": 64,
}
"""Least tokens of a block that a kernel takes, where 16 are too few."""
_HOPPER, _BLACKWELL = ("h100", "h200", "h20", "h800"), ("b200", "b300", "gb200", "gb300")


def kernel_block(settings: Mapping[str, Any], architecture: Architecture) -> Derived:
    """Tokens of a block: 16, or the least that the attention backend takes.

    MLA: FlashInfer's on Blackwell takes 32; on Hopper FlashAttention's takes 16, and FlashMLA's for
    fp8 64; a sparse indexer 64 (vllm/platforms/cuda.py, _get_backend_priorities). MiniMax-M3's
    sparse layers take 128 (vllm/models/minimax_m3/common/sparse_attention.py).
    """
    attends = [layer for layer in architecture.layers if isinstance(layer, Attention)]
    if any(layer.index_dim for layer in attends):
        return Derived("--block-size", 128, "sparse attention by blocks of 128 tokens")
    layers = [layer for layer in architecture.layers if isinstance(layer, Latent)]
    latent, sparse = bool(layers), any(layer.index_dim for layer in layers)
    flag, backend = "--attention-backend", attention_backend(settings)
    if backend is not None:
        return Derived(flag, BACKEND_BLOCKS.get(backend, 16), "given", given=True)
    name = str(settings.get("gpu") or "").lower()
    if sparse:
        return Derived(flag, 64, "sparse MLA: blocks of 64 tokens")
    if latent and name.startswith(_BLACKWELL):
        return Derived(flag, 32, "FLASHINFER_MLA on Blackwell: blocks of 32 tokens")
    if latent and name.startswith(_HOPPER) and settings["kv_cache_dtype"].startswith("fp8"):
        return Derived(flag, 64, "FLASHMLA on Hopper with an fp8 cache: blocks of 64 tokens")
    if latent and not name:
        return Derived(flag, 16, "no --gpu: a kernel that takes blocks of 16 tokens")
    return Derived(flag, 16, "blocks of 16 tokens")


def kv_dtype(settings: Mapping[str, Any], architecture: Architecture) -> Derived:
    """--kv-cache-dtype auto: what the checkpoint's quantization says, else the weights' dtype.

    (vllm/utils/torch_utils.py, resolve_kv_cache_dtype_string.)
    """
    flag, given = "--kv-cache-dtype", str(settings["kv_cache_dtype"])
    if given != "auto":
        return Derived(flag, given, "given", given=True)
    if architecture.kv_dtype:
        return Derived(flag, architecture.kv_dtype, "the checkpoint's quantization_config")
    return Derived(flag, "auto", "that of the weights")
