"""A KVCacheManagerV2 as a problem: pool groups, caches, and the batches that must be servable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kvplan.models.engines.trtllm.cycles import (
    LayerBuffers,
    LifeCycle,
    PoolGroup,
    life_cycles,
    pool_groups,
)
from kvplan.models.problem import Problem

GIB, MIB = 2**30, 2**20
RESUME = Fraction(97, 100)
GRANULE_STEPS = 4


@dataclass(frozen=True)
class Ask:
    """A request of a constraint: `count` alike; `fits` is the policy FIT_TO_QUOTA."""

    capacity: int
    history: int
    count: int = 1
    fits: bool = False


@dataclass(frozen=True)
class Constraint:
    """Requests that must be servable at once, with a system prompt that all share."""

    requests: tuple[Ask, ...]
    shared_prefix: int = 0


@dataclass(frozen=True)
class Manager:
    """What a KVCacheManagerV2 is built with.

    Attributes
    ----------
    layers : in the order of the model.
    resume : max_util_for_resume.
    state_headroom : whether pools of states alone are divided by it, too (versions differ).
    max_rewind : tokens that may be taken back, with scratch reuse; None without.
    """

    layers: tuple[LayerBuffers, ...]
    block: int
    constraints: tuple[Constraint, ...]
    resume: Fraction = RESUME
    state_headroom: bool = False
    max_rewind: int | None = None
    typical: Constraint | None = None
    cycle_ratio: tuple[Fraction, ...] | None = None
    name: str = ""

    @property
    def cycles(self) -> list[LifeCycle]:
        """Life cycles, in the order of first use."""
        return life_cycles(self.layers, self.block)

    @property
    def groups(self) -> list[PoolGroup]:
        """Pool groups, in the order of first appearance."""
        return pool_groups(self.cycles)


@dataclass(frozen=True)
class Bounds:
    """Counts that a pool group must take, by its slot sizes; empty leaves them to the plan."""

    counts: dict[tuple[int, ...], int] = field(default_factory=dict)
    granule: int | str = "auto"


def granule_bytes(quota: int) -> int:
    """2 MiB << min(4, max(0, floor(log2(quota / 1 GiB)))) (cache_tier_granularity)."""
    step = max(0, (quota // GIB).bit_length() - 1) if quota >= GIB else 0
    return 2 * MIB << min(GRANULE_STEPS, step)


def manager_problem(
    manager: Manager,
    quota: int | str | Mapping[str, Any],
    bounds: Bounds | None = None,
    fill: Any = "none",
) -> Problem:
    """Write a manager on one rank as a problem; a mapping is the rank's own section."""
    bounds = bounds or Bounds()
    section = quota if isinstance(quota, Mapping) else {"quota": quota}
    groups = manager.groups
    names = [group_name(group) for group in groups]
    return Problem.model_validate(
        {
            "name": manager.name,
            "ranks": [{"name": "gpu", **section}],
            "tokens_per_block": manager.block,
            "resume_utilization": str(manager.resume),
            "pools": [_pool(manager, group, bounds) for group in groups],
            "caches": [
                _cache(manager, cycle, name)
                for group, name in zip(groups, names, strict=True)
                for cycle in group.cycles
            ],
            "batches": [_batch(b, constraint) for b, constraint in enumerate(manager.constraints)],
            "fill": {"pools": names} if fill == "all" else fill,
        }
    )


def group_name(group: PoolGroup) -> str:
    """Name of a group's pool: its slot sizes."""
    return "+".join(map(str, group.slot_sizes))


def _pool(manager: Manager, group: PoolGroup, bounds: Bounds) -> dict[str, Any]:
    """Write the pools of a group; without a live window it has one slot a life cycle at least."""
    pool: dict[str, Any] = {
        "name": group_name(group),
        "buffers": [{"bytes": size, "granule": bounds.granule} for size in group.slot_sizes],
    }
    if group.states_only and not manager.state_headroom:
        pool["resume_headroom"] = False
    if not any(cycle.window for cycle in manager.cycles):
        pool["min_blocks"] = len(group.cycles)
    limits = [limit for limit in (group.max_slots, bounds.counts.get(group.slot_sizes)) if limit]
    return {**pool, "max_blocks": min(limits)} if limits else pool


def _cache(manager: Manager, cycle: LifeCycle, pool: str) -> dict[str, Any]:
    if cycle.state:
        return {"name": "state", "pool": pool, "kind": "state"}
    if cycle.window is None:
        return {"name": "full", "pool": pool, "kind": "full"}
    cache: dict[str, Any] = {"pool": pool, "kind": "window", "keep": "live"}
    cache |= {"name": f"window {cycle.window} sink {cycle.sink}", "window": cycle.window}
    cache["sink"] = cycle.sink
    if manager.max_rewind is not None:
        scratch = {"fraction": str(cycle.layer_share), "max_rewind": manager.max_rewind}
        cache["scratch"] = scratch
    return cache


def _batch(index: int, constraint: Constraint) -> dict[str, Any]:
    return {
        "name": f"constraint {index}",
        "shared_prefix": constraint.shared_prefix,
        "requests": [
            {
                "name": f"request {index}.{r}",
                "capacity": ask.capacity,
                "history": ask.history,
                "count": ask.count,
                "fit": "capacity" if ask.fits else "none",
            }
            for r, ask in enumerate(constraint.requests)
        ],
    }


def batch_counts(asks: Sequence[Ask]) -> int:
    """Requests of a batch, placeholders included."""
    return sum(ask.count for ask in asks)
