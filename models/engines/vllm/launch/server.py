"""Everything that flags and layers resolve to: a server, and the problem that it faces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.models.engines.checkpoint.stage_weights import StageWeights, stage_weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.vllm.block_groups import Layout, Serving, stages_of
from kvplan.models.engines.vllm.budget import quota_of, rank_budget
from kvplan.models.engines.vllm.graphs import captures
from kvplan.models.engines.vllm.launch.connectors import check_other_flags
from kvplan.models.engines.vllm.launch.defaults import sequences
from kvplan.models.engines.vllm.launch.speculation import speculation
from kvplan.models.engines.vllm.max_model_len import length_tokens
from kvplan.models.engines.vllm.paging.alignment import stage_layers
from kvplan.models.engines.vllm.paging.grouping import layout_of
from kvplan.models.engines.vllm.paging.page_specs import specs_of
from kvplan.models.engines.vllm.pool_problem import Worker, problem_of
from kvplan.models.engines.vllm.refusals import check_sharing, check_specs, states_text
from kvplan.models.engines.vllm.serving import serving_of
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.problem import Problem


@dataclass(frozen=True)
class Server:
    """Everything that the flags resolve to.

    Attributes
    ----------
    auto_fit : the length may shrink to what fits.
    override_blocks : --num-gpu-blocks-override.
    state_requests : requests that must each find a state block; 0 where nothing asks for that.
    owners : layer of each spec; that of a draft's lies behind the target's.
    counts : layers of each pipeline stage.
    """

    serving: Serving
    specs: tuple[Spec, ...]
    layout: Layout
    workers: tuple[Worker, ...]
    auto_fit: bool
    override_blocks: int | None
    state_requests: int = 0
    owners: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def block_count(self) -> int:
        """Blocks that are allocated: those of the poorest rank, or the override."""
        if self.override_blocks is not None:
            return self.override_blocks
        counts = [
            max(worker.quota_bytes, 0) // self.layout.block_bytes(worker.stage)
            for worker in self.workers
            if self.layout.block_bytes(worker.stage)
        ]
        return min(counts, default=0)

    def problem(self, name: str = "") -> Problem:
        """Make the problem."""
        return problem_of(
            self.layout,
            self.serving,
            self.workers,
            name=name,
            auto_fit=self.auto_fit,
            override_blocks=self.override_blocks,
            least_blocks=self.state_requests,
        )


def server_of(architecture: Architecture, settings: Mapping[str, Any]) -> Server:
    """Resolve flags and layers.

    Raises
    ------
    InvalidProblem : what this version of vLLM would refuse, or flags that do not fit the model.
    """
    serving = serving_of(architecture, settings)
    specs, owners = specs_of(architecture, settings, serving)
    stages = stage_layers(architecture.total_layers, settings)
    ends = [*stages[:-1], range(stages[-1].start, architecture.total_layers + 1)]
    counts = [sum(owner in stage for owner in owners) for stage in ends]
    if not specs:
        raise InvalidProblem.at("--engine vllm", "a model with layers that keep something", "none")
    if 0 in counts:
        expected = "stages that each have a layer with a cache (vLLM divides by its pages)"
        raise InvalidProblem.at("--pipeline-parallel-size", expected, f"layers a stage: {counts}")
    check_specs(specs, serving)
    check_sharing(architecture, settings)
    check_other_flags(architecture, settings, specs)
    server = Server(
        serving=serving,
        specs=tuple(specs),
        layout=layout_of(specs, serving, stages_of(counts)),
        workers=_workers(architecture, settings, serving, [len(stage) for stage in stages]),
        auto_fit=length_tokens(architecture, settings)[1],
        override_blocks=settings["num_gpu_blocks_override"],
        state_requests=_state_requests(settings, serving, specs),
        owners=tuple(owners),
        counts=tuple(len(stage) for stage in stages),
    )
    _check_override(server)
    return server


def _state_requests(settings: Mapping[str, Any], serving: Serving, specs: list[Spec]) -> int:
    """Requests that need a state block each: --max-num-seqs, where decode graphs are captured.

    (CompilationConfig.resolve_cudagraph_mode_and_sizes, #38270.) Without --max-num-seqs and a card
    to derive it from nothing is asked for.
    """
    if not serving.version.refuses_requests_above_states:
        return 0
    if captures(settings) != "full" or not any(spec.kind == "mamba" for spec in specs):
        return 0
    requests = sequences(settings, serving.version)
    known = requests.given or settings.get("total_bytes") is not None
    return int(requests.value) if known else 0


def _check_override(server: Server) -> None:
    """Refuse an override below the states that its requests need.

    Raises
    ------
    InvalidProblem : with vLLM's own words.
    """
    blocks = server.override_blocks
    if blocks is None or server.state_requests <= blocks:
        return
    ((said, count),) = states_text(server.state_requests, blocks).items()
    raise InvalidProblem.at("--max-num-seqs", f"at most {blocks}: {said} {count}", "more")


def weights_of(architecture: Architecture, settings: Mapping[str, Any]) -> StageWeights | None:
    """Weights by layer and end on one rank, where the tensors are at hand."""
    listed = settings.get("weights")
    if listed is None:
        return None
    ranks = max(1, int(settings["tensor_parallel_size"]))
    drafted = bool(speculation(architecture, settings).layers)
    return stage_weights(listed, architecture, ranks, draft=drafted)


def _workers(
    architecture: Architecture, settings: Mapping[str, Any], serving: Serving, counts: list[int]
) -> tuple[Worker, ...]:
    """Ranks by stage, alike within one; with several --available figures one rank for each.

    Weights at hand are charged by stage, tensor by tensor.
    """
    stages, given = len(counts), settings["available"]
    budgets: list[dict[str, Any]]
    weights = weights_of(architecture, settings) if stages > 1 and not given else None
    if given:
        budgets = [{"quota": int(quota)} for quota in given]
    elif weights is not None:
        budgets = [
            rank_budget(architecture, _weighing(settings, count), serving.version)
            for count in weights.on(counts)
        ]
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


def _weighing(settings: Mapping[str, Any], weights_bytes: int) -> Settings:
    """The settings with the weights of one stage."""
    weighed = Settings((), {**settings, "weights_bytes": weights_bytes})
    weighed.given = getattr(settings, "given", frozenset(settings))
    return weighed
