"""vLLM's own objects as a problem, for the requests that are expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.problem import Problem
from kvplan.solver.managers.environment import MOST_GROUPS
from kvplan.solver.managers.vllm.start import start_of
from kvplan.solver.managers.vllm.widths import best_grouping
from kvplan.solver.managers.workload import Workload


def question(
    config: Any,
    kv_cache_specs: Sequence[Mapping[str, Any]],
    available_bytes: Sequence[int],
    workload: Workload | None = None,
    *,
    version: str,
    most_groups: int = MOST_GROUPS,
) -> Problem:
    """The problem whose plan sizes vLLM's pool; config, specs, bytes, version as `start_of`.

    Parameters
    ----------
    workload : requests that are expected: the groups of layers that hold the most of them. None:
        vLLM's own groups, so that the plan is what vLLM does.
    most_groups : cap on the number of groups.

    Raises
    ------
    InvalidProblem : a version, a spec's class or a layout that kvplan does not know, by name.
    Infeasible : with a workload, where vLLM refuses to start with its own groups.
    LeftAlone : what is left to vLLM.
    """
    start = start_of(config, kv_cache_specs, available_bytes, version)
    if workload is None:
        return start.problem()
    return best_grouping(start, workload, most_groups).problem
