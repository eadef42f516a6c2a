"""How many layers a group of vLLM's should have, for the requests that are expected.

vLLM splits layers of one kind into groups of equal width: the least count of layers of any kind, or
the largest below 1.5 x the least. A block holds one page for each layer of the widest group, so a
bad remainder wastes pages; another width may waste fewer, at the price of more groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from kvplan.models.engines.vllm.block_groups import Layout
from kvplan.models.engines.vllm.pool_problem import POOL, blocks_of_request, cache_entries
from kvplan.models.errors import Infeasible
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.managers.mix import requests_at_once
from kvplan.solver.managers.texts import Split
from kvplan.solver.managers.vllm.start import Start
from kvplan.solver.managers.workload import Workload
from kvplan.solver.solve.plan import plan

NULL_BLOCKS = 1
LEAST_GAIN = Fraction(101, 100)
"""A split replaces vLLM's own from this factor on: less is not worth another layout."""


class Grouping(NamedTuple):
    """Groups of one width, what they are asked and what they hold.

    Attributes
    ----------
    group_layers : layers of a group at most; 0: vLLM's own rule.
    longest_bytes : of the longest request on the rank where they are most.
    """

    group_layers: int
    groups: int
    problem: Problem
    plan: Plan
    split: Split
    longest_bytes: int


def own_grouping(start: Start, workload: Workload) -> Grouping:
    """vLLM's own groups.

    Raises
    ------
    Infeasible : vLLM refuses to start with them.
    """
    return _grouping(start, workload, 0)


def best_grouping(start: Start, workload: Workload, most_groups: int) -> Grouping:
    """The groups that hold the most of a workload; vLLM's own unless others hold 1 % more.

    Groups in which the longest request would need more bytes are left out: they could refuse a
    start that vLLM's own do not.

    Parameters
    ----------
    most_groups : cap on the number of groups.

    Raises
    ------
    Infeasible : vLLM refuses to start with its own groups.
    """
    own = own_grouping(start, workload)
    found = list(_others(start, workload, own, most_groups))
    best = max(found, key=lambda each: (each.split.requests, -each.groups), default=own)
    return best if best.split.requests >= own.split.requests * LEAST_GAIN else own


def _others(
    start: Start, workload: Workload, own: Grouping, most_groups: int
) -> Iterator[Grouping]:
    layout = start.layout()
    if not splits_evenly(layout) or start.serving.packed:
        return
    known = {tuple(len(group.layers) for group in layout.groups)}
    for width in range(len(start.specs), 0, -1):
        widths = tuple(len(group.layers) for group in start.layout(width).groups)
        if len(widths) > most_groups or widths in known:
            continue
        known.add(widths)
        try:
            other = _grouping(start, workload, width)
        except Infeasible:  # vLLM would refuse this width
            continue
        if other.longest_bytes <= own.longest_bytes:
            yield other


def splits_evenly(layout: Layout) -> bool:
    """Whether there are several kinds of groups with one page each, which may be dealt anew."""
    pages = {spec.page_bytes for group in layout.groups for spec in group.specs}
    return len(layout.groups) > 1 and len(pages) == 1


def _grouping(start: Start, workload: Workload, width: int) -> Grouping:
    layout, problem = start.layout(width), start.problem(width)
    answer = plan(problem)
    pools = [{"name": POOL, "reserved_blocks": NULL_BLOCKS}]
    running = {"tokens_per_block": 16, "pools": pools, "caches": running_caches(start, layout)}
    at_once = requests_at_once(running, answer.blocks, workload)
    sizes = [len(group.layers) for group in layout.groups]
    label = f"{len(sizes)} group{'s' if len(sizes) > 1 else ''} of {max(sizes)} layers"
    split = Split(label, {"blocks": answer.blocks[POOL]}, at_once)
    longest = blocks_of_request(layout, start.serving, start.serving.length_tokens)
    widest = max(layout.block_bytes(stage) for stage in range(len(layout.stages)))
    return Grouping(width, len(sizes), problem, answer, split, longest * widest)


def running_caches(start: Start, layout: Layout) -> list[dict[str, Any]]:
    """What running requests hold of each group.

    A window and the token in flight (`keep: peak`), not the steps in flight that admission charges
    every request.
    """
    return [_running(entry) for entry in cache_entries(layout.groups, start.serving)]


def _running(entry: dict[str, Any]) -> dict[str, Any]:
    if entry["kind"] == "chunked":
        return {**entry, "in_flight": 1}
    dropped = ("keep", "in_flight", "extra_blocks") if entry["kind"] == "window" else ()
    return {key: value for key, value in entry.items() if key not in dropped}
