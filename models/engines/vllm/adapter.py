"""The adapter of vLLM: a model and flags -> the problem, and vLLM's printed figures from a plan."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.estimates import titled
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.budget import estimates
from kvplan.models.engines.vllm.figures import concurrency, gib, printed_tokens
from kvplan.models.engines.vllm.launch.choices import labels, laid_over, variants
from kvplan.models.engines.vllm.launch.server import Server, server_of
from kvplan.models.engines.vllm.max_model_len import check_length
from kvplan.models.engines.vllm.pool_problem import POOL, longest_length
from kvplan.models.engines.vllm.refusals import STATES, largest_requests, refused
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what vLLM would do, to the block.

    Raises
    ------
    InvalidProblem : what vLLM refuses before it measures anything.
    """
    check_length(architecture, settings)
    server = server_of(architecture, settings)
    name = f"{architecture.name} on vLLM {server.serving.version.text}"
    guessed = estimates(architecture, settings, server.serving.version)
    problem = server.problem(titled(name, guessed))
    found = variants(architecture, settings, server, problem)
    more: dict[str, Any] = {"labels": labels(server), **({"variants": found} if found else {})}
    return Problem.model_validate({**problem.model_dump(mode="json", exclude_unset=True), **more})


def figures(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> dict[str, str]:
    """What vLLM prints, by the words of its log."""
    return printed(server_of(architecture, settings), plan)


def printed(server: Server, plan: Plan) -> dict[str, str]:
    """What a server prints, from a plan of its problem."""
    layout, serving = server.layout, server.serving
    blocks = plan.blocks[POOL]
    length = served_length(server, plan)
    lines = dict(layout_lines(server))
    lines["Available KV cache memory"] = f"{gib(server.workers[0].quota_bytes)} GiB"
    lines["num_gpu_blocks"] = str(blocks)
    lines["GPU KV cache size"] = f"{printed_tokens(layout, serving, blocks, length):,} tokens"
    label = f"Maximum concurrency for {length:,} tokens per request"
    lines[label] = f"{concurrency(layout, serving, blocks, length):.2f}x"
    if server.auto_fit and length < serving.length_tokens:
        lines["Auto-fit max_model_len"] = f"reduced from {serving.length_tokens} to {length}"
    return lines


def refusal(architecture: Architecture, settings: Mapping[str, Any]) -> dict[str, str]:
    """What vLLM says where it does not start, and the largest setting that does."""
    server = server_of(architecture, settings)
    said = refused(server)
    if not any(label.startswith("max_num_seqs") for label in said):
        return said

    def blocks_with(requests: int) -> int:
        changed = laid_over(settings, {"max_num_seqs": requests})
        return server_of(architecture, changed).block_count

    return said | {STATES: str(largest_requests(server.state_requests, blocks_with))}


def served_length(server: Server, plan: Plan) -> int:
    """max_model_len as the engine holds it: the plan's, unless an override came after the check."""
    late = server.override_blocks is not None and (
        not server.serving.version.override_replaces_memory
    )
    if late and not server.auto_fit:
        return server.serving.length_tokens
    if late:
        return longest_length(server.layout, server.serving, server.workers)
    return plan.requests[0].capacity


def layout_lines(server: Server) -> dict[str, str]:
    """Lines on the layout: block size beside states, padded state pages, padding layers."""
    lines: dict[str, str] = {}
    states = [spec for spec in server.specs if spec.kind == "mamba"]
    attends = [spec for spec in server.specs if spec.kind in ("full", "mla")]
    if states and attends:
        lines["Setting attention block size to"] = f"{attends[0].block_tokens} tokens"
        spare = states[0].page_bytes - states[0].state_bytes
        if states[0].state_bytes:
            lines["Padding mamba page size by"] = _percent(Fraction(spare, states[0].state_bytes))
    if server.layout.padding_layers and not any(spec.fixed_block for spec in server.specs):
        lines["padding layers"] = str(server.layout.padding_layers)
    return lines


def _percent(share: Fraction) -> str:
    hundredths = (share * 10000 + Fraction(1, 2)) // 1
    return f"{hundredths // 100}.{hundredths % 100:02d}%"
