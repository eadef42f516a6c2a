"""How vLLM 0.20 to 0.28 lays out DeepSeek-V4: tuples of pages side by side in a block.

The MLA layers are one group. Windows are split into groups of as many tuples as pad least. What a
block takes, what the check charges a block of a request, and how many blocks the printed
concurrency charges a request are three figures there (vllm/v1/core/kv_cache_utils.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvplan.models.engines.vllm.block_groups import Group, Layout
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.engines.vllm.paging.packed import least_padding
from kvplan.models.engines.vllm.spec import Spec

Indexed = list[tuple[int, Spec]]


@dataclass(frozen=True)
class TupleLayout(Layout):
    """Groups whose first holds every MLA layer.

    Attributes
    ----------
    version : whose bytes are counted.
    """

    version: Version

    def block_bytes(self, stage: int) -> int:
        """Bytes of one block on a rank.

        From 0.27: the widest group's pages. 0.23 to 0.26: of each page size the most layers in a
        group. Before: whole tuples of the MLA group's page sizes.
        """
        groups = self._of(stage)
        if self.version.overlays_tuples:
            return max((group.block_bytes for group in groups), default=0)
        if not self.version.buckets_tuples:
            return self.check_bytes(stage)
        most: Counter[int] = Counter()
        for group in groups:
            most |= _by_page(group)
        return sum(page * count for page, count in most.items())

    def check_bytes(self, stage: int) -> int:
        """What the check charges a block: MLA's page sizes x the most tuples of a group."""
        groups = self._of(stage)
        pages = sum(_by_page(groups[0]))
        return pages * max(max(_by_page(group).values(), default=0) for group in groups)

    def concurrency_blocks(self, stage: int, blocks_of: Callable[[Spec], int]) -> int:
        """Blocks that the printed concurrency charges a request.

        From 0.27 the sum over the groups; before, their bytes over those of the MLA group.
        """
        if self.version.overlays_tuples:
            return super().concurrency_blocks(stage, blocks_of)
        groups = self._of(stage)
        charged = sum(blocks_of(group.spec) * group.block_bytes for group in groups)
        return -(-charged // groups[0].block_bytes)

    def _of(self, stage: int) -> list[Group]:
        return [group.within(self.stages[stage]) for group in self.groups]


def _by_page(group: Group) -> Counter[int]:
    return Counter(spec.page_bytes for spec in group.specs)


def tuple_groups(layers: Indexed, version: Version) -> list[Group]:
    """MLA layers, then windows by block and reach, dealt to groups of one number of tuples.

    The number d of tuples minimises sum((-n) mod d) over all, at least MLA's own, ties to the
    larger. Before 0.27 a window's page is padded to the nearest page of the MLA layers.
    """
    latent = _group([one for one in layers if one[1].kind == "mla"])
    kinds: dict[tuple[object, ...], Indexed] = {}
    for at, spec in layers:
        if spec.kind != "mla":
            kinds.setdefault(spec.family, []).append((at, spec))
    pages = sorted(_by_page(latent))
    if not version.overlays_tuples:
        kinds = {key: [_padded(one, pages) for one in kind] for key, kind in kinds.items()}
    whole = [_group(kind) for kind in kinds.values()]
    counts = [max(_by_page(group).values()) for group in (latent, *whole)]
    width = least_padding(counts, counts[0])
    parts = [part for kind in kinds.values() for part in _dealt(kind, width)]
    return [latent, *parts]


def _padded(one: tuple[int, Spec], pages: Sequence[int]) -> tuple[int, Spec]:
    at, spec = one
    return at, spec.padded_to(min(page for page in pages if page >= spec.page_bytes))


def _dealt(kind: Indexed, width: int) -> list[Group]:
    """Deal tuples of one layer of each page size in turn."""
    by_page: dict[int, Indexed] = {}
    for at, spec in kind:
        by_page.setdefault(spec.page_bytes, []).append((at, spec))
    tuples = list(zip(*by_page.values(), strict=True))
    number = -(-len(tuples) // width)
    return [
        _group([layer for each in tuples[first::number] for layer in each])
        for first in range(number)
    ]


def _group(layers: Indexed) -> Group:
    return Group(tuple(at for at, _ in layers), tuple(spec for _, spec in layers))
