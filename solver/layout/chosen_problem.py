"""The problem of a layout: its pools, caches and workload, for `kvplan solve`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.models import InvalidProblem, Problem
from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.layouts.page_layout import Group
from kvplan.models.units import LIMIT
from kvplan.solver.layout.kinds import retained
from kvplan.solver.layout.layout_figures import weigh


def problem_of(question: LayoutQuestion, layout: PageLayout) -> Problem:
    """Write the chosen layout as a problem.

    Without ranks every stage gets one whose quota is what the longest request takes. A mix with
    whole weights is one batch; other weights are shares, so its requests stand alone.
    """
    ranks: list[dict[str, Any]] = [
        rank.model_dump(mode="json", exclude_unset=True) for rank in question.ranks
    ]
    if not ranks:
        taken = weigh(question, layout, ((question.longest.capacity, 1),)).bytes_by_stage
        reserved = {
            stage: sum(pool.reserved_blocks * pool.block_bytes[str(stage)] for pool in layout.pools)
            for stage in question.stages
        }
        if max(taken.values()) >= LIMIT:
            expected = "a longest request below 2^63 bytes"
            raise InvalidProblem.at("requests", expected, str(max(taken.values())))
        ranks = [
            {"name": f"gpu{stage}", "stage": stage, "quota": taken[stage] + reserved[stage]}
            for stage in question.stages
        ]
    data: dict[str, Any] = {
        "name": question.name,
        "ranks": ranks,
        "pools": [
            {
                "name": pool.name,
                "bytes": dict(pool.block_bytes),
                **({"reserved_blocks": pool.reserved_blocks} if pool.reserved_blocks else {}),
            }
            for pool in layout.pools
        ],
        "caches": list(_caches(question, layout)),
        "batches": list(_batches(question)),
    }
    return Problem.model_validate(data)


def _caches(question: LayoutQuestion, layout: PageLayout) -> Iterator[dict[str, Any]]:
    """One cache for groups that need the same blocks, named by the first's buckets."""
    alike: dict[tuple[object, ...], list[Group]] = {}
    for group in layout.groups:
        key = (group.pool, group.members[0].bucket, group.block_tokens, group.held_full)
        alike.setdefault(key, []).append(group)
    taken: set[str] = set()
    for groups in alike.values():
        first = groups[0]
        cache = retained(question.bucket(first.members[0].bucket), held_full=first.held_full)
        rule = cache.model_dump(mode="json", exclude_unset=True)
        name = "+".join(dict.fromkeys(m.bucket for group in groups for m in group.members))
        while name in taken:
            name += "'"
        taken.add(name)
        rule |= {"name": name, "pool": first.pool}
        if first.block_tokens:
            rule["tokens_per_block"] = first.block_tokens
        if len(groups) > 1:
            rule["groups"] = len(groups)
        yield rule


def _batches(question: LayoutQuestion) -> Iterator[dict[str, Any]]:
    """The workload: one batch, or one for each request of a mix by shares."""
    whole = all(request.weight.denominator == 1 for request in question.requests)
    rows = [
        {"name": f"r{index}", "capacity": request.capacity}
        | ({"count": int(request.weight)} if whole and request.weight != 1 else {})
        for index, request in enumerate(question.requests)
    ]
    if whole:
        yield {"name": "workload", "requests": rows}
        return
    for row in rows:
        yield {"name": f"workload {row['name']}", "requests": [row]}
