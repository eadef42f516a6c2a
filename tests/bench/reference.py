"""A lean plain-Python planner after TensorRT-LLM's KVCacheManagerV2 and its PR #19400.

Per request and life cycle, requests evaluated one by one; the cached variant: other batches' floors
and the peers' raw slots once, then a bisection over block multiples of the marked request; then
every life cycle's floor gives a share of the bytes, and the quota is split among the pool groups by
these shares, in grains. It is block-aligned and proves nothing. Sinks, structural floors and pool
groups are computed as upstream computes them, whether a workload has them or not; scratch, system
prompts and SSM life cycles are left out.
"""

from __future__ import annotations

from typing import NamedTuple

Request = tuple[int, int]  # capacity, history


class LifeCycle(NamedTuple):
    """A window in tokens (0: full attention), its sink in blocks, slot bytes of its pools."""

    window: int
    sink: int
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
        # Life cycles of equal slots share a pool group, in order of first appearance.
        self.groups = list(dict.fromkeys(cycle.slot_bytes for cycle in cycles))
        self.group_of = [self.groups.index(cycle.slot_bytes) for cycle in cycles]
        self.structural = self._structural_floors()
        self._peers: list[int] | None = None

    def _structural_floors(self) -> list[int]:
        """S + (W+t-2)//t + 1 of every window, the largest such figure for full ones, by group."""
        figures = [
            cycle.sink + (cycle.window + self.t - 2) // self.t + 1 if cycle.window else 0
            for cycle in self.cycles
        ]
        widest = max(1, *figures)
        floors = [0] * len(self.groups)
        for group, figure in zip(self.group_of, figures, strict=True):
            floors[group] += figure or widest
        return floors

    def slots(self, request: Request) -> list[int]:
        """Slots of one request in every life cycle: its blocks less the stale range."""
        self.evaluations += 1
        capacity, history = request
        t = self.t
        blocks, written = -(-capacity // t), -(-history // t)
        found = []
        for window, sink, _ in self.cycles:
            if window:
                start = written if written < sink else sink
                end = (history + 1 - window) // t
                live = blocks - (end - start) if end > start else blocks
                found.append(live if live > 0 else 0)
            else:
                found.append(blocks)
        return found

    def raw(self, requests: list[Request]) -> list[int]:
        """Slots of a batch by life cycle."""
        return [sum(column) for column in zip(*map(self.slots, requests), strict=True)]

    def floors(self, raw: list[int], others: list[int]) -> list[int]:
        """ceil(raw / utilization) by group, at least the other batches' and structural floors."""
        num, den = self.use
        by_group = [0] * len(self.groups)
        for group, slots in zip(self.group_of, raw, strict=True):
            by_group[group] += slots
        return [max(-(-r * den // num), o) for r, o in zip(by_group, others, strict=True)]

    def bytes_of(self, counts: list[int]) -> int:
        """Bytes of all pools, each rounded up to the granule."""
        g = self.granule
        return sum(
            -(-count * size // g) * g
            for count, slot in zip(counts, self.groups, strict=True)
            for size in slot
        )

    def fit(self, marked: Request, peers: list[Request], other: list[Request], quota: int) -> int:
        """Largest block-aligned capacity of the marked request, or the requested one."""
        whole = self.floors(
            self.raw([marked, *peers]), self.floors(self.raw(other), self.structural)
        )
        if self.bytes_of(whole) <= quota:
            return marked[0]
        rest = self.raw(peers) if peers else [0] * len(self.cycles)
        self._peers = rest
        others = self.floors(self.raw(other), self.structural)
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
        """The fitted capacity and the slot counts of every pool group."""
        quota = quota // self.granule * self.granule
        capacity = self.fit(marked, peers, other, quota)
        before = self.evaluations  # the slots of the last probe and of the others are kept
        own = self.slots((capacity, capacity - marked[0] + marked[1]))
        rest = self.raw(other)
        self.evaluations = before
        raw = own if self._peers is None else [a + b for a, b in zip(own, self._peers, strict=True)]
        floors = self.floors(raw, self.floors(rest, self.structural))
        return capacity, self.split(floors, self.shares(raw, rest), quota)

    # --- grains --------------------------------------------------------------------------------

    def shares(self, raw: list[int], rest: list[int]) -> list[float]:
        """Share of each pool group: bytes of its life cycles' floors, pools rounded up."""
        num, den = self.use
        g = self.granule
        weights = [
            sum(-(-max(-(-a * den // num), -(-b * den // num)) * size // g) * g for size in slot)
            for a, b, (_, _, slot) in zip(raw, rest, self.cycles, strict=True)
        ]
        total = sum(weights)
        shares = [0.0] * len(self.groups)
        for group, weight in zip(self.group_of, weights, strict=True):
            shares[group] += weight / total
        whole = sum(shares)
        return [share / whole for share in shares]

    def grains(self, slot: tuple[int, ...], count: int) -> int:
        """Grains that a count takes over the pools of one group."""
        g = self.granule
        return sum(-(-count * size // g) for size in slot)

    def most(self, slot: tuple[int, ...], grains: int) -> int:
        """Largest count within a number of grains: a proportional start, doubling, bisection."""
        low = grains * self.granule // sum(slot)
        while low and self.grains(slot, low) > grains:
            low //= 2
        step = 1
        while self.grains(slot, low + step) <= grains:
            low, step = low + step, step * 2
        high = low + step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.grains(slot, middle) <= grains else (low, middle)
        return low

    def split(self, floors: list[int], shares: list[float], quota: int) -> list[int]:
        """Slot counts by shares of the grains, no group below its floor."""
        counts = [0] * len(floors)
        least = [self.grains(*pair) for pair in zip(self.groups, floors, strict=True)]
        free = set(range(len(floors)))
        budget = quota // self.granule
        while free:
            left, share = budget, sum(shares[i] for i in free)
            for i in sorted(free, key=shares.__getitem__):
                grains = round(left * shares[i] / share) if share else left
                counts[i] = self.most(self.groups[i], grains)
                left -= self.grains(self.groups[i], counts[i])
                share -= shares[i]
            pinned = {i for i in free if counts[i] <= floors[i]}
            if not pinned:
                break
            for i in pinned:
                counts[i] = self.most(self.groups[i], least[i])
                budget -= least[i]
            free -= pinned
        return counts
