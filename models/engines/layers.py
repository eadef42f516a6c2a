"""The vocabulary of layers: what one layer keeps for a request, whatever engine runs it.

A `Layer` is one of six kinds; each keeps its geometry undivided by tensor parallelism:

Attention   keys and values by head: full, sliding window, or chunked local
Latent      one vector a token for all heads (MLA), with or without an indexer's keys
Compressed  DeepSeek-V4: a window of latent vectors beside one compressed row every `ratio` tokens
Recurrent   a state of fixed size, independent of the context
Cross       keys and values of the encoder's output, as long as the encoder's input
Convolved   inputs of short convolutions, kept in blocks like a window

A layer that keeps nothing (an expert layer of a hybrid, a pruned attention, a layer that reads
another's keys and values) is no `Layer`; `index` keeps the position among all layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvplan.models.engines.positions import Positions

DTYPE_BITS = {
    "float32": 32,
    "float16": 16,
    "bfloat16": 16,
    "float8_e4m3fn": 8,
    "float8_e5m2": 8,
    "int8": 8,
    "uint8": 8,
}
"""Bits of one element."""

Reach = Literal["full", "window", "chunked"]
Recurrence = Literal["mamba1", "mamba2", "gdn", "kda", "linear", "short_conv"]


@dataclass(frozen=True)
class Tensor:
    """One tensor of a state: `shape` of a request on one rank, and the element type."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        """Product of the shape."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        """Bytes of one request's tensor."""
        return self.elements * DTYPE_BITS[self.dtype] // 8


@dataclass(frozen=True)
class Attention:
    """Keys and values by head.

    Attributes
    ----------
    kv_heads, key_dim, value_dim : of the whole model, not of a rank.
    window : tokens a query can see, itself included (reach window).
    chunk : tokens of a local chunk (reach chunked).
    index_dim : elements of a sparse indexer's key a token, the same on every rank; 0 without one.
    """

    index: int
    reach: Reach
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None
    chunk: int | None = None
    draft: bool = False
    index_dim: int = 0

    def heads_of_rank(self, tensor_parallel: int) -> int:
        """KV heads on one rank: max(1, kv_heads // tp); above the heads they are replicated."""
        return max(1, self.kv_heads // tensor_parallel)


@dataclass(frozen=True)
class Latent:
    """One latent vector a token (MLA): latent_dim + rope_dim elements, the same on every rank.

    Attributes
    ----------
    index_dim : elements of the sparse indexer's key a token; 0 where this layer owns none (no
        indexer at all, or one shared with an earlier layer).
    """

    index: int
    latent_dim: int
    rope_dim: int
    index_dim: int = 0
    draft: bool = False


@dataclass(frozen=True)
class Compressed:
    """DeepSeek-V4: a window of latent vectors, and one compressed row every `ratio` tokens.

    Attributes
    ----------
    ratio : tokens of a compressed row; 0 where the layer has its window alone.
    index_dim : of the indexer's key of a compressed row; 0 without an indexer.
    """

    index: int
    window: int
    latent_dim: int
    rope_dim: int
    ratio: int
    index_dim: int = 0
    draft: bool = False


@dataclass(frozen=True)
class Recurrent:
    """A state of fixed size.

    Attributes
    ----------
    heads, head_dim, state_dim : the recurrent state is [heads, head_dim, state_dim]; mamba1 has one
        "head" of head_dim = d_inner; short_conv has none (heads 0).
    groups : key heads (gdn, kda) or B/C groups (mamba2); 0 elsewhere.
    conv_kernel : taps of the causal convolution; 0 without one.
    conv_channels : undivided; without the padding of groups that some engines add.
    state_dtype : what the config says of the recurrent state; None where it says nothing.
    chunk : tokens that a scan step takes (mamba2); 0 where unknown.
    """

    index: int
    recurrence: Recurrence
    heads: int
    head_dim: int
    state_dim: int
    groups: int
    conv_kernel: int
    conv_channels: int
    state_dtype: str | None = None
    chunk: int = 0
    draft: bool = False


@dataclass(frozen=True)
class Cross:
    """Keys and values of an encoder's output, which a decoder layer attends to.

    Attributes
    ----------
    tokens : most positions of the encoder.
    """

    index: int
    kv_heads: int
    head_dim: int
    tokens: int
    draft: bool = False


@dataclass(frozen=True)
class Convolved:
    """Inputs of a layer's short convolutions, by head: the last `taps` tokens, one block each.

    Attributes
    ----------
    heads : of the whole model; a rank has its share.
    head_dim : elements of a head a token, of the model's dtype.
    taps : of the convolutions, and tokens of a block.
    """

    index: int
    heads: int
    head_dim: int
    taps: int
    draft: bool = False


Layer = Attention | Latent | Compressed | Recurrent | Cross | Convolved


@dataclass(frozen=True)
class Architecture:
    """A model as far as its caches go.

    Attributes
    ----------
    name : class of the checkpoint, such as Qwen3ForCausalLM.
    model_type : of the config that holds the layers (the nested text_config's where there is one).
    dtype : of the weights, which "auto" means for caches.
    layers : those that keep something, draft layers (MTP) last and marked.
    total_layers : of the target model, those that keep nothing included.
    max_positions : longest context the checkpoint declares.
    vocabulary, hidden_dim, query_heads : for estimates; 0 where the config does not say.
    read : config fields that decided, for the report.
    experts : of a mixture; 0 for a dense model.
    experts_used : of a mixture, those that a token reads.
    kv_dtype : fp8 or nvfp4 where the checkpoint's quantization asks for such a cache; else empty.
    positions : lengths and rotary parameters, from which each engine derives its own longest.
    """

    name: str
    model_type: str
    dtype: str
    layers: tuple[Layer, ...]
    total_layers: int
    max_positions: int
    vocabulary: int = 0
    hidden_dim: int = 0
    query_heads: int = 0
    read: tuple[str, ...] = field(default=())
    experts: int = 0
    experts_used: int = 0
    kv_dtype: str = ""
    positions: Positions = field(default_factory=Positions)

    @property
    def lengths(self) -> Mapping[str, int]:
        """Tokens by the config's keys; without a config, what was declared."""
        declared = {"max_position_embeddings": self.max_positions} if self.max_positions else {}
        return self.positions.lengths or declared

    @property
    def target(self) -> tuple[Layer, ...]:
        """Layers of the target model, without drafts."""
        return tuple(layer for layer in self.layers if not layer.draft)

    @property
    def draft(self) -> tuple[Layer, ...]:
        """Draft (MTP) layers."""
        return tuple(layer for layer in self.layers if layer.draft)
