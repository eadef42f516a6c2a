"""Life cycles, coalesced buffers and pool groups of TensorRT-LLM's KVCacheManagerV2.

(tensorrt_llm/runtime/kv_cache_manager_v2: _life_cycle_registry.py, _storage/_config.py)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class LayerBuffers:
    """Buffers of one block of a layer (or of `count` alike layers).

    Attributes
    ----------
    buffers : bytes of each buffer of a block of the manager's tokens_per_block.
    window : tokens that are seen; None for all.
    sink : first tokens that a window keeps.
    state : a state of fixed size; window and sink do not apply.
    max_slots : slots at most, for states.
    """

    buffers: tuple[int, ...]
    window: int | None = None
    sink: int = 0
    state: bool = False
    count: int = 1
    max_slots: int | None = None


@dataclass(frozen=True)
class LifeCycle:
    """Layers with one retention rule; one slot holds one block of all of them."""

    layers: tuple[LayerBuffers, ...]
    window: int | None
    sink: int
    state: bool

    @property
    def coalesced(self) -> dict[int, int]:
        """Count of a slot's buffers by their bytes: those of equal bytes are one buffer."""
        counts: dict[int, int] = {}
        for layer in self.layers:
            for size in layer.buffers:
                counts[size] = counts.get(size, 0) + layer.count
        return counts

    @property
    def slot_sizes(self) -> tuple[int, ...]:
        """Bytes of the coalesced buffers, the largest first; sizes that coincide stay apart."""
        return tuple(sorted((size * n for size, n in self.coalesced.items()), reverse=True))

    @property
    def layer_share(self) -> Fraction:
        """Largest share of a slot's buffer that one layer uses: what a scratch block takes."""
        counts = self.coalesced
        return max(
            Fraction(layer.buffers.count(size), counts[size])
            for layer in self.layers
            for size in layer.buffers
        )

    def sink_blocks(self, block: int) -> int:
        """Blocks that the sink keeps."""
        return -(-self.sink // block)


@dataclass(frozen=True)
class PoolGroup:
    """Life cycles of equal slots, which share their pools."""

    slot_sizes: tuple[int, ...]
    cycles: tuple[LifeCycle, ...]

    @property
    def states_only(self) -> bool:
        """Whether no attention draws on the group."""
        return all(cycle.state for cycle in self.cycles)

    @property
    def max_slots(self) -> int | None:
        """Limit of its state layers; None without one."""
        limits = [
            layer.max_slots
            for cycle in self.cycles
            for layer in cycle.layers
            if layer.max_slots is not None
        ]
        return min(limits, default=None)


def life_cycles(layers: Iterable[LayerBuffers], block: int) -> list[LifeCycle]:
    """Group layers by their rule, in the order of first use.

    One life cycle for each window (in tokens) and sink (in blocks); all states are one.
    """
    found: dict[tuple[object, ...], list[LayerBuffers]] = {}
    for layer in layers:
        sink = -(-layer.sink // block)
        key = ("state",) if layer.state else (layer.window, sink)
        found.setdefault(key, []).append(layer)
    return [
        LifeCycle(tuple(members), members[0].window, members[0].sink, members[0].state)
        for members in found.values()
    ]


def pool_groups(cycles: Sequence[LifeCycle]) -> list[PoolGroup]:
    """Group life cycles by their slot sizes, in the order of first appearance."""
    found: dict[tuple[int, ...], list[LifeCycle]] = {}
    for cycle in cycles:
        found.setdefault(cycle.slot_sizes, []).append(cycle)
    return [PoolGroup(sizes, tuple(members)) for sizes, members in found.items()]
