"""Cases of SGLang's own pool-sizing code (tests/cases/sglang.json) as models and flags."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan.models.engines.layers import Architecture, Attention, Latent, Layer, Recurrent
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS
from kvplan.models.reading.loader import load_data

Case = dict[str, Any]
_FILE = load_data(Path(__file__).parents[1] / "cases" / "sglang.json")
CASES: dict[str, Case] = {case["id"]: case for case in _FILE["cases"]}
DTYPES = {"bfloat16": "bf16", "float8_e4m3fn": "fp8_e4m3"}


def settings_of(case: Case, **changes: Any) -> Settings:
    """Flags of a case; `changes` are laid over them."""
    given: dict[str, Any] = dict(case["schedule"])
    given |= {"tp_size": case["tp"], "page_size": case["page_size"]}
    given |= {"context_length": case["context_len"], "kv_cache_dtype": DTYPES[case["dtype"]]}
    given["available"] = int(budget_of(case))
    given["disable_radix_cache"] = case.get("disable_radix_cache", False)
    if case.get("mamba_extra_buffer"):
        given["mamba_radix_cache_strategy"] = "extra_buffer"
    spec = case.get("spec")
    if spec:
        given["speculative_algorithm"] = spec["algorithm"]
        given["speculative_num_steps"] = spec["steps"]
        given["speculative_eagle_topk"] = spec["topk"]
        given["speculative_num_draft_tokens"] = spec["draft_tokens"]
        given["speculative_draft_layers"] = spec["draft_layers"]
    for ratio in ("swa_full_tokens_ratio", "mamba_full_memory_ratio"):
        if ratio in given:
            given[ratio] = Fraction(given[ratio])
    return Settings(FLAGS, given | changes)


def budget_of(case: Case) -> Fraction:
    """Bytes for all pools."""
    if "rest_gib" in case:
        return Fraction(case["rest_gib"]) * 2**30
    return Fraction(case["budget_bytes"])


def architecture_of(case: Case) -> Architecture:
    """Layers of a case."""
    layers = [*_token_layers(case)]
    if "state" in case:
        layers += _state_layers(case["state"], case["tp"], len(layers))
    name = case.get("architecture", "GptOssForCausalLM" if case["kind"] == "swa" else "Any")
    return Architecture(
        name=name,
        model_type="",
        dtype="bfloat16",
        layers=tuple(layers),
        total_layers=len(layers),
        max_positions=case["context_len"],
    )


def _token_layers(case: Case) -> list[Layer]:
    if case["kind"] == "mla":
        shape = case["kv_lora_rank"], case["qk_rope_head_dim"], case.get("index_head_dim", 0)
        return [Latent(index, *shape) for index in range(case["layers"])]
    full = case["heads"], case["head_dim"], case["head_dim"]
    if case["kind"] == "mha":
        return [Attention(index, "full", *full) for index in range(case["layers"])]
    dim = case.get("swa_head_dim", case["head_dim"])
    window = case.get("swa_heads", case["heads"]), dim, dim, case["window"]
    count = case["layers"]["full"]
    return [Attention(index, "full", *full) for index in range(count)] + [
        Attention(index, "window", *window) for index in range(count, count + case["layers"]["swa"])
    ]


def _state_layers(state: Case, ranks: int, first: int) -> list[Layer]:
    """State layers; the case has the shapes of one rank, a layer those of the model."""
    (channels, taps), (heads, dim, inner) = state["conv"][0], state["temporal"]
    return [
        Recurrent(
            index=first + index,
            recurrence="gdn",
            heads=heads * ranks,
            head_dim=dim,
            state_dim=inner,
            groups=ranks,
            conv_kernel=taps + 1,
            conv_channels=channels * ranks,
            state_dtype=state["temporal_dtype"],
        )
        for index in range(state["layers"])
    ]
