"""What is enumerated: which buckets share groups, and which leave the shared pool."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations, product
from math import comb, gcd, prod
from typing import NamedTuple

import numpy as np

from kvplan.kernels.pages import group_count
from kvplan.models import InvalidProblem
from kvplan.models.layouts import Bucket, LayoutQuestion
from kvplan.solver.layout.kinds import Array, Kind, compact, family_of, kinds_of, retained

MOST_SHARING, MOST_WAYS = 6, 4096
"""Buckets of one family whose ways to share groups are enumerated (203 of six); ways in all."""


class Part(NamedTuple):
    """Buckets that share groups: one block size, one need of blocks.

    Attributes
    ----------
    layers : of all its buckets by stage.
    pages : the largest page among its buckets, at each of `tokens`.
    """

    kinds: tuple[Kind, ...]
    layers: tuple[int, ...]
    tokens: Array
    pages: Array
    blocks: Array

    @property
    def pad(self) -> bool:
        """Whether every bucket's page may be padded."""
        return all(kind.pad for kind in self.kinds)

    def least_groups(self, widths: Array) -> Array:
        """Least groups with at most so many layers on each stage: max ceil(n / width).

        Parameters
        ----------
        widths : [width, stage].
        """
        return group_count(np.array(self.layers), widths).max(axis=1)


class Own(NamedTuple):
    """A bucket in a pool of its own, at the block size that takes the fewest bytes.

    Attributes
    ----------
    at : index of its block tokens.
    layer_bytes : weighted, of one layer: page x blocks.
    """

    kind: Kind
    at: int
    layer_bytes: int


class Arrangement(NamedTuple):
    """Who shares groups with whom, and who leaves."""

    parts: tuple[Part, ...]
    own: tuple[Own, ...]
    held_full: bool

    @property
    def own_bytes(self) -> tuple[int, ...]:
        """Weighted bytes in pools of their own, by stage: sum of layers x page x blocks."""
        kinds = [
            *(own.kind for own in self.own),
            *(kind for part in self.parts for kind in part.kinds),
        ]
        return tuple(
            sum(own.kind.layers[stage] * own.layer_bytes for own in self.own)
            for stage in range(len(kinds[0].layers))
        )


def arrangements(question: LayoutQuestion) -> Iterator[Arrangement]:
    """Every way to share groups and to leave the shared pool, the plainest first.

    Raises
    ------
    InvalidProblem : more ways than are enumerated.
    """
    if (ways := ways_of(question)) > MOST_WAYS:
        expected = f"at most {MOST_WAYS:,} ways to share groups and to leave the shared pool"
        raise InvalidProblem.at("buckets", expected, f"{ways:,}")
    holds = [False]
    if any(bucket.hold_full for bucket in question.buckets):
        holds.append(True)
    for held_full, kinds in _permitted(question, holds):
        free = [kind for kind in kinds if question.buckets[kind.place].own_pool]
        for leaving in chain.from_iterable(combinations(free, n) for n in range(len(free) + 1)):
            own = tuple(own_pool(kind) for kind in leaving)
            gone = {kind.place for kind in leaving}
            staying = [kind for kind in kinds if kind.place not in gone]
            for parts in shared_parts(staying, share=question.share_groups):
                yield Arrangement(parts, own, held_full)


def ways_of(question: LayoutQuestion) -> int:
    """Ways to share groups and to leave the shared pool, for each set of block tokens.

    sum over the sets that leave of the product of Bell(buckets of a family that stay): each family
    of n buckets, f of which may leave, counts sum over k of C(f, k) Bell(n - k).
    """
    families: dict[tuple[object, ...], list[Bucket]] = {}
    for bucket in question.buckets:
        rule = family_of(retained(bucket, held_full=False))
        key = rule if question.share_groups else (bucket.name, *rule)
        families.setdefault(key, []).append(bucket)
    return prod(
        sum(comb(free, k) * _bell(len(family) - k) for k in range(free + 1))
        for family in families.values()
        for free in [sum(bucket.own_pool for bucket in family)]
    )


def _bell(number: int) -> int:
    """Partitions of a set: B(n + 1) = sum of C(n, k) B(k)."""
    found = [1]
    for n in range(number):
        found.append(sum(comb(n, k) * found[k] for k in range(n + 1)))
    return found[number]


