"""A placement decided: the problem that is left, its bytes by rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from kvplan.models import Problem
from kvplan.models.plan import PlacementPlan
from kvplan.models.pools import Buffer, Pool
from kvplan.models.reading.placement_references import CONSUMERS
from kvplan.solver.place.slot_program import without_placement


def placed(problem: Problem, placement: PlacementPlan) -> Problem:
    """The problem without its placement: bytes of blocks by rank, weights as consumers."""
    rest, where = without_placement(problem), _layers_by_rank(problem, placement)
    figures = [
        {space.name: getattr(space, field) for space in placement.spaces}
        for field in ("layer_bytes", "state_bytes", "expert_bytes", "buffer_bytes")
    ]
    phases = (None, tuple(phase for phase in problem.phases if phase != "load"), None, None)
    added = [
        {"name": name, "bytes": figure, **({"phases": list(lives)} if lives else {})}
        for name, figure, lives in zip(CONSUMERS, figures, phases, strict=True)
        if any(figure.values())
    ]
    pools = [_pool(problem, pool, where, placement) for pool in problem.pools]
    kept = {name: getattr(rest, name) for name in type(rest).model_fields if name != "place"}
    return Problem.model_validate(
        {**kept, "pools": pools, "consumers": [*problem.consumers, *added]}
    )


def _layers_by_rank(problem: Problem, placement: PlacementPlan) -> dict[str, range]:
    """Layers of each rank."""
    return {
        space.name: range(space.first, space.first + space.layers) for space in placement.spaces
    }


def _pool(
    problem: Problem, pool: Pool, where: Mapping[str, range], placement: PlacementPlan
) -> dict[str, Any]:
    """A pool with the bytes of a block by rank: of its caches the widest one there."""
    data = {name: getattr(pool, name) for name in pool.model_fields_set if name != "granule"}
    caches = [cache.name for cache in problem.caches if problem.pool_of(cache) == pool.name]
    figures = [
        {
            name: _bytes(problem, buffer, caches, layers, name, placement)
            for name, layers in where.items()
        }
        for buffer in pool.layout
    ]
    if pool.buffers is None:
        return {**data, "bytes": figures[0]}
    buffers = [
        {"name": buffer.name, "bytes": figure}
        for buffer, figure in zip(pool.buffers, figures, strict=True)
        if any(figure.values())
    ]
    return {**data, "buffers": buffers}


def _bytes(
    problem: Problem,
    buffer: Buffer,
    caches: list[str],
    layers: range,
    rank: str,
    placement: PlacementPlan,
) -> int:
    """Bytes of a buffer's block on a rank: of each cache the sum over its layers, the largest."""
    assert problem.place is not None
    place, each, widest = problem.place, problem.place.each, 0
    holders = [each[layer].cache or {} for layer in layers]
    if placement.last == rank:
        holders.append(place.ends.draft.cache or {})
    for cache in caches:
        sizes = [held[cache] for held in holders if cache in held]
        own = [cast("int", buffer.bytes) if size is None else size for size in sizes]
        widest = max(widest, sum(own))
    return widest
