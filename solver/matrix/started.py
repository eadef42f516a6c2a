"""One combination after the other: built as its engine does, planned, and read."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from kvplan.models import InvalidProblem, Plan, Problem
from kvplan.models.demands import Batch, Request
from kvplan.models.engines.architecture import load_model
from kvplan.models.engines.cards import total_bytes
from kvplan.models.engines.command_line.typed import (
    CONFIG_FLAGS,
    Budget,
    config_overrides,
    typed_settings,
)
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.advise.launched import launched
from kvplan.solver.explore.outer import with_variant
from kvplan.solver.floors import need
from kvplan.solver.matrix.settings_grid import Combination, Combinations

Row = dict[str, Any]
_REPLICAS = ("--data-parallel-size", "--data_parallel_size", "-dp")


class Started(NamedTuple):
    """A model under an engine, ready to be planned."""

    adapter: Any
    architecture: Architecture
    settings: Settings
    problem: Problem


def rows_of(
    combinations: Combinations,
    tokens: int | None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Row]:
    """The row of every combination, in order.

    Raises
    ------
    InvalidProblem : a model cannot be read, or every row is rejected.
    """
    rows: list[Row] = []
    faults: list[InvalidProblem] = []
    for combination in combinations:
        row: Row = {"model": combination.model, **combination.values}
        try:
            row |= _started_row(_start(combination), tokens)
        except InvalidProblem as error:
            faults.append(error)
            row |= {"status": "rejected", "reason": str(error.faults[0])}
        rows.append(row)
        if progress is not None:
            progress(len(rows), len(combinations))
    if len(faults) == len(rows):
        raise faults[0]
    return rows


@cache
def _read(model: str, *given: tuple[str, str]) -> Any:
    return load_model(model, config_overrides(dict(given)))


def _start(combination: Combination) -> Started:
    adapter, line = combination.adapter, combination.command_line()
    replicated = next((word for word in line if word.startswith(_REPLICAS)), None)
    if replicated is not None and "dp_size" not in {flag.key for flag in adapter.FLAGS}:
        expected = "one replica a row (--users counts the replicas that it takes)"
        raise InvalidProblem.at(replicated.partition("=")[0], expected, "several")
    budget = Budget(combination.values.get("gpu"), None, None)
    typed = typed_settings(adapter, line, budget)
    architecture, weights = _read(
        combination.model, *((key, typed[key]) for key in CONFIG_FLAGS if typed.get(key))
    )
    weights = combination.weights or weights
    settings = typed.weighed(weights, architecture)
    if weights is None and "available" not in settings.given and budget.gpu:
        expected = "--weights-gib of the whole model, or a folder or GGUF file with weights"
        raise InvalidProblem.at(combination.model, expected, "neither")
    problem = adapter.build(architecture, settings)
    return Started(adapter, architecture, settings, _changed(problem, combination))


def _changed(problem: Problem, combination: Combination) -> Problem:
    """The problem with a variant and with fields of its own."""
    name = combination.values.get("variant", "none")
    problem = with_variant(problem, name, "--vary variant")
    overrides = [f"{path}={value}" for path, value in combination.fields.items()]
    if not overrides:
        return problem
    data = problem.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate(apply_overrides(data, tuple(overrides)))


def _started_row(started: Started, tokens: int | None) -> Row:
    settings = started.settings
    gpus, gpu = settings.ranks, settings["gpu"]
    size = settings["total_bytes"] or (None if gpu is None else total_bytes(gpu))
    row: Row = {"gpus": gpus, "machine_bytes": None if size is None else gpus * size}
    start = launched(started.adapter, started.architecture, settings, started.problem)
    if start.plan is None:
        reason = "; ".join(f"{name}: {text}" for name, text in start.figures.items())
        return {**row, "status": "refused", "reason": reason}
    length = _length(started, tokens)
    held = requests_held(started.problem, start.plan, length)
    return {
        **row,
        "status": "starts",
        "request_tokens": length,
        **_held_figures(held, length, gpus, _most_requests(settings)),
        **_bytes_of(started.problem, start.plan),
    }


def _held_figures(held: Fraction | None, length: int, gpus: int, most: int | None) -> Row:
    """Requests and tokens that are held; a flag that admits fewer requests caps both."""
    if held is None:
        return {}
    if most is not None:
        held = min(held, Fraction(most))
    return {
        "requests": held // 1,
        "tokens": held * length // 1,
        "tokens_per_gpu": held * length / gpus // 1,
    }


_ADMITTED = ("max_num_seqs", "max_running_requests", "max_batch_size", "parallel")
"""The flag that caps requests at once: of vLLM and ATOM, SGLang, TensorRT-LLM, llama.cpp."""


def _most_requests(settings: Settings) -> int | None:
    """Requests that a flag admits at once; None where none was given."""
    given = (str(settings[key]) for key in _ADMITTED if key in settings.given)
    return next((int(text) for text in given if text.isdecimal() and int(text)), None)


def _length(started: Started, tokens: int | None) -> int:
    """Tokens of a request: --tokens, else the longest that the launch serves.

    Raises
    ------
    InvalidProblem : longer ones were asked for.
    """
    longest = _longest(started.problem)
    if tokens is not None and 0 < longest < tokens:
        raise InvalidProblem.at(
            "--tokens",
            f"at most {longest}, the longest request that this launch serves",
            str(tokens),
        )
    return tokens or longest or started.architecture.max_positions


def _longest(problem: Problem) -> int:
    requests = (request for batch in problem.batches for request in batch.requests)
    return max((request.capacity for request in requests), default=0)


def requests_held(problem: Problem, plan: Plan, tokens: int) -> Fraction | None:
    """How many alike requests of a length the planned blocks hold: the least over the pools.

    A request's raw need in each pool against usable blocks x resume utilization, as an exact
    fraction; whole requests are its floor. None where such a request needs no block.
    """
    request = Request(name="request", capacity=tokens)
    one = problem.model_copy(update={"batches": (Batch(name="one", requests=(request,)),)})
    raw = need(one).least.batches[0].raw
    shares = []
    for pool in problem.pools:
        usable = plan.blocks[pool.name] - pool.reserved_blocks
        full = problem.resume_utilization if pool.resume_headroom else Fraction(1)
        if raw[pool.name]:
            shares.append(usable * full / raw[pool.name])
    return min(shares, default=None)


def _bytes_of(problem: Problem, plan: Plan) -> Row:
    pools = {pool.name for pool in problem.pools}
    lines = [line for rank in plan.ranks for line in rank.ledger]
    by_rank = (
        sum(line.bytes for line in rank.ledger if line.consumer in pools) for rank in plan.ranks
    )
    estimated = dict.fromkeys(
        line.consumer.removesuffix(" (estimated)") for line in lines if line.source == "estimated"
    )
    return {"kv_bytes": max(by_rank), "estimated": ", ".join(estimated)}
