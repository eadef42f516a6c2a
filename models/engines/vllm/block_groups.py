"""Groups of layers that share a block table, and the bytes of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.engines.vllm.spec import Spec


@dataclass(frozen=True)
class Serving:
    """What the server was asked for, as far as the pool depends on it.

    Attributes
    ----------
    length_tokens : --max-model-len.
    batch_tokens : --max-num-batched-tokens.
    batches_in_flight : steps whose tokens are not settled yet (max_concurrent_batches).
    context_shards : --decode-context-parallel-size.
    packed : a block-outermost layout (VLLM_KV_CACHE_LAYOUT=BLHNC).
    checkpoint_blocks : prefill checkpoints of a state in mode align.
    retained_tokens : draft tokens - 1 under multi-module MTP: windows keep them beyond their edge.
    group_layers : layers of a group where a patched build fixes it; 0: the version's own rule.
    compact_windows : a patched build halves the block of a window whose page is the largest.
    strided : the attention backend reads pages by the block's stride, so odd ones can be padded.
    """

    version: Version
    length_tokens: int
    batch_tokens: int
    batches_in_flight: int = 1
    context_shards: int = 1
    packed: bool = False
    unify_hybrid: bool = False
    checkpoint_blocks: int = 0
    retained_tokens: int = 0
    group_layers: int = 0
    compact_windows: bool = False
    strided: bool = False

    @property
    def flight_tokens(self) -> int:
        """Tokens in flight that a window or chunk holds.

        batch_tokens up to 0.25, batches_in_flight x batch_tokens from 0.26 on.
        """
        batches = self.batches_in_flight if self.version.flight_counts_batches else 1
        return batches * self.batch_tokens


@dataclass(frozen=True)
class Group:
    """Layers that share one block table.

    Attributes
    ----------
    layers : positions among the layers that have a cache.
    specs : of each of them.
    """

    layers: tuple[int, ...]
    specs: tuple[Spec, ...]

    @property
    def spec(self) -> Spec:
        """The first layer's; all need the same number of blocks."""
        return self.specs[0]

    @property
    def block_bytes(self) -> int:
        """Bytes of all its layers' pages in one block."""
        return sum(spec.page_bytes for spec in self.specs)

    def within(self, layers: range) -> Group:
        """Keep the layers of a pipeline stage."""
        kept = [pair for pair in zip(self.layers, self.specs, strict=True) if pair[0] in layers]
        return Group(tuple(layer for layer, _ in kept), tuple(spec for _, spec in kept))


@dataclass(frozen=True)
class Layout:
    """How all caches of a model share one pool.

    Attributes
    ----------
    groups : in vLLM's order.
    stages : layers (positions) of each pipeline stage.
    """

    groups: tuple[Group, ...]
    stages: tuple[range, ...]

    def block_bytes(self, stage: int) -> int:
        """Bytes of one block on a rank of a stage: the widest group's pages there."""
        layers = self.stages[stage]
        return max((group.within(layers).block_bytes for group in self.groups), default=0)

    def check_bytes(self, stage: int) -> int:
        """What the check charges for each block that a request needs: its bytes."""
        return self.block_bytes(stage)

    def concurrency_blocks(self, stage: int, blocks_of: Callable[[Spec], int]) -> int:
        """Blocks that the printed concurrency charges a request: the sum over the groups."""
        return sum(blocks_of(group.spec) for group in self.groups)

    @property
    def padding_layers(self) -> int:
        """Layers' worth of pages in a block that no layer uses, over all groups."""
        widest = max((len(group.layers) for group in self.groups), default=0)
        return sum(widest - len(group.layers) for group in self.groups)


def stages_of(counts: Sequence[int]) -> tuple[range, ...]:
    """Turn layers a stage into ranges of positions."""
    ends = [sum(counts[: index + 1]) for index in range(len(counts))]
    return tuple(range(end - count, end) for end, count in zip(ends, counts, strict=True))
