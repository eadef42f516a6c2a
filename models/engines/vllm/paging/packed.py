"""Pages of several sizes side by side in one block: vLLM's block-outermost layouts (from 0.29)."""

from __future__ import annotations

from dataclasses import dataclass

from kvplan.models.engines.vllm.block_groups import Group
from kvplan.models.engines.vllm.spec import Spec

Indexed = list[tuple[int, Spec]]


@dataclass
class Bucket:
    """Layers of one family, by page size in the order met."""

    layers: Indexed

    @property
    def by_page(self) -> dict[int, Indexed]:
        """Layers of each page size."""
        pages: dict[int, Indexed] = {}
        for at, spec in self.layers:
            pages.setdefault(spec.page_bytes, []).append((at, spec))
        return pages

    @property
    def repeats(self) -> int:
        """Most layers of one page size."""
        return max(map(len, self.by_page.values()))

    @property
    def balanced(self) -> bool:
        """As many layers of each page size: a pattern that repeats."""
        return len(set(map(len, self.by_page.values()))) == 1

    @property
    def mixed(self) -> bool:
        """A repeating pattern of several page sizes."""
        return self.balanced and len(self.by_page) > 1

    @property
    def kind(self) -> str:
        """Kind of its layers."""
        return self.layers[0][1].kind

    def widest_bytes(self, groups: int) -> int:
        """Page bytes of the widest of `groups` groups that this bucket is split into."""
        return sum(-(-len(alike) // groups) * page for page, alike in self.by_page.items())

    def split(self, groups: int) -> list[Group]:
        """Deal the repeats of the pattern in turn."""
        if groups == 1:
            return [_group(self.layers)]
        repeats = list(zip(*self.by_page.values(), strict=False))
        return [
            _group([layer for repeat in repeats[first::groups] for layer in repeat])
            for first in range(groups)
        ]


def packed_groups(layers: Indexed, *, split_windows: bool) -> list[Group]:
    """Group layers of several page sizes.

    Buckets of one family; with repeating patterns of mixed pages, the repeats d of a group minimise
    the padding sum((-n) mod d) over the balanced buckets, d at least the longest mixed pattern,
    ties to the larger. States never widen a block: a group holds at most anchor // page of them,
    anchor being the widest group of the other buckets (one state a group for states).

    Parameters
    ----------
    split_windows : without mixed patterns, windows are split like states (from 0.33 on).
    """
    buckets = _buckets(layers)
    least = max((bucket.repeats for bucket in buckets if bucket.mixed), default=0)
    balanced = [bucket.repeats for bucket in buckets if bucket.balanced]
    width = least_padding(balanced, least) if least else None
    split_windows = split_windows and width is None
    elastic = [b.kind == "mamba" or (split_windows and b.kind == "window") for b in buckets]
    numbers = [_groups_of(bucket, width) for bucket in buckets]
    anchor = max(
        bucket.widest_bytes(len(bucket.layers) if is_elastic else number)
        for bucket, number, is_elastic in zip(buckets, numbers, elastic, strict=True)
    )
    groups = []
    for bucket, number, is_elastic in zip(buckets, numbers, elastic, strict=True):
        if is_elastic:
            in_a_block = max(anchor // bucket.layers[0][1].page_bytes, 1)
            number = max(number, -(-len(bucket.layers) // in_a_block))
        groups += bucket.split(number)
    return groups


def _buckets(layers: Indexed) -> list[Bucket]:
    found: dict[tuple[object, ...], Bucket] = {}
    for at, spec in layers:
        found.setdefault(spec.family, Bucket([])).layers.append((at, spec))
    return list(found.values())


def _groups_of(bucket: Bucket, width: int | None) -> int:
    return -(-bucket.repeats // width) if width is not None and bucket.balanced else 1


def least_padding(counts: list[int], least: int) -> int:
    """The width d in [least, max] with the least sum((-n) mod d), the larger of equals."""
    return min(
        range(least, max(counts) + 1), key=lambda width: (sum(-n % width for n in counts), -width)
    )


def _group(layers: Indexed) -> Group:
    return Group(tuple(at for at, _ in layers), tuple(spec for _, spec in layers))
