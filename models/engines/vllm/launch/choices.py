"""What a deployer of vLLM may change, tried one by one: each as the flags to paste."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines import alternatives
from kvplan.models.engines.alternatives import on_more_ranks, variant
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.vllm.figures import printed_tokens
from kvplan.models.engines.vllm.launch.defaults import kv_dtype, sequences, utilization
from kvplan.models.engines.vllm.launch.flags import FLAGS
from kvplan.models.engines.vllm.launch.server import Server, server_of
from kvplan.models.engines.vllm.pool_problem import BATCH, REQUEST, blocks_of_request
from kvplan.models.engines.vllm.refusals import largest_requests
from kvplan.models.errors import InvalidProblem
from kvplan.models.problem import Problem

SHARES = (Fraction(95, 100), Fraction(98, 100))
LEAST_STEP = 1024


def laid_over(settings: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Settings with some of them changed, as if they had been given."""
    return alternatives.laid_over(FLAGS, settings, changes)


def labels(server: Server) -> dict[str, str]:
    """Fields that a remedy changes, by the flags that change them."""
    request = f"batches.{BATCH}.requests.{REQUEST}"
    found = {f"{request}.capacity": "--max-model-len", f"{request}.fit": "--max-model-len auto"}
    measured = [worker.name for worker in server.workers if "memory" in worker.budget]
    ranks = [*measured, "*"] if measured else []
    share = "--gpu-memory-utilization"
    return found | {f"ranks.{name}.memory.utilization": share for name in ranks}


def variants(
    architecture: Architecture, settings: Mapping[str, Any], server: Server, problem: Problem
) -> list[dict[str, Any]]:
    """List the variants that change something and that vLLM takes."""
    found = []
    for flags, changes in _choices(architecture, settings, server):
        try:
            other = server_of(architecture, laid_over(settings, changes))
        except InvalidProblem:
            continue
        entry = variant(flags, problem, other.problem(problem.name), _tokens(other))
        if entry is not None:
            found.append(entry)
    return found


def _choices(
    architecture: Architecture, settings: Mapping[str, Any], server: Server
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Flags with the settings that they give, those that cost least first."""
    version = server.serving.version
    for share in SHARES:
        if utilization(settings, version).value < share:
            changes = {"gpu_memory_utilization": share}
            yield f"--gpu-memory-utilization {float(share)}", changes
    yield "--no-enable-prefix-caching", {"enable_prefix_caching": False}
    fewer = _fewer_requests(architecture, settings, server)
    if fewer:
        yield f"--max-num-seqs {fewer}", {"max_num_seqs": fewer}
    step = server.serving.batch_tokens // 2
    while step >= max(LEAST_STEP, sequences(settings, version).value):
        yield f"--max-num-batched-tokens {step}", {"max_num_batched_tokens": step}
        step //= 2
    yield "--enforce-eager", {"enforce_eager": True}
    if kv_dtype(settings, architecture).value in ("auto", "bfloat16", "float16"):
        yield "--kv-cache-dtype fp8", {"kv_cache_dtype": "fp8"}
    yield from on_more_ranks(settings, "--tensor-parallel-size", "tensor_parallel_size")


def _fewer_requests(architecture: Architecture, settings: Mapping[str, Any], server: Server) -> int:
    """The most requests that find a state each, where those asked for do not; else 0."""
    if server.state_requests <= server.block_count:
        return 0

    def blocks_with(requests: int) -> int:
        return server_of(architecture, laid_over(settings, {"max_num_seqs": requests})).block_count

    return largest_requests(server.state_requests, blocks_with)


def _tokens(server: Server) -> str:
    """The token line of a server where its longest request fits; else nothing."""
    serving, blocks = server.serving, server.block_count
    null = 1 if serving.version.charges_null_block else 0
    if blocks_of_request(server.layout, serving, serving.length_tokens) > blocks - null:
        return ""
    return f"{printed_tokens(server.layout, serving, blocks, serving.length_tokens):,} tokens"
