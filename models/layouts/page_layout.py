"""A layout as plain data: which layers share a group, and the bytes of a block."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvplan.models.base import Frozen
from kvplan.models.immutable.frozen_dict import FrozenMapping

SHARED = "paged"
"""Name of the pool that buckets share."""


class GroupLayers(Frozen):
    """Layers of one bucket in a group."""

    bucket: str = Field(description="name of the bucket")
    layers: tuple[int, ...] = Field(description="positions of its layers in the model")
    page_bytes: int = Field(description="of one layer's page, padding included")


class Group(Frozen):
    """Layers that share one block table."""

    pool: str = Field(description="name of the pool that its blocks come from")
    block_tokens: int = Field(description="tokens of a block on one shard; 0 for states")
    held_full: bool = Field(default=False, description="windows held as full attention is")
    members: tuple[GroupLayers, ...] = Field(description="its layers, by bucket")

    @property
    def layers(self) -> tuple[int, ...]:
        """Positions of all its layers."""
        return tuple(at for member in self.members for at in member.layers)


class PagePool(Frozen):
    """A space of block ids."""

    name: str = Field(description="paged for the shared pool, else the bucket's name")
    block_bytes: FrozenMapping[str, int] = Field(description="of one block on a rank, by stage")
    reserved_blocks: int = Field(default=0, description="allocated, never usable")


class PageLayout(Frozen):
    """Pools, and the groups of layers that draw on them.

    A manager needs no more to lay out its tensors: every group names its layers, the tokens of a
    block and the page of each layer.
    """

    pages: Literal["uniform", "packed", "mixed"] = Field(
        description="one page for all, pages of several sizes in a block, or one group of all"
    )
    page_bytes: int | None = Field(
        default=None, description="the common page of the shared pool; None where pages differ"
    )
    pools: tuple[PagePool, ...] = Field(description="the shared pool first, then own pools")
    groups: tuple[Group, ...] = Field(description="in the order of their buckets")

    def pool(self, name: str) -> PagePool:
        """The pool of a name."""
        return next(pool for pool in self.pools if pool.name == name)

    def pool_groups(self, name: str) -> tuple[Group, ...]:
        """Groups of a pool."""
        return tuple(group for group in self.groups if group.pool == name)
