"""A lean plain-Python planner after TensorRT-LLM's KVCacheManagerV2 and its PR #19400.

Per request and life cycle, requests evaluated one by one; the cached variant: other batches' floors
and the peers' raw slots once, then a bisection over block multiples of the marked request; then the
rest is split in proportion to the floors' bytes, in grains. It is block-aligned and proves nothing.
"""

from __future__ import annotations

from typing import NamedTuple

Request = tuple[int, int]  # capacity, history


class LifeCycle(NamedTuple):
    """A window in tokens (0: full attention) and the slot bytes of its pools."""

    window: int
    slot_bytes: tuple[int, ...]


class Reference:
    """Plans one layout; counts its request evaluations."""

    def __init__(
        self, cycles: list[LifeCycle], tokens_per_block: int, use: tuple[int, int], granule: int
    ) -> None:
        self.cycles = cycles
        self.t = tokens_per_block
        self.use = use
        self.granule = granule
        self.evaluations = 0
        self._peer_raw: list[int] = []

    def slots(self, request: Request) -> list[int]:
        """Slots of one request in every life cycle."""
        self.evaluations += 1
        capacity, history = request
        t = self.t
        blocks = -(-capacity // t)
        return [
            blocks - max(0, (history + 1 - cycle.window) // t) if cycle.window else blocks
            for cycle in self.cycles
        ]

    def raw(self, requests: list[Request]) -> list[int]:
        """Slots of a batch."""
        return [sum(column) for column in zip(*map(self.slots, requests), strict=True)]

    def floors(self, raw: list[int], others: list[int]) -> list[int]:
        """ceil(raw / utilization), at least the other batches' floors."""
        num, den = self.use
        return [max(-(-r * den // num), o) for r, o in zip(raw, others, strict=True)]

    def bytes_of(self, counts: list[int]) -> int:
        """Bytes of all pools, each rounded up to the granule."""
        g = self.granule
        return sum(
            -(-count * size // g) * g
            for count, cycle in zip(counts, self.cycles, strict=True)
            for size in cycle.slot_bytes
        )

    def fit(self, marked: Request, peers: list[Request], other: list[Request], quota: int) -> int:
        """Largest block-aligned capacity of the marked request, or the requested one."""
        none = [0] * len(self.cycles)
        whole = self.floors(self.raw([marked, *peers]), self.floors(self.raw(other), none))
        if self.bytes_of(whole) <= quota:
            return marked[0]
        rest = self.raw(peers) if peers else none
        self._peer_raw = rest
        others = self.floors(self.raw(other), none)
        gap = marked[0] - marked[1]

        def fits(capacity: int) -> bool:
            own = self.slots((capacity, capacity - gap))
            raw = [a + b for a, b in zip(own, rest, strict=True)]
            return self.bytes_of(self.floors(raw, others)) <= quota

        least = max(1, gap)
        if not fits(least):
            raise ValueError("the lower bound does not fit")
        low, high = 0, (marked[0] - 1) // self.t
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle * self.t) else (low, middle - 1)
        return max(least, low * self.t)

    def plan(
        self, marked: Request, peers: list[Request], other: list[Request], quota: int
    ) -> tuple[int, list[int]]:
        """The fitted capacity and the slot counts of every life cycle."""
        capacity = self.fit(marked, peers, other, quota)
        own = self._slots_at(capacity, marked[0] - marked[1])
        rest = [sum(column) for column in zip(own, *self._peer_slots(peers), strict=True)]
        floors = self.floors(rest, [0] * len(self.cycles))
        return capacity, self.split(floors, quota)

    def _slots_at(self, capacity: int, gap: int) -> list[int]:
        before = self.evaluations
        found = self.slots((capacity, capacity - gap))
        self.evaluations = before  # the planner has these slots from its last probe
        return found

    def _peer_slots(self, peers: list[Request]) -> list[list[int]]:
        return [self._peer_raw] if peers else []

    # --- grains --------------------------------------------------------------------------------

    def grains(self, cycle: LifeCycle, count: int) -> int:
        """Grains that a count takes over the pools of one life cycle."""
        g = self.granule
        return sum(-(-count * size // g) for size in cycle.slot_bytes)

    def most(self, cycle: LifeCycle, grains: int) -> int:
        """Largest count within a number of grains: a proportional start, doubling, bisection."""
        low = grains * self.granule // sum(cycle.slot_bytes)
        while low and self.grains(cycle, low) > grains:
            low //= 2
        step = 1
        while self.grains(cycle, low + step) <= grains:
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.grains(cycle, middle) <= grains else (low, middle)
        return low

    def split(self, floors: list[int], quota: int) -> list[int]:
        """Slot counts in proportion to the floors' bytes, none below its floor."""
        weights = [
            self.grains(cycle, floor) for cycle, floor in zip(self.cycles, floors, strict=True)
        ]
        counts = [0] * len(floors)
        free = set(range(len(floors)))
        budget = quota // self.granule
        while free:
            left, weight = budget, sum(weights[i] for i in free)
            for i in sorted(free, key=weights.__getitem__):
                share = round(left * weights[i] / weight) if weight else left
                counts[i] = self.most(self.cycles[i], share)
                left -= self.grains(self.cycles[i], counts[i])
                weight -= weights[i]
            pinned = {i for i in free if counts[i] <= floors[i]}
            if not pinned:
                break
            for i in pinned:
                counts[i] = self.most(self.cycles[i], weights[i])
                budget -= weights[i]
            free -= pinned
        return counts
