"""What one bucket takes in a layout: its groups, its padding, its waste."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.layouts import Bucket, LayoutQuestion, PageLayout
from kvplan.models.layouts.chosen import BucketFigures
from kvplan.models.layouts.page_layout import SHARED, Group
from kvplan.solver.layout.deal import stages_of_positions
from kvplan.solver.layout.kinds import retained, weights_of
from kvplan.solver.layout.layout_bounds import needed_bytes


class Weighed(NamedTuple):
    """A layout under one workload.

    Attributes
    ----------
    blocks : weighted, by group.
    """

    blocks: tuple[int, ...]
    bytes_by_stage: dict[int, int]

    @property
    def fullest(self) -> int:
        """Stage of the most bytes, the first of equals."""
        return max(self.bytes_by_stage, key=lambda stage: self.bytes_by_stage[stage])


class _Mine(NamedTuple):
    """A group that holds layers of a bucket, with its blocks."""

    group: Group
    weighted: int
    single: int


def bucket_figures(
    question: LayoutQuestion, layout: PageLayout, whole: Weighed, one: Weighed
) -> tuple[BucketFigures, ...]:
    """Evaluate every bucket on the fullest stage.

    Parameters
    ----------
    whole, one : the layout under the whole workload, and under its longest request.
    """
    stage_of = stages_of_positions(question)
    here = frozenset(at for at, stage in stage_of.items() if stage == whole.fullest)
    found = []
    for bucket in question.buckets:
        rows = zip(layout.groups, whole.blocks, one.blocks, strict=True)
        mine = [
            _Mine(*row)
            for row in rows
            if any(member.bucket == bucket.name for member in row[0].members)
        ]
        found.append(_figures(question, layout, bucket, mine, here, whole.fullest))
    return tuple(found)


def _figures(
    question: LayoutQuestion,
    layout: PageLayout,
    bucket: Bucket,
    mine: Sequence[_Mine],
    here: frozenset[int],
    stage: int,
) -> BucketFigures:
    workload, scale = weights_of(question)
    first = mine[0].group
    padded = next(each.page_bytes for each in first.members if each.bucket == bucket.name)
    page = bucket.page_bytes(first.block_tokens)
    needed = needed_bytes(bucket, retained(bucket, held_full=False), workload)
    taken = sum(
        (each.weighted * _share(each.group, bucket.name, layout, here, stage) for each in mine),
        Fraction(0),
    )
    return BucketFigures(
        bucket=bucket.name,
        pool=first.pool,
        layers=bucket.total_layers,
        groups=len(mine),
        block_tokens=first.block_tokens,
        split=Fraction(bucket.block_tokens, first.block_tokens or bucket.block_tokens),
        page_bytes=page,
        padding_bytes=padded - page,
        padded_layers=sum(
            _spare_slots(layout, each.group, here, stage)
            for each in mine
            if each.group.members[0].bucket == bucket.name
        ),
        blocks=sum(each.single for each in mine),
        waste_bytes=(taken - bucket.by_stage.get(stage, 0) * needed) / scale,
    )


def _share(
    group: Group, bucket: str, layout: PageLayout, here: frozenset[int], stage: int
) -> Fraction:
    """Bytes of a block that count for a bucket: all, or by its pages in a shared group."""
    block = layout.pool(group.pool).block_bytes[str(stage)]
    sizes = {
        member.bucket: member.page_bytes * len(here.intersection(member.layers))
        for member in group.members
    }
    total = sum(sizes.values())
    if not total:
        return Fraction(block, len(sizes))
    return Fraction(block * sizes[bucket], total)


def _spare_slots(layout: PageLayout, group: Group, here: frozenset[int], stage: int) -> int:
    """Slots of a common page that no layer of a group uses on a stage."""
    if layout.page_bytes is None or group.pool != SHARED:
        return 0
    slots = layout.pool(SHARED).block_bytes[str(stage)] // layout.page_bytes
    return slots - len(here.intersection(group.layers))
