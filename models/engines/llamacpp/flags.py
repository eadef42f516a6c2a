"""llama.cpp's own flags, and the sizes of its context (llama-context.cpp of 0.3.36)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvplan.models.engines.layers import Architecture, Compressed
from kvplan.models.engines.llamacpp.rows import ROW_TYPES
from kvplan.models.engines.registry import Flag
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

PAD = 256  # cells; every context and window is a multiple
TYPES = tuple(ROW_TYPES)

FLAGS = (
    Flag("--available", "bytes", None, "measured: bytes left for the caches"),
    Flag("--ctx-size", "count", 0, "tokens of all sequences; 0 takes the model's"),
    Flag("--parallel", "count", 1, "sequences at once"),
    Flag("--batch-size", "count", 2048, "tokens of a logical batch"),
    Flag("--ubatch-size", "count", 512, "tokens of a physical batch"),
    Flag("--cache-type-k", "word", "f16", "type of keys", TYPES),
    Flag("--cache-type-v", "word", "f16", "type of values", TYPES),
    Flag("--flash-attn", "word", "auto", "off pads value rows", ("auto", "on", "off")),
    Flag("--kv-unified", "switch", False, "sequences share one buffer"),
    Flag("--swa-full", "switch", False, "windows keep the whole context"),
    Flag("--draft-max", "count", 0, "tokens that may be rolled back (n_rs_seq)"),
)


@dataclass(frozen=True)
class Context:
    """Sizes of a context, in tokens and cells.

    Attributes
    ----------
    cells : of a full cache and stream (n_ctx_seq).
    total : over all streams (n_ctx).
    streams : buffers: one for each sequence, or one for all when unified.
    """

    cells: int
    total: int
    streams: int
    sequences: int
    batch: int
    ubatch: int

    def window_cells(self, window: int) -> int:
        """Cells of a window: pad256(min(n_ctx_seq, window + ubatch)); unified: of all sequences."""
        reach = window * (self.sequences if self.streams == 1 else 1)
        return padded(min(self.cells, reach + self.ubatch))


def padded(tokens: int) -> int:
    """Round up to whole runs of 256 cells."""
    return -(-tokens // PAD) * PAD


def context_of(architecture: Architecture, settings: Mapping[str, Any]) -> Context:
    """Sizes of the context.

    ubatch <= batch <= n_ctx. n_ctx is padded to 256; unless unified, n_ctx_seq = pad256(n_ctx //
    sequences) and n_ctx = n_ctx_seq x sequences, which may be more than was asked.

    Raises
    ------
    InvalidProblem : no sequence, no batch, or no context.
    """
    asked = int(settings["ctx_size"]) or architecture.max_positions
    sequences, batch = int(settings["parallel"]), int(settings["batch_size"])
    for flag, count in (("--ctx-size", asked), ("--parallel", sequences), ("--batch-size", batch)):
        if count < 1:
            raise InvalidProblem.at(flag, "at least 1", shown(count))
    batch = min(asked, batch)
    ubatch = min(batch, int(settings["ubatch_size"]) or batch)
    total = padded(asked)
    if settings["kv_unified"]:
        compressed = any(isinstance(one, Compressed) for one in architecture.layers)
        streams = sequences if compressed else 1  # DeepSeek-V4 keeps sequences apart
        return Context(total, total, streams, sequences, batch, ubatch)
    cells = padded(total // sequences)
    return Context(cells, cells * sequences, sequences, sequences, batch, ubatch)
