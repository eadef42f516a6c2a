"""Layers on pipeline stages in a given order: the most blocks, then the most even stages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple


class Stages(NamedTuple):
    """A pipeline: contiguous slices of layers on stages, the same count of blocks on each.

    A block takes the largest of the columns' sums on a stage: caches that share a pool use a block
    one at a time (vLLM's KV cache groups).

    Attributes
    ----------
    layer_bytes : weights by layer, on one rank of a stage.
    columns : bytes of a block by layer, a column for each cache.
    limits : bytes by stage, for layers, ends and blocks.
    first, last : bytes of what lies with the first and with the last stage (embedding; head, draft
        with its embedding copy).
    draft_columns : bytes of a block beside the last stage, by column (the draft's caches).
    anchors : positions of layers of which each stage must hold one; empty: any layer.
    """

    layer_bytes: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]
    first: int = 0
    last: int = 0
    draft_columns: tuple[int, ...] = ()
    anchors: tuple[int, ...] = ()


class Partition(NamedTuple):
    """Layers by stage in pipeline order, and the blocks that every stage holds."""

    layers: tuple[int, ...]
    blocks: int


class Cuts(NamedTuple):
    """First layer behind each stage; where they do not fit, the longest prefixes, or nothing."""

    at: tuple[int, ...]
    fits: bool


class Pipeline:
    """The sums that every question reads, made once."""

    def __init__(self, stages: Stages) -> None:
        self.stages, self.count = stages, len(stages.layer_bytes)
        drafts = stages.draft_columns or (0,) * len(stages.columns)
        self.columns = [
            ([0, *accumulate(column)], draft)
            for column, draft in zip(stages.columns, drafts, strict=True)
        ]
        self.layers = [0, *accumulate(stages.layer_bytes)]
        self.held = stages.anchors or tuple(range(self.count))
        left = sum(stages.limits) - self.layers[-1] - stages.first - stages.last
        widest = max((sums[-1] + draft for sums, draft in self.columns), default=0)
        self.most_blocks = left // widest if widest else 0
        """No stage order holds more: all bytes less layers and ends, over the widest column."""

    def room(self, stage: int, *, first: bool, last: bool) -> int:
        """Bytes for layers and blocks on a stage at either end of the pipeline."""
        stages = self.stages
        return stages.limits[stage] - first * stages.first - last * stages.last

    def blocks(self, start: int, end: int, stage: int, *, first: bool, last: bool) -> int | None:
        """Blocks that a stage with the layers [start, end) holds; None: as many as you like."""
        room = self.room(stage, first=first, last=last) - self.layers[end] + self.layers[start]
        sizes = [sums[end] - sums[start] + last * draft for sums, draft in self.columns]
        if room < 0 or not any(sizes):
            return -1 if room < 0 else None
        return room // max(sizes)


class Reach:
    """How far slices reach at a count of blocks.

    A slice [i, j) fits on a stage where, for each column,
    layer bytes of [i, j) + blocks x (column of [i, j) + the draft's on the last) <= room.
    """

    def __init__(self, pipeline: Pipeline, blocks: int) -> None:
        self.pipeline = pipeline
        self._sums = [
            ([w + blocks * c for w, c in zip(pipeline.layers, sums, strict=True)], blocks * draft)
            for sums, draft in pipeline.columns
        ] or [(pipeline.layers, 0)]

    def ends(self, start: int, stage: int, later: int, most: int, *, first: bool) -> range:
        """First layers behind each slice from `start` that fits; empty: none does.

        Parameters
        ----------
        later : stages behind this one, each of which keeps an anchor.
        most : layer bytes on the stage.
        """
        line, held = self.pipeline, self.pipeline.held
        room, end = line.room(stage, first=first, last=not later), line.count
        if most < line.layers[-1]:
            end = bisect_right(line.layers, line.layers[start] + most) - 1
        for sums, draft in self._sums:
            left = room if later else room - draft
            end = min(end, bisect_right(sums, sums[start] + left) - 1)
        least = bisect_right(held, start - 1)
        if least >= len(held) - later:
            return range(0)
        return range(held[least] + 1, (min(end, held[len(held) - later]) if later else end) + 1)

    def cuts(self, order: Sequence[int], most: int) -> Cuts:
        """Every stage as long as it can be; where one then finds no layer that fits, shorter.

        While each stage holds a layer, the longest prefix is never worse: whatever follows from a
        shorter one follows from it.
        """
        cuts, start, later = list[int](), 0, len(order)
        for stage in order:
            later -= 1
            ends = self.ends(start, stage, later, most, first=not cuts)
            if not ends:
                return self._careful(order, most)
            start = ends[-1]
            cuts.append(start)
        return Cuts(tuple(cuts), fits=start == self.pipeline.count)

    def _careful(self, order: Sequence[int], most: int) -> Cuts:
        """From the last stage back: from which starts the rest fits; then the longest stages."""
        good, count = [{self.pipeline.count}], self.pipeline.count
        for later, stage in enumerate(reversed(order)):
            first = later == len(order) - 1
            reached = (
                start
                for start in range(1 if first else count)
                if not good[0].isdisjoint(self.ends(start, stage, later, most, first=first))
            )
            good.insert(0, set(reached))
        cuts, start = list[int](), 0
        if 0 not in good[0]:
            return Cuts((), fits=False)
        for at, stage in enumerate(order):
            ends = self.ends(start, stage, len(order) - 1 - at, most, first=not at)
            start = max(good[at + 1].intersection(ends))
            cuts.append(start)
        return Cuts(tuple(cuts), fits=True)


def best_partition(stages: Stages, order: Sequence[int] | None = None) -> Partition | None:
    """The partition with the most blocks; of those the one whose largest stage is the smallest.

    Of these, early stages take as many layers as they can, so the answer is unique. None where not
    even the layers fit.
    """
    order = range(len(stages.limits)) if order is None else order
    line = Pipeline(stages)
    blocks = most_blocks(line, order)
    return None if blocks is None else Partition(evened(line, order, blocks), blocks)


def most_blocks(line: Pipeline, order: Sequence[int]) -> int | None:
    """The most blocks that every stage can hold; None where the layers alone do not fit.

    What fits with B blocks fits with fewer, so B is bisected. A partition that fits says how many
    it holds; one that does not, below which count some stage would hold a layer more.
    """
    low, high, whole = -1, line.most_blocks, line.layers[-1]
    while low < high:
        middle = (low + high + 1) // 2 if low >= 0 else 0
        cuts, fits = Reach(line, middle).cuts(order, whole)
        ends = cuts if fits else [min(cut + 1, line.count) for cut in cuts]
        held = [high if n is None else n for n in _counts(line, order, ends, cuts)]
        if fits:
            low = max(middle, min(held))
        else:
            high = min(middle - 1, max(held, default=high))
    return None if low < 0 else low


def _counts(
    line: Pipeline, order: Sequence[int], ends: Sequence[int], cuts: Sequence[int]
) -> Iterator[int | None]:
    """Blocks of each stage with the layers from one cut to an end."""
    last = len(order) - 1
    for at, (start, end) in enumerate(zip([0, *cuts], ends, strict=False)):
        yield line.blocks(start, end, order[at], first=not at, last=at == last)


def evened(line: Pipeline, order: Sequence[int], blocks: int) -> tuple[int, ...]:
    """Layers by stage at a count of blocks that fits; the largest stage's layer bytes are least."""
    reach, sums = Reach(line, blocks), line.layers
    most = _largest(sums, reach.cuts(order, sums[-1]).at)
    least = max(-(-sums[-1] // len(order)), *line.stages.layer_bytes)
    while least < most:
        cap = (least + most) // 2
        cuts, fits = reach.cuts(order, cap)
        if fits:
            most = _largest(sums, cuts)
        else:
            least = max(cap + 1, _next_cap(line, cuts, cap))
    return tuple(j - i for i, j in _pairs(reach.cuts(order, most).at))


def _next_cap(line: Pipeline, cuts: Sequence[int], cap: int) -> int:
    """The least limit above a cap that does not do, under which some stage takes a layer more."""
    longer = (line.layers[min(j + 1, line.count)] - line.layers[i] for i, j in _pairs(cuts))
    return min((size for size in longer if size > cap), default=0)


def _pairs(cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Each stage's first layer, and the first behind it."""
    return zip([0, *cuts], cuts, strict=False)


def _largest(sums: Sequence[int], cuts: Sequence[int]) -> int:
    """Layer bytes of the largest stage."""
    return max(sums[j] - sums[i] for i, j in _pairs(cuts))
