"""What is left for the cache: vllm/v1/worker/gpu_worker.py.

    available = total x utilization - weights - activation peak - non-torch - graphs

The graph estimate is charged from 0.21 on. What was not measured is estimated, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.estimates import Estimate, at_least, kept_estimate, total_estimate
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.missing import no_budget
from kvplan.models.engines.vllm.graphs import captures, charges_graphs
from kvplan.models.engines.vllm.launch.defaults import sequences, step_tokens, utilization
from kvplan.models.engines.vllm.launch.versions import Version, version_of
from kvplan.models.ranks import Rank

ESTIMATED = " (estimated)"
ACTIVATION = "activation"
GIB = 2**30
LOGIT_BYTES, HIDDEN_BYTES = 15, 8
"""Of a logit of each sequence, and of a hidden element of each batched token: fitted to 30
start-ups of vLLM 0.19 on H100 (llm-d-incubation/llm-d-planner#205), within 0.5 GiB of each."""
NON_TORCH = {1: GIB // 4, 2: 21 * GIB // 10}
NON_TORCH_RANGE = {
    1: (7 * GIB // 100, 46 * GIB // 100),
    2: (206 * GIB // 100, 221 * GIB // 100),
}
GRAPHS = GIB


def estimates(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> tuple[Estimate, ...]:
    """Terms of the budget that nobody measured, the card's total included.

    Ranges: a total by drivers of one card (0.3 GiB); activation and non-torch as 61 start-ups of
    0.19 on H100 logged them (llm-d-planner#205); graphs from 62 MiB (vllm#57475), at most 2.5 GiB
    by judgement.
    """
    measured = settings["available"] or settings["kv_cache_memory_bytes"] is not None
    if measured or settings.get("total_bytes") is None or settings.get("weights_bytes") is None:
        return ()
    share = utilization(settings, version).value
    found = [*total_estimate(settings), *kept_estimate(settings, share)]
    if settings["activation"] is None:
        peak = activation_estimate(architecture, settings)
        said = _activation(architecture.vocabulary, architecture.hidden_dim, settings)
        least = max(said - GIB // 2, 0)
        found.append(Estimate(ACTIVATION, "--activation", peak, least, peak + GIB // 2))
    if settings["non_torch"] is None:
        least, most = NON_TORCH_RANGE[1 if int(settings["tensor_parallel_size"]) <= 1 else 2]
        outside = non_torch_estimate(settings)
        found.append(Estimate("non-torch", "--non-torch", outside, least, most))
    charged = charges_graphs(settings, version) and captures(settings) != "none"
    if settings["graphs"] is None and charged:
        found.append(Estimate("graphs", "--graphs", GRAPHS, GIB // 16, 5 * GIB // 2))
    return tuple(found)


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
        raise no_budget("vllm", expected, settings)
    memory: dict[str, Any] = {"total": total, "utilization": utilization(settings, version).value}
    found = estimates(architecture, settings, version)
    guessed = {one.term: one.bytes for one in found}
    if found:
        memory["ranges"] = {_term(one): one.spread for one in found}
    if "total" in guessed:
        memory["estimated"] = ["total"]
        del guessed["total"]
    other = {f"{term}{ESTIMATED}": count for term, count in guessed.items()}
    if settings["activation"] is None:
        other = {"weights": weights, **other}
    else:
        memory["peak_torch"] = weights + settings["activation"]
    if settings["non_torch"] is not None:
        memory["non_torch"] = settings["non_torch"]
    if settings["graphs"] is not None and charges_graphs(settings, version):
        memory["graphs"] = settings["graphs"]
    return {"memory": {**memory, "other": other} if other else memory}


def _term(estimate: Estimate) -> str:
    """Name of a term in the memory section."""
    return estimate.term if estimate.term == "total" else f"{estimate.term}{ESTIMATED}"


def activation_estimate(architecture: Architecture, settings: Mapping[str, Any]) -> int:
    """15 B x vocabulary x sequences + 8 B x hidden x batched tokens.

    A width that the config lacks counts as the largest of common models.
    """
    widths = at_least(architecture, "vocabulary"), at_least(architecture, "hidden_dim")
    return _activation(*widths, settings)


def _activation(vocabulary: int, hidden_dim: int, settings: Mapping[str, Any]) -> int:
    version = version_of(settings["engine_version"])
    logits = LOGIT_BYTES * vocabulary * sequences(settings, version).value
    return int(logits + HIDDEN_BYTES * hidden_dim * step_tokens(settings, version).value)


def non_torch_estimate(settings: Mapping[str, Any]) -> int:
    """0.25 GiB; 2.1 GiB with tensor parallelism (NCCL)."""
    return NON_TORCH[1 if int(settings["tensor_parallel_size"]) <= 1 else 2]


def quota_of(budget: dict[str, Any]) -> int:
    """Bytes of a quota or memory section."""
    return Rank.model_validate({"name": "any", **budget}).quota_bytes
