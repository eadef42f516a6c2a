"""SGLang's separate pools for a workload: its split by ratio, the best split, the flags for it.

The engine splits by --swa-full-tokens-ratio and --mamba-full-memory-ratio, whatever the requests
are. Here the pools are free and hold as much as fits of a mix of lengths, an exact fraction of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.pools import open_split
from kvplan.models.layouts.pool_split import PoolSplit, SplitRequest
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.advise.sglang_by_rule import by_rule, flags_to_paste, serving_data, split_of
from kvplan.solver.advise.sglang_split import LEFT_OUT, blocks_of_request, check_split
from kvplan.solver.managers.mix import mix_of
from kvplan.solver.managers.workload import Workload
from kvplan.solver.solve.plan import plan

NOT_COUNTED = LEFT_OUT[:1]


def best_pools(
    architecture: Architecture, settings: Settings, workload: Workload | None = None
) -> PoolSplit:
    """Compare SGLang's split with the best one for a workload.

    Parameters
    ----------
    workload : requests that are expected; None: one request of the context length.

    Raises
    ------
    InvalidProblem : a model that leaves no split to choose, or flags that the engine refuses.
    Infeasible : no split holds the longest request.
    """
    known = resolve(architecture, settings)
    check_split(architecture, known, "--engine sglang")
    if workload is None:
        workload = Workload(requests=[{"capacity": context_tokens(architecture, known)}])
    open_ = _open(serving_data(open_split(architecture, known), architecture, known), workload)
    answer = plan(open_)
    if "window" in answer.blocks and _window_share(open_, answer, workload) > 1:
        open_ = _open(
            serving_data(open_split(architecture, known), architecture, known),
            workload,
            capped=True,
        )
        answer = plan(open_)
    best = split_of("the best split", {}, open_, answer, answer.scale or Fraction(0))
    own = by_rule("SGLang's own", architecture, settings, {}, workload)
    apart = "window" in answer.blocks
    window_share = _window_share(open_, answer, workload) if apart else Fraction(1)
    pasted = flags_to_paste(architecture, settings, workload, window_share, best, own)
    count = sum(alike.requests for alike in workload.copy_of_it)
    return PoolSplit(
        name=f"{architecture.name} in SGLang",
        workload=tuple(
            SplitRequest(capacity=alike.capacity, share=Fraction(alike.requests, count))
            for alike in workload.copy_of_it
        ),
        engine=own,
        best=best,
        pasted=pasted,
        left_out=NOT_COUNTED,
        status=answer.status,
        problem=open_,
    )


def _open(data: Mapping[str, Any], workload: Workload, *, capped: bool = False) -> Problem:
    """Ask free pools for as much of a workload as fits; its longest request must.

    Parameters
    ----------
    capped : hold the flag's range: no more window tokens than full ones.
    """
    longest = {"name": "longest", "capacity": workload.longest_tokens}
    batches = [{"name": "longest", "requests": [longest]}]
    dropped = {"goals", "variants"}
    if not capped and any(pool["name"] == "window" for pool in data["pools"]):
        dropped.add("constraints")
    kept = {key: value for key, value in data.items() if key not in dropped}
    return Problem.model_validate({**kept, "batches": batches, "fill": {"mix": mix_of(workload)}})


def _window_share(problem: Problem, answer: Plan, workload: Workload) -> Fraction:
    """Window blocks for each full block that a workload takes, chunks in flight included."""
    taken = []
    for name in ("window", "full"):
        pool = next(pool for pool in problem.pools if pool.name == name)
        each = Fraction(
            sum(
                alike.requests * blocks_of_request(problem, name, alike.capacity)
                for alike in workload.copy_of_it
            ),
            sum(alike.requests for alike in workload.copy_of_it),
        )
        used = pool.reserved_blocks + each * (answer.scale or 1)
        taken.append(max(used, Fraction(pool.reserved_blocks + pool.min_blocks)))
    return Fraction(taken[0] / taken[1])
