"""From layers to vLLM's specs: bytes of a page by KV dtype, sharing among ranks, block sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

from kvplan.models.engines.layers import (
    DTYPE_BITS,
    Architecture,
    Attention,
    Compressed,
    Convolved,
    Cross,
    Latent,
    Layer,
    Recurrent,
    Tensor,
)
from kvplan.models.engines.states import state_tensors
from kvplan.models.engines.vllm.block_groups import Serving
from kvplan.models.engines.vllm.compressed import compressed_rows, compressed_specs
from kvplan.models.engines.vllm.launch.attention_config import indexer_dtype
from kvplan.models.engines.vllm.launch.defaults import draft_kv_dtype, kernel_block, kv_dtype
from kvplan.models.engines.vllm.launch.model_dtype import model_dtype
from kvplan.models.engines.vllm.launch.speculation import Speculation, speculation
from kvplan.models.engines.vllm.launch.state_defaults import state_dtype, state_mode
from kvplan.models.engines.vllm.paging.alignment import aligned_block, padded_states, with_block
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

SCALE_BYTES = 4  # one fp32 scale for each K and each V head of a token
DS_MLA_BYTES = 656  # 512 fp8, 4 fp32 scales, 64 bf16 rotary elements
QUANTUM = 128  # index elements that share one fp32 scale


def specs_of(
    architecture: Architecture, settings: Mapping[str, Any], serving: Serving
) -> tuple[list[Spec], list[int]]:
    """Specs in the order of the layers, and the layer of each; a draft's is behind the target's.

    Raises
    ------
    InvalidProblem : a kind or a dtype that vLLM has no cache for, or heads that do not divide.
    """
    draft = speculation(architecture, settings)
    reader = _Reader(architecture, settings, serving, draft)
    owners: list[int] = []
    specs: list[Spec] = []
    for layer in architecture.target:
        for spec in reader.specs(layer):
            specs.append(spec)
            owners.append(layer.index)
    drafted = [spec for layer in draft.layers for spec in reader.specs(layer, drafted=True)]
    block = aligned_block(specs, settings, serving.version)
    specs = [with_block(spec, block, settings) for spec in (*specs, *drafted)]
    specs = padded_states(specs)
    return specs, [*owners, *(architecture.total_layers for _ in drafted)]


class _Reader:
    """Turns layers into specs of the default block."""

    def __init__(
        self,
        architecture: Architecture,
        settings: Mapping[str, Any],
        serving: Serving,
        draft: Speculation,
    ) -> None:
        self.settings, self.serving, self.draft = settings, serving, draft
        self.ranks = max(1, int(settings["tensor_parallel_size"]))
        self.weights = model_dtype(architecture, settings).value
        self.architecture = architecture
        latent = [layer for layer in architecture.layers if isinstance(layer, Latent)]
        self.sparse = any(layer.index_dim for layer in latent)
        self.block = kernel_block(settings, architecture).value
        self.word = str(kv_dtype(settings, architecture).value)
        skipped = settings["kv_cache_dtype_skip_layers"]
        self.skipped = frozenset((skipped or "").split(",")) - {""}
        self.rows = compressed_rows(architecture, settings, serving.version, self.word)

    def specs(self, layer: Layer, *, drafted: bool = False) -> list[Spec]:
        """Specs of one layer: two where a sparse indexer keeps keys of its own."""
        word = self._element_of(layer, drafted=drafted)
        if isinstance(layer, Attention):
            return [self._attention(layer, word), *self._index_keys(layer)]
        if isinstance(layer, Latent):
            return self._latent(layer, word)
        if isinstance(layer, Compressed):
            return compressed_specs(layer, self.rows)
        if isinstance(layer, Cross):
            return [self._cross(layer, word)]
        if isinstance(layer, Convolved):
            return [self._convolved(layer)]
        return [self._state(layer)]

    def _index_keys(self, layer: Attention) -> list[Spec]:
        """One key of the indexer a token, on every rank: 2 B an element, 1 B as fp8.

        (vllm/models/minimax_m3/common/indexer.py.)
        """
        if not layer.index_dim:
            return []
        bytes_ = layer.index_dim * (1 if indexer_dtype(self.settings) == "fp8" else 2)
        return [Spec("mla", self.block, Fraction(bytes_), identity=(bytes_, "index"))]

    def _convolved(self, layer: Convolved) -> Spec:
        """taps x H x D x e, e of the model's dtype (vllm/models/inkling/nvidia/sconv_swa_attn.py).

        Raises
        ------
        InvalidProblem : a version before 0.29, whose planning has not been compared; or more ranks
            than heads.
        """
        if not self.serving.version.packs_compressed_layers:
            text = self.serving.version.text
            raise InvalidProblem.at("--engine-version", "0.29 or later for this model", text)
        if layer.heads % self.ranks:
            expected = f"a divisor of {layer.heads} heads"
            raise InvalidProblem.at("--tensor-parallel-size", expected, str(self.ranks))
        heads = layer.heads // self.ranks
        row = Fraction(heads * layer.head_dim * self._element("auto"))
        identity = (heads, layer.head_dim, "convolved")
        taps = layer.taps
        return Spec("window", taps, row, reach=taps, identity=identity, fixed_block=True)

    def _cross(self, layer: Cross, word: str) -> Spec:
        """bs x H x 2 D x e, for every position of the encoder (CrossAttentionSpec)."""
        own = Attention(layer.index, "full", layer.kv_heads, layer.head_dim, layer.head_dim)
        return replace(self._attention(own, word), kind="cross", reach=layer.tokens)

    def _element_of(self, layer: Layer, *, drafted: bool) -> str:
        """KV dtype of one layer: the flag's, the draft's, or auto where the layer is skipped."""
        if drafted:
            patched = self.serving.group_layers > 0 or self.serving.compact_windows
            return str(draft_kv_dtype(self.word, self.draft, patched=patched).value)
        windowed = isinstance(layer, Attention) and layer.reach == "window"
        skips = str(layer.index) in self.skipped
        return "auto" if skips or (windowed and "sliding_window" in self.skipped) else self.word

    def _attention(self, layer: Attention, word: str) -> Spec:
        """bs x H x (Dk + Dv) x e; H = max(1, heads // tp)."""
        if max(layer.kv_heads, self.ranks) % min(layer.kv_heads, self.ranks):
            expected = f"a divisor or a multiple of {layer.kv_heads} KV heads"
            raise InvalidProblem.at("--tensor-parallel-size", expected, str(self.ranks))
        heads = layer.heads_of_rank(self.ranks)
        bytes_ = heads * (self._row(layer.key_dim, word) + self._row(layer.value_dim, word))
        kind: Literal["full", "window", "chunked"] = layer.reach
        identity = (heads, layer.key_dim, layer.value_dim, word)
        reach = layer.window or layer.chunk
        cohere = self.architecture.model_type.startswith("cohere2")
        if layer.window and cohere and self.serving.version.window_includes_edge:
            reach = layer.window + 1
        return Spec(kind, self.block, Fraction(bytes_), reach=reach, identity=identity)

    def _row(self, dim: int, word: str) -> int:
        """Bytes of one head's key or value.

        auto, bf16, fp16: 2 a element; fp8: 1; per token-head: 1 and a fp32 scale; nvfp4: half a
        byte, and a fp8 scale for 16 elements.
        """
        if word == "nvfp4":
            if dim % 16:
                raise InvalidProblem.at("--kv-cache-dtype", "heads of a multiple of 16", str(dim))
            return dim // 2 + dim // 16
        if word == "fp8_ds_mla":
            raise InvalidProblem.at("--kv-cache-dtype", "a dtype for keys and values", word)
        if word.endswith("_per_token_head"):
            return dim + SCALE_BYTES
        return dim if word.startswith("fp8") else dim * self._element(word)

    def _element(self, word: str) -> int:
        return DTYPE_BITS[self.weights if word == "auto" else word] // 8

    def _latent(self, layer: Latent, word: str) -> list[Spec]:
        """One vector a token for all heads, on every rank; with its indexer's key of 132 bytes.

        fp8 with a sparse indexer is stored as fp8_ds_mla. The MLA layer names its cache dtype, the
        indexer names none, so that the two never merge.
        """
        if self.sparse and word.startswith("fp8") and not word.endswith("_head"):
            word = "fp8_ds_mla"
        specs = [self._vector(layer, word)]
        if layer.index_dim:
            key = layer.index_dim + layer.index_dim // QUANTUM * 4
            identity = (key, "uint8")
            specs.append(Spec("mla", self.block, Fraction(key), identity=identity))
        return specs

    def _vector(self, layer: Latent, word: str) -> Spec:
        width = layer.latent_dim + layer.rope_dim
        if word == "fp8_ds_mla":
            if (layer.latent_dim, layer.rope_dim) != (512, 64):
                expected = "latents of 512 + 64 elements for fp8_ds_mla"
                raise InvalidProblem.at("--kv-cache-dtype", expected, str(width))
            bytes_ = DS_MLA_BYTES
        elif word == "nvfp4" or word.endswith("_per_token_head"):
            raise InvalidProblem.at("--kv-cache-dtype", "auto or fp8 for MLA", shown(word))
        else:
            bytes_ = width if word.startswith("fp8") else width * self._element(word)
        return Spec("mla", self.block, Fraction(bytes_), identity=(width, word), named_dtype=word)

    def _state(self, layer: Recurrent) -> Spec:
        tensors = state_tensors(
            layer,
            self.ranks,
            self.draft.tokens,
            conv_dtype=self._conv_dtype(),
            state_dtype=self._state_dtype(layer),
        )
        version = self.serving.version
        mode = state_mode(self.settings, version, self.architecture, self.draft).value
        return Spec(
            "mamba",
            self.block,
            state_bytes=sum(tensor.bytes for tensor in tensors),
            mode=mode,
            speculative_blocks=self.draft.tokens,
            identity=_identity(tensors),
        )

    def _conv_dtype(self) -> str:
        word = self.settings["mamba_cache_dtype"]
        return self.weights if word == "auto" else str(word)

    def _state_dtype(self, layer: Recurrent) -> str:
        found = state_dtype(self.settings, self.serving.version, self.architecture, layer)
        return str(found.value or self._conv_dtype())


def _identity(tensors: Sequence[Tensor]) -> tuple[object, ...]:
    return tuple((tensor.shape, tensor.dtype) for tensor in tensors)