def _permitted(
    question: LayoutQuestion, holds: Sequence[bool]
) -> Iterator[tuple[bool, tuple[Kind, ...]]]:
    """The buckets by how windows are held, and by what their block tokens have in common."""
    for held_full in holds:
        kinds = compact(kinds_of(question, held_full=held_full))
        if question.max_prefix_tokens is None:
            yield held_full, kinds
        else:
            for within in within_prefix(kinds, question.max_prefix_tokens):
                yield held_full, within


def within_prefix(kinds: Sequence[Kind], most_tokens: int) -> Iterator[tuple[Kind, ...]]:
    """Block tokens whose lcm is at most some tokens: those that divide one common multiple.

    A common multiple up to half of the most has another one above it, so only those in
    (most / 2, most] are tried; they are multiples of what all block tokens are multiples of.
    """
    spans = [kind.tokens * kind.shards for kind in kinds]
    step = gcd(*(int(span) for each in spans for span in each))
    if not step:  # states alone
        yield tuple(kinds)
        return
    tried = set()
    for common in range(most_tokens // step, most_tokens // step // 2, -1):
        kept = [(span == 0) | (common * step % np.maximum(span, 1) == 0) for span in spans]
        key = tuple(each.tobytes() for each in kept)
        if key not in tried and all(each.any() for each in kept):
            tried.add(key)
            yield tuple(kind.only(each) for kind, each in zip(kinds, kept, strict=True))


def own_pool(kind: Kind) -> Own:
    """Lay a bucket out alone: all its layers in one group; of equal bytes the fewest blocks.

    The block tokens of the fewest bytes are the same on every stage: layers only multiply them.
    """
    taken = kind.pages * kind.blocks
    least = taken.min()
    at = int(np.flatnonzero(taken == least)[-1])
    return Own(kind, at, int(least))


def shared_parts(kinds: Sequence[Kind], *, share: bool) -> Iterator[tuple[Part, ...]]:
    """Every way to put buckets of one family into common groups; all apart without `share`.

    Raises
    ------
    InvalidProblem : more buckets of one family than are enumerated.
    """
    families: dict[tuple[object, ...], list[Kind]] = {}
    for kind in kinds:
        key = kind.family if share else (kind.place, *kind.family)
        families.setdefault(key, []).append(kind)
    for family in families.values():
        if len(family) > MOST_SHARING:
            expected = f"at most {MOST_SHARING} buckets of one retention rule beside share_groups"
            raise InvalidProblem.at("buckets", expected, str(len(family)))
    ways = [list(_partitions(family)) for family in families.values()]
    for chosen in product(*ways):
        parts = [part_of(members) for way in chosen for members in way]
        found = [part for part in parts if part is not None]
        if len(found) == len(parts):
            yield tuple(found)


def _partitions(kinds: list[Kind]) -> Iterator[list[list[Kind]]]:
    """Set partitions, all apart first."""
    if not kinds:
        yield []
        return
    first, rest = kinds[0], kinds[1:]
    for way in _partitions(rest):
        yield [[first], *way]
        for index, members in enumerate(way):
            yield [*way[:index], [first, *members], *way[index + 1 :]]


def part_of(kinds: Sequence[Kind]) -> Part | None:
    """Give buckets common groups; None where no block size is permitted to all of them."""
    first = kinds[0]
    layers = tuple(map(sum, zip(*(kind.layers for kind in kinds), strict=True)))
    if len(kinds) == 1:
        return Part((first,), layers, first.tokens, first.pages, first.blocks)
    tokens = first.tokens
    for kind in kinds[1:]:
        tokens = np.intersect1d(tokens, kind.tokens)
    if not len(tokens):
        return None
    places = [np.searchsorted(kind.tokens, tokens) for kind in kinds]
    kept = tuple(
        kind._replace(tokens=tokens, pages=kind.pages[at], blocks=kind.blocks[at])
        for kind, at in zip(kinds, places, strict=True)
    )
    pages = np.maximum.reduce([kind.pages for kind in kept])
    return Part(kept, layers, tokens, pages, kept[0].blocks)
