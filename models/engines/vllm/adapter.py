"""The adapter of vLLM: a model and flags -> the problem, and vLLM's printed figures from a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.budget import estimated_terms, quota_of, rank_budget
from kvplan.models.engines.vllm.figures import concurrency, gib, printed_tokens
from kvplan.models.engines.vllm.grouping import layout_of
from kvplan.models.engines.vllm.layout import Layout, Serving, stages_of
from kvplan.models.engines.vllm.pages import specs_of
from kvplan.models.engines.vllm.problem import (
    POOL,
    Worker,
    blocks_of_request,
    longest_length,
    overridden,
    problem_of,
)
from kvplan.models.engines.vllm.serving import length_tokens, serving_of
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem


@dataclass(frozen=True)
class Server:
    """Everything that the flags resolve to.

    Attributes
    ----------
    auto_fit : the length may shrink to what fits.
    override_blocks : --num-gpu-blocks-override.
    """

    serving: Serving
    specs: tuple[Spec, ...]
    layout: Layout
    workers: tuple[Worker, ...]
    auto_fit: bool
    override_blocks: int | None

    def problem(self, name: str = "") -> Problem:
        """Make the problem."""
        return problem_of(
            self.layout,
            self.serving,
            self.workers,
            name=name,
            auto_fit=self.auto_fit,
            override_blocks=self.override_blocks,
        )


def server_of(architecture: Architecture, settings: Mapping[str, Any]) -> Server:
    """Resolve flags and layers.

    Raises
    ------
    InvalidProblem : what this version of vLLM would refuse, or flags that do not fit the model.
    """
    serving = serving_of(architecture, settings)
    specs, counts = specs_of(architecture, settings, serving)
    if not specs:
        raise InvalidProblem.at("--engine vllm", "a model with layers that keep something", "none")
    if serving.context_shards > 1 and any(spec.kind in ("window", "chunked") for spec in specs):
        expected = "1 with sliding windows (vLLM asserts it)"
        raise InvalidProblem.at(
            "--decode-context-parallel-size", expected, str(serving.context_shards)
        )
    layout = layout_of(specs, serving, stages_of(counts))
    return Server(
        serving=serving,
        specs=tuple(specs),
        layout=layout,
        workers=_workers(architecture, settings, serving),
        auto_fit=length_tokens(architecture, settings)[1],
        override_blocks=settings["num_gpu_blocks_override"],
    )


def _workers(
    architecture: Architecture, settings: Mapping[str, Any], serving: Serving
) -> tuple[Worker, ...]:
    """Ranks by stage, alike within one; with several --available figures one rank for each."""
    stages = max(1, int(settings["pipeline_parallel_size"]))
    given = settings["available"]
    budgets: list[dict[str, Any]]
    if given:
        budgets = [{"quota": int(quota)} for quota in given]
    else:
        budgets = [rank_budget(architecture, settings, serving.version)]
    if len(budgets) == 1:
        budgets *= stages
    each, left = divmod(len(budgets), stages)
    if left:
        expected = f"one figure, or as many for each of {stages} stages"
        raise InvalidProblem.at("--available", expected, str(len(budgets)))
    return tuple(
        Worker(
            f"gpu{index}" if len(budgets) > 1 else "gpu", index // each, budget, quota_of(budget)
        )
        for index, budget in enumerate(budgets)
    )


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what vLLM would do, to the block."""
    server = server_of(architecture, settings)
    name = f"{architecture.name} on vLLM {server.serving.version.text}"
    guessed = estimated_terms(server.workers[0].budget, settings)
    return server.problem(f"{name}; estimated: {', '.join(guessed)}" if guessed else name)


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
    """What vLLM says where one request of the length does not fit."""
    return refused(server_of(architecture, settings))


def refused(server: Server) -> dict[str, str]:
    """What a server says where its problem has no plan."""
    layout, serving, workers = server.layout, server.serving, server.workers
    if server.override_blocks is not None and serving.version.override_replaces_memory:
        workers = overridden(layout, workers, server.override_blocks)
    needed = blocks_of_request(layout, serving, serving.length_tokens)
    stage = workers[0].stage
    null = layout.block_bytes(stage) if serving.version.charges_null_block else 0
    if min(worker.quota_bytes for worker in workers) - null <= 0:
        return {"No available memory for the cache blocks": f"{gib(workers[0].quota_bytes)} GiB"}
    if server.auto_fit:
        return {"Cannot auto-fit max_model_len": "not enough memory for a single token"}
    return {
        "max seq len": str(serving.length_tokens),
        "GiB KV cache is needed": gib(needed * layout.block_bytes(stage)),
        "available KV cache memory": f"{gib(workers[0].quota_bytes - null)} GiB",
        "the estimated maximum model length is": str(longest_length(layout, serving, workers)),
    }


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
    if server.layout.padding_layers:
        lines["padding layers"] = str(server.layout.padding_layers)
    return lines


def _percent(share: Fraction) -> str:
    hundredths = (share * 10000 + Fraction(1, 2)) // 1
    return f"{hundredths // 100}.{hundredths % 100:02d}%"
