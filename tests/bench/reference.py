"""A lean plain-Python planner after TensorRT-LLM's FIT_TO_QUOTA (PR #19400), for comparison.

Per request and life cycle, requests evaluated one by one; the cached variant: other batches' floors
and the peers' raw slots once, then a bisection over block multiples of the marked request. It is
block-aligned and proves nothing.
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
