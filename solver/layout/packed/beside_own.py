"""The best packed block beside own pools whose bytes differ by pipeline stage.

Then no single key orders the options: how much of a stage its own pools take depends on the answer.
With the answer guessed, it does, so the answer is bisected.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvplan.solver.layout.found import Found, Objective, Rank, Seen
from kvplan.solver.layout.kinds import Array
from kvplan.solver.layout.layout_candidates import Arrangement
from kvplan.solver.layout.packed.best_key import best_by_key, found_at
from kvplan.solver.layout.packed.capped import Ranks, choose_within_cap
from kvplan.solver.layout.packed.packed_options import Options

MANY = 2**62
"""Blocks that stand for any number of them."""


def best_beside_own(
    options: Sequence[Options],
    arrangement: Arrangement,
    objective: Objective,
    seen: Seen,
    best: Rank | None,
) -> Found | None:
    """Find the least rank by bisection; None where none is as good as `best`.

    A rank r (bytes, or less copies) can be had exactly where some block fits within it, and every
    larger one then can, too.
    """
    search = _Within(options, arrangement, objective, seen)
    found = search.found(_worst(objective, arrangement, options) if best is None else best[0])
    if found is None:
        return None
    low = search.least
    high = found.rank[0]
    while low < high:
        middle = (low + high) // 2
        closer = search.found(middle)
        if closer is None:
            low = middle + 1
        else:
            found, high = closer, closer.rank[0]
    return search.in_fewest_groups(found)


def _worst(objective: Objective, arrangement: Arrangement, options: Sequence[Options]) -> int:
    """A rank that every layout has or beats."""
    if objective.quotas:
        return 0
    most = sum(int(each.blocks.max()) for each in options)
    return max(int(each.sizes.max()) for each in options) * most + max(arrangement.own_bytes)


class _Within:
    """Blocks that fit within a guessed rank."""

    def __init__(
        self,
        options: Sequence[Options],
        arrangement: Arrangement,
        objective: Objective,
        seen: Seen,
    ) -> None:
        self.options, self.arrangement = options, arrangement
        self.objective, self.seen = objective, seen
        most = objective.max_groups
        self.cap = None if most is None else most - len(arrangement.own)

    @property
    def least(self) -> int:
        """A rank that no layout beats: bytes of own pools, or less the copies that these allow."""
        own = self.arrangement.own_bytes
        if not self.objective.quotas:
            return max(own)
        limits = zip(self.objective.quotas, own, strict=True)
        return -min(quota // each for quota, each in limits if each)

    def found(self, rank: int) -> Found | None:
        """A layout of a rank or a better one; None where there is none."""
        keyed = [self._keyed(each, rank) for each in self.options]
        if self.cap is not None:
            return self._capped(keyed, rank, self.cap)
        found = best_by_key(keyed, self.arrangement, self.objective, self.seen)
        return found if found is not None and found.rank[0] <= rank else None

    def in_fewest_groups(self, found: Found) -> Found:
        """The fewest groups among layouts of the same rank."""
        rank = found.rank[0]
        best = self.found(rank) or found
        if self.objective.quotas or rank > self.least:
            return best
        # Own pools alone decide: more blocks than the fewest that fit may take fewer groups.
        keyed = [self._keyed(each, rank) for each in self.options]
        while True:
            fewer = self._capped(keyed, rank, sum(best.groups) - 1)
            if fewer is None:
                return best
            best = fewer

    def _keyed(self, options: Options, rank: int) -> Options:
        """Key options by less the blocks that a stage holds: min of (limit - own) // block."""
        held: Array = None
        copies = -rank if self.objective.quotas else 1
        limits = self.objective.quotas or (rank,) * len(options.sizes)
        for limit, own, sizes in zip(
            limits, self.arrangement.own_bytes, options.sizes.astype(object), strict=True
        ):
            left = limit - copies * own
            without_bytes = MANY if left >= 0 else -1
            each = np.where(sizes > 0, left // np.maximum(sizes, 1), without_bytes)
            held = each if held is None else np.minimum(held, each)
        return options._replace(keys=-held)

    def _capped(self, keyed: Sequence[Options], rank: int, cap: int) -> Found | None:
        chosen = choose_within_cap(keyed, self._ranks(rank), self.seen, cap)
        if chosen is None:
            return None
        found = found_at(self.options, chosen, self.arrangement, self.objective)
        return found if found.rank[0] <= rank else None

    def _ranks(self, rank: int) -> Ranks:
        """Rank keys by whether the blocks fit."""
        copies = -rank if self.objective.quotas else 1
        reserved = self.objective.reserved if self.objective.quotas else 0

        def ranks(keys: Array, blocks: Array) -> tuple[Array, Array]:
            fits = reserved + copies * blocks <= -keys
            return np.where(fits, 0, 1), np.zeros_like(blocks)

        return ranks
