"""A point evaluated: usable blocks by pool, then bytes by layout.

Budgets whose pools take the same buffers share a layout. While capacities, counts or pools move,
a layout stands for all of its budgets: only the tightest of them counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.bytes import (
    Allocations,
    expert_bytes,
    last_in_pages,
    least_kept,
    most_blocks,
    pool_bytes,
)
from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Budget, Buffers, Instance, PoolRule, Workspace
from kvplan.kernels.workspace import AtChunk

_CONTEXT = PoolRule("context", 0, 0, None, 1, 1, 1)

Place = tuple[int, Allocations]
"""A layout that a pool takes bytes of, and its buffers there."""


class Evaluator(Demand):
    """Needs and bytes of one instance, whatever its limits.

    Staging that follows a variable capacity is searched as a pool more, whose blocks are the
    request's tokens: such contexts come after the pools of the instance, here and nowhere else.

    Attributes
    ----------
    rules : of the pools, then of the contexts.
    """

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        places: dict[tuple[tuple[Buffers, ...], tuple[Workspace, ...]], int] = {}
        self.layout_of = [
            places.setdefault((b.pools, b.workspaces), len(places)) for b in instance.budgets
        ]
        self.buffers: list[tuple[Buffers, ...]] = [pools for pools, _ in places]
        """Buffers by layout and pool; empty where a pool takes nothing."""
        self.places: list[list[Place]] = [[] for _ in instance.pools]
        """By pool: each layout that it takes bytes of, and its buffers there."""
        self._pages: list[int] = []  # by layout: a further page of any pool takes as much at least
        for layout, pools in enumerate(self.buffers):
            self._pages.append(min([page for held in pools for _, page in held], default=0))
            for place, buffers in zip(self.places, pools, strict=bool(pools)):
                if buffers:
                    place.append((layout, buffers))
        self._limited = [(i, most) for i, most in enumerate(self._most) if most is not None]
        self._workspaces = [workspaces for _, workspaces in places]
        self._places_at: dict[int, list[list[Place]]] = {}
        self.rules = instance.pools
        if self.contexts:
            more = len(self.contexts)
            self.rules = (*instance.pools, *[_CONTEXT] * more)
            self._multiples = (*self._multiples, *[1] * more)
            self.reserved = (*self.reserved, *[0] * more)
        self._has_others = [b.staging or b.options or b.layers for b in instance.budgets]

    def places_at(self, chunk: int) -> list[list[Place]]:
        """The places of all pools, and of all contexts at a chunk."""
        if not self.contexts:
            return self.places
        found = self._places_at.get(chunk)
        if found is None:
            found = self._places_at[chunk] = [*self.places]
            for fitted in self.contexts:
                own = [
                    tuple([each for each in workspaces if each.fitted == fitted])
                    for workspaces in self._workspaces
                ]
                found.append(
                    [(n, ((1, AtChunk(mine, chunk)),)) for n, mine in enumerate(own) if mine]
                )
        return found

    def with_contexts(self, usable: Sequence[int], capacities: Sequence[int]) -> tuple[int, ...]:
        """Blocks by pool, then tokens by context."""
        return (*usable, *[capacities[fitted] for fitted in self.contexts])

    def pool_bytes(self, usable: Sequence[int], chunk: int = 0) -> list[int]:
        """Bytes of all pools and contexts by layout, at usable blocks by pool."""
        found, every = [0] * len(self.buffers), self.places
        if self.contexts:
            every = self.places_at(chunk)
        for blocks, reserved, places in zip(usable, self.reserved, every, strict=True):
            held = blocks + reserved
            for layout, buffers in places if held else ():
                found[layout] += pool_bytes(held, buffers)
        return found

    def within_limits(self, usable: Sequence[int]) -> bool:
        """Whether no pool exceeds its max_blocks."""
        return not self._limited or all(usable[pool] <= most for pool, most in self._limited)

    def other_bytes(self, budget: Budget, chunk: int, options: Sequence[int], slots: int) -> int:
        """Bytes of a budget apart from its pools, the fewest slots kept during prefill."""
        total = 0
        experts = self.instance.experts
        if budget.layers and experts is not None:
            kept = least_kept(slots, experts) if budget.lent else slots
            total = expert_bytes(kept, budget.layers, experts)
        if budget.staging:
            total += budget.staging[chunk]
        for option, choice in zip(options, budget.options, strict=True):
            total += choice[option]
        return total

    def rests(
        self, limits: Sequence[int], chunk: int, options: Sequence[int], slots: int
    ) -> list[int]:
        """Bytes by layout that the tightest budget leaves its pools.

        Parameters
        ----------
        limits : bytes by budget.
        """
        found: list[int | None] = [None] * len(self.buffers)
        budgets = zip(self.instance.budgets, self.layout_of, self._has_others, limits, strict=True)
        for budget, layout, has_others, limit in budgets:
            if has_others:
                limit = limit - self.other_bytes(budget, chunk, options, slots)
            known = found[layout]
            if known is None or limit < known:
                found[layout] = limit
        return [rest for rest in found if rest is not None]

    def raise_pool(self, pool: int, usable: list[int], rests: list[int]) -> None:
        """Raise one pool as far as every layout and max_blocks let it; in place.

        Parameters
        ----------
        usable : blocks by pool, which fit.
        rests : bytes that they leave, by layout.
        """
        _, reserved, _, top, multiple, _, _ = self.instance.pools[pool]
        held, has_pages = usable[pool] + reserved, False
        for layout, buffers in self.places[pool]:
            if rests[layout] < self._pages[layout]:
                most = last_in_pages(held, buffers) - reserved
            else:
                has_pages = True
                most = most_blocks(pool_bytes(held, buffers) + rests[layout], buffers) - reserved
            if top is None or most < top:
                top = most
        if top is None or top - top % multiple <= usable[pool]:
            return
        usable[pool] = top - top % multiple
        for layout, buffers in self.places[pool] if has_pages else ():
            rests[layout] += pool_bytes(held, buffers)
            rests[layout] -= pool_bytes(usable[pool] + reserved, buffers)
