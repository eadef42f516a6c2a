"""Better settings of vLLM's block size, in-flight tokens and layout for requests of one length.

vLLM takes 16 tokens a block (or what a state's page asks for), holds every batch in flight in every
window, and leaves the layout at its default. Each of these is a flag: all combinations are tried on
the engine's own rules, and the one that holds the most requests is the answer; of equals the one
that changes least, with the largest chunk. A pipeline's best partition is tried with each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.vllm.figures import printed_tokens
from kvplan.models.engines.vllm.launch.choices import laid_over
from kvplan.models.engines.vllm.launch.server import Server, server_of
from kvplan.models.engines.vllm.pool_problem import (
    POOL,
    blocks_of_request,
    group_blocks,
    longest_length,
)
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.models.units import human_bytes
from kvplan.solver.advise.advice import Advice
from kvplan.solver.advise.vllm_partition import layer_weights, moved
from kvplan.solver.solve.plan import plan

LEAST_BATCH_TOKENS = 512
BLOCKS = tuple(16 << power for power in range(8))
LEFT_OUT = (
    "prefix reuse: larger blocks match fewer prefixes",
    "speed: a smaller step takes longer over a prompt, without async scheduling the card waits",
    "prefill in flight beyond the step that windows hold",
    "whether the attention kernel takes the block size",
)

_SPELLED = {
    "kv_cache_layout": "VLLM_KV_CACHE_LAYOUT=",
    "pp_layer_partition": "VLLM_PP_LAYER_PARTITION=",
}
ESTIMATED = "layers are taken to be alike (a folder with the weights' tensors knows better)"


@dataclass(frozen=True)
class Trial:
    """One combination of settings on the engine's rules."""

    changes: Mapping[str, Any]
    server: Server
    blocks: int
    length: int
    requests: int

    @property
    def rank(self) -> tuple[int, bool, int, int]:
        """More requests, then a better partition, then fewer changes, then a larger step."""
        changes = self.changes.keys() - {"available", "pp_layer_partition"}
        moved = "pp_layer_partition" in self.changes
        return (self.requests, moved, -len(changes), self.server.serving.batch_tokens)


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Find the settings with which the same bytes hold the most requests of a length.

    Raises
    ------
    InvalidProblem : no combination serves one request of the longest length.
    """
    start = _tried(architecture, settings, {}, mean_tokens)
    trials = []
    for changes in ({}, *_combinations(architecture, settings)):
        partition = _moved(architecture, settings, changes)
        for each in (changes, {**changes, **partition}) if partition else (changes,):
            trial = _tried(architecture, settings, each, mean_tokens)
            if trial is not None:
                trials.append(trial)
    if not trials:
        raise _unserved(architecture, settings)
    best = max(trials, key=lambda trial: trial.rank)
    return Advice(
        flags=dict(_spelled(best.changes)),
        before=_rows(start, mean_tokens) if start else _refused(architecture, settings),
        after=_rows(best, mean_tokens),
        requests=(start.requests if start else 0, best.requests),
        bound=best.requests,
        left_out=(*LEFT_OUT, *_left_out(architecture, settings, best)),
    )


def _unserved(architecture: Architecture, settings: Settings) -> InvalidProblem:
    """No combination starts: the longest request that some block size and step can serve."""
    longest = 0
    for changes in ({}, *_combinations(architecture, settings)):
        try:
            server = server_of(architecture, laid_over(settings, changes))
            found = longest_length(server.layout, server.serving, server.workers)
        except InvalidProblem:
            continue
        longest = max(longest, found)
    asked = server_of(architecture, settings).serving.length_tokens
    if not 0 < longest < asked:
        expected = "more bytes for the cache: no block size or step starts"
        return InvalidProblem.at("--optimize", expected, f"--max-model-len {asked}")
    expected = f"at most {longest}, the longest that some block size and step can serve"
    return InvalidProblem.at("--max-model-len", expected, str(asked))


def _left_out(architecture: Architecture, settings: Settings, best: Trial) -> Iterator[str]:
    """What a partition does not count."""
    if "pp_layer_partition" in best.changes:
        server = server_of(architecture, settings)
        weights = layer_weights(architecture, settings, server)
        yield "speed: the stage with the most layers paces the pipeline"
        if weights is not None and weights.is_estimated:
            yield ESTIMATED


def _moved(
    architecture: Architecture, settings: Settings, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """The better partition of a pipeline under some changes; empty where there is none."""
    if int(settings["pipeline_parallel_size"]) < 2:
        return {}
    changed = laid_over(settings, changes)
    try:
        return moved(architecture, changed, server_of(architecture, changed))
    except InvalidProblem:
        return {}


def _combinations(architecture: Architecture, settings: Settings) -> Iterator[dict[str, Any]]:
    """Block sizes x steps x async x layouts, without the setting as it is."""
    server = server_of(architecture, settings)
    serving = server.serving
    now = max((spec.block_tokens for spec in server.specs), default=BLOCKS[0])
    windows = any(spec.kind in ("window", "chunked") for spec in server.specs)
    options: dict[str, list[Any]] = {
        "block_size": sorted({*BLOCKS, 2 * now, 3 * now} - {now}),
        "max_num_batched_tokens": _halves(serving.batch_tokens) if windows else [],
        "async_scheduling": [False] if windows and serving.batches_in_flight > 1 else [],
        "kv_cache_layout": ["BLHNC"]
        if serving.version.has_packed_layout and not serving.packed
        else [],
    }
    for values in product(*([None, *found] for found in options.values())):
        changes = {
            key: value for key, value in zip(options, values, strict=True) if value is not None
        }
        if changes:
            yield changes


def _halves(tokens: int) -> list[int]:
    """Smaller steps, each half of the one before."""
    steps = []
    while tokens // 2 >= LEAST_BATCH_TOKENS:
        tokens //= 2
        steps.append(tokens)
    return steps


def _tried(
    architecture: Architecture,
    settings: Settings,
    changes: Mapping[str, Any],
    mean_tokens: int,
) -> Trial | None:
    """Lay changes over the settings and solve; None where the engine would not start."""
    changed = laid_over(settings, changes)
    try:
        server = server_of(architecture, changed)
        answer = plan(server.problem())
    except (InvalidProblem, Infeasible):
        return None
    null = 1 if server.serving.version.charges_null_block else 0
    one = blocks_of_request(server.layout, server.serving, mean_tokens)
    blocks = answer.blocks[POOL]
    return Trial(changes, server, blocks, answer.requests[0].capacity, (blocks - null) // one)


def _refused(architecture: Architecture, settings: Settings) -> dict[str, str]:
    """The rows of settings under which the engine does not start."""
    server = server_of(architecture, settings)
    return {"requests at once": "refused", **_stage_rows(server, server.block_count)}


def _stage_rows(server: Server, blocks: int) -> dict[str, str]:
    """Layers of each pipeline stage and the blocks of the poorest one; nothing of one stage."""
    if len(server.counts) < 2:
        return {}
    return {"layers a stage": ",".join(map(str, server.counts)), "blocks": f"{blocks:,}"}


def _rows(trial: Trial, mean_tokens: int) -> dict[str, str]:
    server = trial.server
    one = blocks_of_request(server.layout, server.serving, mean_tokens)
    tokens = printed_tokens(server.layout, server.serving, trial.blocks, trial.length)
    hundredths = 100 * trial.blocks // one
    return {
        **_stage_rows(server, trial.blocks),
        "GPU KV cache size (tokens)": f"{tokens:,}",
        f"concurrency at {mean_tokens:,} tokens": f"{hundredths // 100}.{hundredths % 100:02d}",
        "requests at once": str(trial.requests),
        "step (tokens)": str(server.serving.batch_tokens),
        "block (tokens)": "/".join(map(str, _blocks_of(server))),
        "padding in one request": human_bytes(padding_bytes(server, mean_tokens)),
    }


def _blocks_of(server: Server) -> list[int]:
    return sorted({g.spec.block_tokens for g in server.layout.groups if g.spec.kind != "mamba"})


def padding_bytes(server: Server, length_tokens: int) -> int:
    """Bytes of one request's blocks on the first stage that no layer uses.

    Sum over groups of blocks x (block bytes - the layers' own bytes).
    """
    layout, layers = server.layout, server.layout.stages[0]
    total = 0
    for group in layout.groups:
        own = sum(spec.own_bytes for spec in group.within(layers).specs)
        blocks = group_blocks(group.spec, server.serving, length_tokens)
        total += blocks * (layout.block_bytes(0) - own)
    return total


def _spelled(changes: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Write changes as flags that paste; the layout is an environment variable."""
    for key, value in changes.items():
        if key == "available":  # what a partition leaves each stage, not a flag of the engine
            continue
        if key in _SPELLED:
            yield f"{_SPELLED[key]}{value}", ""
        elif isinstance(value, bool):
            yield f"--{'' if value else 'no-'}{key.replace('_', '-')}", ""
        else:
            yield f"--{key.replace('_', '-')}", str(value)
