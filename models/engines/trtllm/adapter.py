"""TensorRT-LLM (KVCacheManagerV2): a model and flags as a problem, and its printed figures."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from kvplan.models.engines.alternatives import laid_over, offering
from kvplan.models.engines.layers import Architecture, Recurrent
from kvplan.models.engines.served import refuse_cross
from kvplan.models.engines.trtllm.budget import estimates, quota_of, rank_section
from kvplan.models.engines.trtllm.buffers import buffers_of, widest_stage
from kvplan.models.engines.trtllm.choices import choices, labels
from kvplan.models.engines.trtllm.flags import FLAGS, SERVER, SERVER_REQUESTS, requests_of
from kvplan.models.engines.trtllm.lengths import length_line, longest_tokens
from kvplan.models.engines.trtllm.manager import (
    Ask,
    Bounds,
    Constraint,
    Manager,
    granule_bytes,
    group_name,
    manager_problem,
)
from kvplan.models.engines.trtllm.ratio import group_ratios, planned_quota, slot_counts
from kvplan.models.engines.trtllm.served import check_served
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem


def manager_of(architecture: Architecture, settings: Mapping[str, Any]) -> Manager:
    """Write what the runtime builds its manager with.

    Constraints: one request of --max_seq_len beside requests of one token up to --max_batch_size
    (the long one may shrink under FIT_TO_QUOTA), and a prefill of --max_num_tokens. The ratio comes
    from --avg_seq_len, a batch of such requests; else from the constraints.
    """
    longest = longest_tokens(architecture, settings)
    others = requests_of(settings) - 1
    if longest < 1 or others < 0:
        found = shown(settings["max_seq_len"] if longest < 1 else settings["max_batch_size"])
        raise InvalidProblem.at("--max_seq_len and --max_batch_size", "at least 1 each", found)
    fits = settings["constraint_policy"] == "FIT_TO_QUOTA"
    asks = [Ask(longest, longest - 1, fits=fits)]
    asks += [Ask(1, 0, others)] if others else []
    chunk = min(longest, max(1, int(settings["max_num_tokens"])))
    mean = settings["avg_seq_len"]
    typical = Constraint((Ask(int(mean), int(mean) - 1, others + 1),)) if mean else None
    return Manager(
        layers=tuple(buffers_of(architecture, settings)),
        block=int(settings["tokens_per_block"]),
        constraints=(Constraint(tuple(asks)), Constraint((Ask(chunk, 0),))),
        resume=Fraction(settings["max_util_for_resume"]),
        state_headroom=bool(settings["state_headroom"]),
        max_rewind=settings["max_rewind_len"],
        typical=typical,
        name=f"{architecture.name} in TensorRT-LLM",
    )


def assumptions(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """One line for each value that nobody gave, with the reason."""
    lines = []
    if settings["max_batch_size"] is None:
        served = requests_of(settings) > 1
        why = f"{SERVER}'s default" if served else f"one request; {SERVER} takes {SERVER_REQUESTS}"
        lines.append(f"--max_batch_size: not given -> {requests_of(settings)} ({why})")
    if line := length_line(architecture, settings):
        lines.append(line)
    if int(settings["pp_size"]) > 1:
        stage, count = widest_stage(architecture, settings)
        lines.append(f"--pp_size: the manager of stage {stage} of {count}, the widest")
    return (*lines, *(one.line for one in estimates(settings)))


def build(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """Make the problem whose plan is what KVCacheManagerV2 would allocate.

    FIXED allocates max(bytes of the floors, the quota rounded up to a granule), which may exceed
    the quota, and splits it by ratio. FIT_TO_QUOTA keeps to the quota rounded down and shortens the
    longest request where needed; what is left is shared by the ratio (of --avg_seq_len, or of the
    constraints as they were asked), without the engine's rounding to grains.

    Raises
    ------
    InvalidProblem : a model or flags that the engine, or this adapter, refuses.
    """
    refuse_cross(architecture, "tensorrt-llm")
    check_served(architecture)
    bare = _problem(architecture, settings)
    return offering(
        bare,
        labels(bare),
        choices(settings),
        lambda changes: _problem(architecture, laid_over(FLAGS, settings, changes)),
        estimates(settings),
    )


def _problem(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """The problem alone."""
    manager, quota = manager_of(architecture, settings), quota_of(settings)
    granule = granule_bytes(quota)
    if any(ask.fits for ask in manager.constraints[0].requests):
        ratios = group_ratios(manager, granule)
        shares = {group_name(g): str(r) for g, r in zip(manager.groups, ratios, strict=True)}
        usable = quota // granule * granule
        section = rank_section(settings, usable)
        return manager_problem(manager, section, Bounds(granule=granule), fill={"shares": shares})
    sizes = [group.slot_sizes for group in manager.groups]
    counts = dict(zip(sizes, slot_counts(manager, quota), strict=True))
    planned = planned_quota(manager, quota)
    section = rank_section(settings, planned)
    return manager_problem(manager, section, Bounds(counts, granule), fill="all")


def figures(
    architecture: Architecture, settings: Mapping[str, Any], problem: Problem, plan: Plan
) -> dict[str, str]:
    """Return slot sizes, floors and counts of each pool group, and bytes of the tier."""
    manager, quota = manager_of(architecture, settings), quota_of(settings)
    granule = granule_bytes(quota)
    lines = {"quota": str(quota), "granularity": str(granule)}
    total = 0
    for index, group in enumerate(manager.groups):
        name = group_name(group)
        slots = plan.blocks[name]
        lines[f"pool group {index} slot sizes"] = str(list(group.slot_sizes))
        lines[f"pool group {index} min slots"] = str(plan.floors[name])
        lines[f"pool group {index} slots"] = str(slots)
        total += sum(-(-slots * size // granule) * granule for size in group.slot_sizes)
    lines["total bytes"] = str(total)
    lines["exceeds quota"] = "yes" if total > quota else "no"
    if any(isinstance(layer, Recurrent) for layer in architecture.target):
        lines["state life cycles"] = "1"
    return lines
