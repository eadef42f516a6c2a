"""A layout found by a search, how it ranks, and what the search looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.pages import copies_held
from kvplan.models.layouts import LayoutQuestion
from kvplan.solver.layout.kinds import Array
from kvplan.solver.layout.layout_candidates import Arrangement

Rank = tuple[int, int, int, int]
"""Smaller is better: bytes (or less copies), bytes of a copy, groups, block bytes."""


class Found(NamedTuple):
    """One layout.

    Attributes
    ----------
    groups, at : by part, its groups and the index of its block tokens.
    page_bytes : the common page; 0 where pages differ.
    """

    rank: Rank
    arrangement: Arrangement
    groups: tuple[int, ...]
    at: tuple[int, ...]
    page_bytes: int = 0


@dataclass
class Seen:
    """What the searches spanned, looked at and ruled out.

    A candidate is a common page with a width, or in packed blocks a number of groups with block
    tokens of one part; each part then follows from the block.
    """

    candidates: int = 0
    evaluated: int = 0
    pruned: Counter[str] = field(default_factory=Counter)
    packed_by_cpsat: int = 0


@dataclass(frozen=True)
class Objective:
    """What makes one layout better than another.

    Attributes
    ----------
    quotas : of each stage's poorest rank; empty where bytes count.
    """

    quotas: tuple[int, ...]
    reserved: int
    max_groups: int | None

    def keys(
        self, block_bytes: Array, blocks: Array, own_bytes: Sequence[int]
    ) -> tuple[Array, Array]:
        """Rank and bytes of layouts, both smaller for the better.

        bytes: max over stages of block bytes x blocks, and pools of their own; copies: less the
        most copies that every stage holds.

        Parameters
        ----------
        block_bytes : [stage, layout]; blocks : [layout]; own_bytes : [stage].
        """
        own = np.array(own_bytes, dtype=block_bytes.dtype)[:, None]  # [stage, 1]
        held = block_bytes * blocks + own  # [stage, layout]
        taken = held.max(axis=0)
        if not self.quotas:
            return taken, taken
        copies: Any = None
        for quota, block, each, alone in zip(self.quotas, block_bytes, held, own, strict=True):
            nothing = each == 0  # a stage without a layer bounds no copies: count a byte each
            fits = copies_held(quota, block, self.reserved, blocks, alone + nothing)
            copies = fits if copies is None else np.minimum(copies, fits)
        return -np.maximum(copies, 0), taken

    def held_blocks(self, block_bytes: Array) -> Array:
        """Blocks that every stage can hold; a stage without a layer holds any number."""
        most: Any = None
        for quota, each in zip(self.quotas, block_bytes, strict=True):
            held = quota // np.maximum(each, 1)
            most = held if most is None else np.minimum(most, held)
        return most


def objective_of(question: LayoutQuestion) -> Objective:
    """Read what counts."""
    quotas: tuple[int, ...] = ()
    if question.objective == "copies":
        quotas = tuple(question.quota_of(stage) or 0 for stage in question.stages)
    return Objective(quotas, question.reserved_blocks, question.max_groups)


def first_best(*keys: Array) -> int:
    """Index of the lexicographically least entry, the first of equals."""
    places = np.arange(len(keys[0]))
    for key in keys:
        values = key[places]
        places = places[values == values.min()]
    return int(places[0])
