"""DeepSeek-V4 in vLLM: a window, compressed rows and the compressor's sums in every layer.

Read from vllm/models/deepseek_v4/{attention,compressor}.py and mla/sparse_swa.py of 0.20 to 0.32.
Nothing is divided by the ranks. Each page is rounded up to what its kernel aligns blocks to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed
from kvplan.models.engines.vllm.launch.attention_config import attention_backend, indexer_dtype
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.engines.vllm.spec import Kind, Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

BLOCK, WINDOW_BLOCK = 256, 64
NEAR, FAR = 4, 128  # tokens of a compressed row
SUM_BLOCKS = {NEAR: 4, FAR: 8}
PACKED_ROW, PACKED_ALIGNMENT = 584, 576  # 448 fp8, 64 bf16 rotary, 8 of scales
PLAIN_ALIGNMENT = 512
PLAIN_BACKEND = "FLASHINFER_MLA_SPARSE_DSV4"
F32, SUMS = 4, 2  # a compressor keeps sums and scores
QUANTUM, FP4_QUANTUM = 128, 32


@dataclass(frozen=True)
class Rows:
    """How a launch stores rows.

    Attributes
    ----------
    packed : fp8_ds_mla; else elements of element_bytes each.
    fp4_keys : the indexer's keys are MXFP4.
    """

    packed: bool = True
    element_bytes: int = 2
    fp4_keys: bool = False

    @property
    def alignment(self) -> int:
        """What pages are rounded up to: FlashMLA's 576 B, FlashInfer's 512 B."""
        return PACKED_ALIGNMENT if self.packed else PLAIN_ALIGNMENT


def compressed_rows(
    architecture: Architecture, settings: Mapping[str, Any], version: Version, word: str
) -> Rows:
    """fp8_ds_mla, unless FlashInfer's backend is asked for by name (_resolve_dsv4_kv_cache_dtype).

    Raises
    ------
    InvalidProblem : a version, block or element that these kernels do not take.
    """
    if not any(isinstance(layer, Compressed) for layer in architecture.layers):
        return Rows()
    if not version.has_compressed_layers:
        expected = "0.20 or later: the first that knows DeepSeek-V4"
        raise InvalidProblem.at("--engine-version", expected, version.text)
    block = settings["block_size"]
    if block not in (None, BLOCK):
        expected = f"{BLOCK}, the only block of DeepSeek-V4's kernels"
        raise InvalidProblem.at("--block-size", expected, str(block))
    fp4 = version.shrinks_fp4_keys and indexer_dtype(settings) == "mxfp4"
    plain = attention_backend(settings) == PLAIN_BACKEND and version.has_plain_compressed_rows
    plain = plain and not str(settings.get("gpu") or "").lower().startswith("rtx")
    if not plain and word not in ("auto", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_ds_mla"):
        expected = f"fp8, or bfloat16 with --attention-backend {PLAIN_BACKEND}"
        raise InvalidProblem.at("--kv-cache-dtype", expected, shown(word))
    if plain and word not in ("auto", "bfloat16", "fp8", "fp8_e4m3"):
        expected = f"bfloat16 or fp8 with --attention-backend {PLAIN_BACKEND}"
        raise InvalidProblem.at("--kv-cache-dtype", expected, shown(word))
    return Rows(not plain, 1 if word.startswith("fp8") else 2, fp4)


def compressed_specs(layer: Compressed, rows: Rows) -> list[Spec]:
    """Caches of one layer, pages rounded up to the alignment.

    window      64 rows
    rows        256 / ratio rows in a block of 256 tokens
    keys        256 / 4 keys of the indexer (ratio 4): 132 B, as MXFP4 68 B
    sums        f32, sums and scores over 2 x 4 tokens in blocks of 4 (ratio 4: two heads of them),
                over 128 in blocks of 8 (ratio 128)
    A draft (MTP) layer has its window alone: its ratio is not looked at.
    """
    width = layer.latent_dim + layer.rope_dim
    row = PACKED_ROW if rows.packed else width * rows.element_bytes
    window = _spec("window", WINDOW_BLOCK, Fraction(row), rows, reach=layer.window)
    if not layer.ratio or layer.draft:
        return [window]
    if layer.ratio not in SUM_BLOCKS:
        raise InvalidProblem.at("compress_ratios", f"0, {NEAR} or {FAR}", str(layer.ratio))
    own = _spec("mla", BLOCK, Fraction(row, layer.ratio), rows)
    specs = [window, own, _sums(layer.ratio, width, rows)]
    if layer.index_dim:
        dim = layer.index_dim
        key = dim // 2 + dim // FP4_QUANTUM if rows.fp4_keys else dim + dim // QUANTUM * F32
        keys = _spec("mla", BLOCK, Fraction(key, layer.ratio), rows)
        specs = [keys, _sums(layer.ratio, dim, rows), *specs]
    return specs


def _sums(ratio: int, width: int, rows: Rows) -> Spec:
    """Running sums of a compressor: of ratio 4 they overlap, so there are two of each."""
    overlap = 2 if ratio == NEAR else 1
    state = Fraction(SUMS * overlap * width * F32)
    return _spec("window", SUM_BLOCKS[ratio], state, rows, reach=overlap * ratio)


def _spec(kind: Kind, block: int, row: Fraction, rows: Rows, reach: int | None = None) -> Spec:
    page = int(block * row)
    aligned = -(-page // rows.alignment) * rows.alignment
    return Spec(
        kind,
        block,
        row,
        padded_bytes=aligned,
        reach=reach,
        identity=(row, rows.packed),
        fixed_block=True,
    )
