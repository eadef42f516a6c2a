"""What a launch left to vLLM, or to an estimate: one line each, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.models.engines.estimates import Estimate, missing_lines
from kvplan.models.engines.layers import (
    Architecture,
    Attention,
    Compressed,
    Cross,
    Latent,
    Layer,
    Recurrent,
)
from kvplan.models.engines.vllm.budget import ACTIVATION, estimates
from kvplan.models.engines.vllm.launch.attention_config import attention_backend
from kvplan.models.engines.vllm.launch.defaults import (
    Derived,
    draft_kv_dtype,
    kernel_block,
    kv_dtype,
    sequences,
    step_tokens,
    utilization,
)
from kvplan.models.engines.vllm.launch.model_dtype import model_dtype
from kvplan.models.engines.vllm.launch.retired import retired_text
from kvplan.models.engines.vllm.launch.runner import async_scheduling, batches_in_flight, v2_runner
from kvplan.models.engines.vllm.launch.speculation import Speculation, speculation
from kvplan.models.engines.vllm.launch.state_defaults import prefix_caching, state_dtype, state_mode
from kvplan.models.engines.vllm.launch.versions import NEWEST, Version, version_of
from kvplan.models.engines.vllm.max_model_len import length_lines, length_tokens
from kvplan.models.units import human_bytes


def assumptions(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """List what was derived and matters for this model, then what was estimated."""
    version = version_of(settings["engine_version"])
    draft = speculation(architecture, settings)
    derived = [
        *_general(architecture, settings, version),
        *_batches(architecture, settings, version, draft),
        *_states(architecture, settings, version, draft),
        *_drafts(architecture, settings, draft),
    ]
    lines = [one.line for one in derived if not one.given]
    found = estimates(architecture, settings, version)
    missing = missing_lines(architecture, found, ACTIVATION)
    kept = _kept_lines(settings, found)
    return (*lines, *missing, *kept, *(estimate.line for estimate in found))


def _kept_lines(settings: Mapping[str, Any], found: Sequence[Estimate]) -> Iterator[str]:
    """Say what one memory for GPU and host leaves: the utilization must be free at the start."""
    kept, total = settings.get("kept"), settings.get("total_bytes")
    if kept is None or total is None or not found:
        return
    most = (total - kept.bytes) * 100 // total
    yield (
        f"{kept.term}: {human_bytes(kept.bytes)} of {human_bytes(total)} ({kept.spread}); vLLM "
        f"starts where --gpu-memory-utilization x total is free: at most 0.{most:02d}"
    )


def _general(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> Iterator[Derived]:
    if "engine_version" not in getattr(settings, "given", ()):
        newest = ".".join(map(str, NEWEST))
        said = retired_text(architecture, version)
        reason = f"the newest known, {newest}" + (f"; but {said}" if said else "")
        yield Derived("--engine-version", version.text, reason)
    yield from length_lines(architecture, settings, version)
    yield model_dtype(architecture, settings)
    if architecture.kv_dtype:
        yield kv_dtype(settings, architecture)
    keyed = [layer for layer in architecture.target if isinstance(layer, Attention | Latent)]
    latent = any(isinstance(layer, Latent) or layer.index_dim for layer in keyed)
    if any(isinstance(layer, Compressed) for layer in architecture.target):
        dtype = kv_dtype(settings, architecture)
        if dtype.value == "auto" and attention_backend(settings) is None:
            reason = "fp8_ds_mla, the rows of DeepSeek-V4's kernels"
            yield Derived(dtype.flag, "fp8", reason)
    if latent:
        yield kernel_block(settings, architecture)
    if settings.get("total_bytes") is not None and settings["kv_cache_memory_bytes"] is None:
        share = utilization(settings, version)
        yield Derived(share.flag, float(share.value), share.reason, given=share.given)


def _batches(
    architecture: Architecture,
    settings: Mapping[str, Any],
    version: Version,
    draft: Speculation,
) -> Iterator[Derived]:
    """Steps and batches, where a window, a chunk or an estimate depends on them."""
    windows = any(map(_slides, architecture.layers))
    cross = [layer for layer in architecture.layers if isinstance(layer, Cross)]
    estimated = bool(estimates(architecture, settings, version))
    if cross:
        reason = f"a step, not the encoder's {cross[0].tokens} positions, is charged a request"
        step = step_tokens(settings, version, length_tokens(architecture, settings)[0])
        yield Derived("max_num_encoder_input_tokens", step.value, reason)
    if windows or estimated or cross:
        yield step_tokens(settings, version, length_tokens(architecture, settings)[0])
    states = any(isinstance(layer, Recurrent) for layer in architecture.target)
    requests = sequences(settings, version)
    if states and settings.get("total_bytes") is None and not requests.given:
        reason = "no --gpu to derive it from; vLLM refuses more than num_gpu_blocks"
        yield Derived("--max-num-seqs", "not given", reason)
    elif estimated or states:
        yield requests
    if windows and version.flight_counts_batches:
        runner = v2_runner(settings, version, architecture, draft)
        yield runner
        yield async_scheduling(settings, draft, v2=runner.value)
        yield batches_in_flight(settings, version, architecture, draft)


def _slides(layer: Layer) -> bool:
    return isinstance(layer, Compressed) or (isinstance(layer, Attention) and layer.reach != "full")


def _states(
    architecture: Architecture,
    settings: Mapping[str, Any],
    version: Version,
    draft: Speculation,
) -> Iterator[Derived]:
    states = [layer for layer in architecture.target if isinstance(layer, Recurrent)]
    if not states:
        return
    yield prefix_caching(settings, version, architecture)
    mode = state_mode(settings, version, architecture, draft)
    yield mode
    dtype = state_dtype(settings, version, architecture, states[0])
    if dtype.value:
        yield dtype
    newer = version.number >= (0, 33, 0) and mode.value == "align"
    exports = any(layer.recurrence in ("mamba2", "kda") for layer in states)
    if newer and exports and not settings["prefill_checkpoint_blocks"]:
        reason = "0.33 may keep 1 a request where its kernels export checkpoints"
        yield Derived("--prefill-checkpoint-blocks", 0, reason)


def _drafts(
    architecture: Architecture, settings: Mapping[str, Any], draft: Speculation
) -> Iterator[Derived]:
    target = str(kv_dtype(settings, architecture).value)
    if draft.dtype and target != "auto":
        patched = bool(settings["group_layers"] or settings["compact_draft_pages"])
        yield draft_kv_dtype(target, draft, patched=patched)
