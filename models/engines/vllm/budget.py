"""What is left for the cache: vllm/v1/worker/gpu_worker.py.

    available = total x utilization - weights - activation peak - non-torch - graphs

The graph estimate is charged from 0.21 on. What was not measured is estimated, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.defaults import sequences, step_tokens, utilization
from kvplan.models.engines.vllm.versions import Version, version_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.ranks import Rank

ESTIMATED = " (estimated)"
GIB = 2**30
LOGIT_BYTES, HIDDEN_BYTES = 15, 8
"""Of a logit of each sequence, and of a hidden element of each batched token: fitted to 30
start-ups of vLLM 0.19 on H100 (llm-d-incubation/llm-d-planner#205), within 0.5 GiB of each."""
NON_TORCH = {1: GIB // 4, 2: 21 * GIB // 10}
GRAPHS = GIB


def rank_budget(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> dict[str, Any]:
    """Quota or memory section of a rank; all ranks alike.

    Raises
    ------
    InvalidProblem : nothing says how many bytes there are.
    """
    if settings["kv_cache_memory_bytes"] is not None:
        return {"quota": int(settings["kv_cache_memory_bytes"])}
    total, weights = settings.get("total_bytes"), settings.get("weights_bytes")
    if total is None or weights is None:
        expected = "--available or --kv-cache-memory-bytes, or --gpu and --weights-gib"
        raise InvalidProblem.at("--engine vllm", expected, "no budget")
    memory: dict[str, Any] = {"total": total, "utilization": utilization(settings, version).value}
    other: dict[str, int] = {}
    if settings["activation"] is None:
        other = {"weights": weights}
        other["activation" + ESTIMATED] = activation_estimate(architecture, settings)
    else:
        memory["peak_torch"] = weights + settings["activation"]
    if settings["non_torch"] is None:
        other["non-torch" + ESTIMATED] = non_torch_estimate(settings)
    else:
        memory["non_torch"] = settings["non_torch"]
    if version.charges_graphs and settings["graphs"] is None:
        other["graphs" + ESTIMATED] = GRAPHS
    elif version.charges_graphs:
        memory["graphs"] = settings["graphs"]
    return {"memory": {**memory, "other": other} if other else memory}


def activation_estimate(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """15 B x vocabulary x sequences + 8 B x hidden x batched tokens."""
    version = version_of(settings["engine_version"])
    logits = LOGIT_BYTES * architecture.vocabulary * sequences(settings, version).value
    step = step_tokens(settings, version).value
    return int(logits + HIDDEN_BYTES * architecture.hidden_dim * step)


def non_torch_estimate(settings: Mapping[str, Any]) -> int:
    """0.25 GiB; 2.1 GiB with tensor parallelism (NCCL)."""
    return NON_TORCH[1 if int(settings["tensor_parallel_size"]) <= 1 else 2]


def quota_of(budget: dict[str, Any]) -> int:
    """Bytes of a quota or memory section."""
    return Rank.model_validate({"name": "any", **budget}).quota_bytes


def estimated_terms(budget: dict[str, Any], settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Terms of a memory section that nobody measured, the card's total included."""
    if "memory" not in budget:
        return ()
    terms = [name for name in budget["memory"].get("other", {}) if name.endswith(ESTIMATED)]
    total = ["total"] if settings.get("total_is_estimated") else []
    return (*total, *(term.removesuffix(ESTIMATED) for term in terms))
