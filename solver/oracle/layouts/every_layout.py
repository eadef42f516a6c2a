"""Every layout of a small model: all groupings of its layers x all block sizes, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import NamedTuple

from kvplan.models.layouts import Bucket, LayoutQuestion
from kvplan.solver.oracle.layouts.laid_out import (
    Slot,
    block_end,
    held_copies,
    page,
    rule_of,
    workload_blocks,
)

Grouping = tuple[tuple[Slot, ...], ...]


class Best(NamedTuple):
    """The best layout's figures: less copies (0 for objective bytes), bytes, groups."""

    fewer_copies: int
    bytes: Fraction
    groups: int


def best_layout(question: LayoutQuestion) -> Best | None:
    """Try every layout; None where none is permitted.

    For each choice of buckets that leave the shared pool, of block tokens for every bucket, and of
    groups for every layer that stays, the pages are laid out and the blocks counted.
    """
    best: Best | None = None
    holds = (False, True) if any(bucket.hold_full for bucket in question.buckets) else (False,)
    free = [index for index, bucket in enumerate(question.buckets) if bucket.own_pool]
    for full in holds:
        for count in range(len(free) + 1):
            for leaving in combinations(free, count):
                for found in _of(question, frozenset(leaving), full):
                    best = found if best is None else min(best, found)
    return best


def _of(question: LayoutQuestion, leaving: frozenset[int], full: bool) -> Iterator[Best]:
    staying = [index for index in range(len(question.buckets)) if index not in leaving]
    slots = tuple(
        Slot(index, stage)
        for index in staying
        for stage, layers in question.buckets[index].by_stage.items()
        for _ in range(layers)
    )
    groupings = _groupings(slots)
    for tokens in product(*(_block_tokens(bucket) for bucket in question.buckets)):
        rows = _Tokens(question, tokens, full)
        own = [
            sum((rows.alone(index, stage) for index in leaving), Fraction(0))
            for stage in question.stages
        ]
        for grouping in groupings:
            if rows.permits(grouping, leaving):
                yield from rows.laid_out(grouping, own, len(leaving))


def _block_tokens(bucket: Bucket) -> Sequence[int]:
    if bucket.kind == "state":
        return (0,)
    start = bucket.tokens_per_block or 16
    if bucket.token_bytes is None:
        return (start,)
    return [
        tokens
        for tokens in range(1, bucket.max_tokens_per_block + 1)
        if tokens % (bucket.kernel_tokens if bucket.split else start) == 0
    ]


@cache
def _groupings(slots: tuple[Slot, ...]) -> tuple[Grouping, ...]:
    """Every way to put layers into groups; layers of one bucket and stage are alike."""
    if not slots:
        return ((),)
    first, rest = slots[0], slots[1:]
    found = set()
    for grouping in _groupings(rest):
        found.add(_sorted((*grouping, (first,))))
        for index, group in enumerate(grouping):
            joined = (*grouping[:index], (*group, first), *grouping[index + 1 :])
            found.add(_sorted(joined))
    return tuple(sorted(found))


def _sorted(grouping: Grouping) -> Grouping:
    return tuple(sorted(tuple(sorted(group)) for group in grouping))


class _Tokens:
    """A model with the block tokens of every bucket decided."""

    def __init__(self, question: LayoutQuestion, tokens: Sequence[int], full: bool) -> None:
        self.question, self.tokens = question, tokens
        self.full = [full and bucket.hold_full for bucket in question.buckets]
        rows = list(zip(question.buckets, tokens, self.full, strict=True))
        self.pages = [page(bucket, each) for bucket, each, _ in rows]
        self.needs = [
            workload_blocks(question, bucket, each, full=held) for bucket, each, held in rows
        ]
        self.rules = [(rule_of(bucket, full=held), each) for bucket, each, held in rows]

    @property
    def _reuses_prefixes(self) -> bool:
        """Whether some prefix of at most max_prefix_tokens ends at a block's end in every group."""
        most = self.question.max_prefix_tokens
        spans = [
            tokens * (bucket.shards or 1)
            for bucket, tokens in zip(self.question.buckets, self.tokens, strict=True)
            if tokens
        ]
        return (
            most is None
            or not spans
            or any(all(prefix % span == 0 for span in spans) for prefix in range(1, most + 1))
        )

    def alone(self, index: int, stage: int) -> Fraction:
        """Bytes of a bucket in a pool of its own on a stage: all its layers there in one group."""
        layers = self.question.buckets[index].by_stage.get(stage, 0)
        return block_end([self.pages[index]] * layers) * self.needs[index]

    def permits(self, grouping: Grouping, leaving: frozenset[int]) -> bool:
        """Whether layers may share these groups: of one bucket, or of one rule where permitted.

        One group of all layers of one rule is always permitted: its blocks need no common page.
        """
        if not self._reuses_prefixes:
            return False
        most = self.question.max_groups
        if most is not None and len(grouping) + len(leaving) > most:
            return False
        share = self.question.share_groups or len(grouping) == 1
        for group in grouping:
            buckets = {slot.bucket for slot in group}
            if len(buckets) > 1 and (not share or len({self.rules[b] for b in buckets}) > 1):
                return False
        return True

    def laid_out(self, grouping: Grouping, own: Sequence[Fraction], alone: int) -> Iterator[Best]:
        """Lay a grouping out with its own pages, and with a common page, where permitted."""
        buckets = {slot.bucket for group in grouping for slot in group}
        uniform = self.question.pages == "uniform"
        mixes = any(len({slot.bucket for slot in group}) > 1 for group in grouping)
        if not uniform or len(grouping) <= 1:
            yield self._taken(grouping, self.pages, own, alone)
        if uniform and grouping and (self.question.share_groups or not mixes):
            common = max(self.pages[bucket] for bucket in buckets)
            padded = [common] * len(self.pages)
            if all(self.question.buckets[b].pad or self.pages[b] == common for b in buckets):
                yield self._taken(grouping, padded, own, alone)

    def _taken(
        self, grouping: Grouping, pages: Sequence[int], own: Sequence[Fraction], alone: int
    ) -> Best:
        question = self.question
        blocks = sum((self.needs[group[0].bucket] for group in grouping), Fraction(0))
        sizes = [
            max(
                (
                    block_end(pages[slot.bucket] for slot in group if slot.stage == stage)
                    for group in grouping
                ),
                default=0,
            )
            for stage in question.stages
        ]
        taken = max(size * blocks + each for size, each in zip(sizes, own, strict=True))
        copies = 0
        if question.objective == "copies":
            copies = held_copies(question, sizes, int(blocks), [int(each) for each in own])
        return Best(-copies, taken, len(grouping) + alone)
