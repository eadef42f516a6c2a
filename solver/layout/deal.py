"""From what a search found to groups of layers: the layout as plain data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.layouts.page_layout import SHARED, Group, GroupLayers, PagePool
from kvplan.solver.layout.found import Found
from kvplan.solver.layout.kinds import Kind
from kvplan.solver.layout.layout_candidates import Own, Part
from kvplan.solver.layout.packed.dealing import dealt_best
from kvplan.solver.layout.packed.packed_options import unit_pages

Positions = list[list[list[int]]]
"""Layers still to deal: [bucket][stage]."""


def page_layout(question: LayoutQuestion, found: Found) -> PageLayout:
    """Deal the layers of every part to its groups, stage by stage."""
    positions = positions_of(question)
    arrangement = found.arrangement
    groups: list[Group] = []
    for part, count, at in zip(arrangement.parts, found.groups, found.at, strict=True):
        groups += _dealt(question, found, part, count, at, positions)
    groups += [_alone(question, found, own, positions) for own in arrangement.own]
    pages: Literal["uniform", "packed", "mixed"] = question.pages
    if pages == "uniform" and not found.page_bytes and arrangement.parts:
        pages = "mixed"
    return PageLayout(
        pages=pages,
        page_bytes=found.page_bytes or None,
        pools=tuple(_pools(question, groups, found)),
        groups=tuple(groups),
    )


def positions_of(question: LayoutQuestion) -> Positions:
    """Each bucket's layers on each stage, by position in the model."""
    found: Positions = []
    start = 0
    for bucket in question.buckets:
        given = list(bucket.positions or range(start, start + bucket.total_layers))
        start += bucket.total_layers
        by_stage = []
        for stage in question.stages:
            count = bucket.by_stage.get(stage, 0)
            by_stage.append(given[:count])
            given = given[count:]
        found.append(by_stage)
    return found


def _dealt(
    question: LayoutQuestion,
    found: Found,
    part: Part,
    count: int,
    at: int,
    positions: Positions,
) -> Iterator[Group]:
    held: list[list[list[int]]] = [[[] for _ in part.kinds] for _ in range(count)]
    for stage in range(len(part.layers)):
        numbers = _numbers(found, part, count, at, stage)
        for place, kind in enumerate(part.kinds):
            rest = iter(positions[kind.place][stage])
            for group, number in enumerate(numbers):
                held[group][place] += [next(rest) for _ in range(number[place])]
    for each in held:
        members = tuple(
            GroupLayers(
                bucket=question.buckets[kind.place].name,
                layers=tuple(mine),
                page_bytes=found.page_bytes or int(kind.pages[at]),
            )
            for kind, mine in zip(part.kinds, each, strict=True)
            if mine
        )
        yield Group(
            pool=SHARED,
            block_tokens=int(part.tokens[at]),
            held_full=_held_full(question, found, part.kinds),
            members=members,
        )


def _held_full(question: LayoutQuestion, found: Found, kinds: Sequence[Kind]) -> bool:
    held = found.arrangement.held_full
    return held and any(question.buckets[kind.place].hold_full for kind in kinds)


def _numbers(found: Found, part: Part, count: int, at: int, stage: int) -> list[tuple[int, ...]]:
    """Layers of each bucket in each group on a stage: [group][bucket]."""
    layers = [kind.layers[stage] for kind in part.kinds]
    if len(layers) > 1 and not found.page_bytes:
        pages, _ = unit_pages(part, at)
        return [tuple(group) for group in dealt_best(pages, tuple(layers), count)]
    numbers = [[0] * len(layers) for _ in range(count)]
    turn = 0
    for place, number in enumerate(layers):
        for _ in range(number):
            numbers[turn % count][place] += 1
            turn += 1
    return [tuple(group) for group in numbers]


def _alone(question: LayoutQuestion, found: Found, own: Own, positions: Positions) -> Group:
    bucket = question.buckets[own.kind.place]
    layers = tuple(at for stage in positions[own.kind.place] for at in stage)
    member = GroupLayers(bucket=bucket.name, layers=layers, page_bytes=int(own.kind.pages[own.at]))
    return Group(
        pool=bucket.name,
        block_tokens=int(own.kind.tokens[own.at]),
        held_full=_held_full(question, found, (own.kind,)),
        members=(member,),
    )


def _pools(question: LayoutQuestion, groups: Sequence[Group], found: Found) -> Iterator[PagePool]:
    stage_of = stages_of_positions(question)
    names = dict.fromkeys(group.pool for group in groups)
    for name in names:
        mine = [group for group in groups if group.pool == name]
        sizes = {
            str(stage): max(group_bytes(group, stage_of, stage) for group in mine)
            for stage in question.stages
        }
        reserved = question.reserved_blocks if name == SHARED else 0
        yield PagePool(name=name, block_bytes=sizes, reserved_blocks=reserved)


def stages_of_positions(question: LayoutQuestion) -> dict[int, int]:
    """The stage of each layer."""
    return {
        at: stage
        for by_stage in positions_of(question)
        for stage, layers in zip(question.stages, by_stage, strict=True)
        for at in layers
    }


def group_bytes(group: Group, stage_of: dict[int, int], stage: int) -> int:
    """Bytes of a group's pages in one block on a stage, padding included."""
    return sum(
        member.page_bytes * sum(stage_of[at] == stage for at in member.layers)
        for member in group.members
    )
