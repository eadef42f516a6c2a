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
FLASH = ("auto", "on", "off", "1", "0", "true", "false", "enabled", "disabled", "-1")

FLAGS = (
    Flag("--available", "bytes", None, "measured: bytes left for the caches"),
    Flag("--card", "word", None, "--optimize: 23GiB@936GB/s of each card", repeated=True),
    Flag("--host", "word", None, "--optimize: 120GiB@60GB/s of the host"),
    Flag("--compute-buffer", "bytes", None, "measured: CUDA0 compute buffer size (of each card)"),
    Flag("--cuda-context", "bytes", None, "measured: of the process before it loads the model"),
    Flag("--ctx-size", "count", 0, "tokens of all sequences; 0 takes the model's", aliases=("-c",)),
    Flag("--parallel", "word", None, "sequences at once; -1 is the server's 4", aliases=("-np",)),
    Flag("--batch-size", "count", 2048, "tokens of a logical batch", aliases=("-b",)),
    Flag("--ubatch-size", "count", 512, "tokens of a physical batch", aliases=("-ub",)),
    Flag("--cache-type-k", "word", "f16", "type of keys", TYPES, aliases=("-ctk",)),
    Flag("--cache-type-v", "word", "f16", "type of values", TYPES, aliases=("-ctv",)),
    Flag("--flash-attn", "word", "auto", "off pads value rows", FLASH, aliases=("-fa",), bare="on"),
    Flag("--kv-unified", "switch", None, "sequences share one buffer", aliases=("-kvu",)),
    Flag("--swa-full", "switch", False, "windows keep the whole context"),
    Flag(
        "--draft-max",
        "count",
        0,
        "tokens that may be rolled back (n_rs_seq)",
        aliases=("--draft", "--draft-n", "--spec-draft-n-max"),
    ),
    Flag("--mmproj", "word", None, "a projector's file, on the first card", aliases=("-mm",)),
    Flag("--mmproj-offload", "switch", True, "the projector lies on the card"),
    Flag(
        "--n-gpu-layers",
        "word",
        None,
        "layers on the device; default all",
        aliases=("-ngl", "--gpu-layers"),
    ),
    Flag("--device", "word", None, "one device; several are not modelled", aliases=("-dev",)),
    Flag(
        "--split-mode",
        "word",
        "layer",
        "row and tensor are not modelled",
        ("none", "layer"),
        aliases=("-sm",),
    ),
    Flag("--kv-offload", "switch", True, "caches lie on the device", aliases=("-kvo",)),
    Flag("--cpu-moe", "switch", False, "experts stay on the host", aliases=("-cmoe",)),
    Flag("--n-cpu-moe", "count", 0, "layers whose experts do", aliases=("-ncmoe",)),
    Flag("--n-cpu-ffn", "count", 0, "layers whose dense FFN does", aliases=("-ncffn",)),
    Flag(
        "--override-tensor",
        "word",
        None,
        "pattern=buffer of single tensors",
        repeated=True,
        aliases=("-ot",),
    ),
)
SERVER, SERVER_SEQUENCES = "llama-server", 4


def sequences_of(settings: Mapping[str, Any]) -> int:
    """--parallel; a server without one, or with -1, runs 4 (tools/server/server.cpp).

    Raises
    ------
    InvalidProblem : no count, or none of them.
    """
    word = settings["parallel"]
    if is_automatic(settings):
        return SERVER_SEQUENCES
    if word is None:
        return 1
    if not str(word).isdecimal() or int(word) < 1:
        raise InvalidProblem.at("--parallel", "at least 1, or -1 for the server's 4", shown(word))
    return int(word)


def is_automatic(settings: Mapping[str, Any]) -> bool:
    """Whether the server chooses the sequences, which then share one buffer."""
    word = settings["parallel"]
    return str(word) == "-1" or (word is None and settings.get("program") == SERVER)


def is_unified(settings: Mapping[str, Any]) -> bool:
    """Whether sequences share one buffer."""
    return bool(settings["kv_unified"]) or is_automatic(settings)


def is_flash_off(settings: Mapping[str, Any]) -> bool:
    """Whether flash attention was switched off."""
    return settings["flash_attn"] in ("off", "0", "false", "disabled")


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


def longest_context(architecture: Architecture) -> int:
    """The model's own context; converters write 2^20 for Mamba, whose config names none.

    What a config leaves to its class no converter writes.
    """
    if architecture.model_type in ("mamba", "mamba2", "falcon_mamba"):
        return architecture.max_positions or 2**20
    written = architecture.positions.declared or not architecture.positions.lengths
    return architecture.max_positions if written else 0


def context_of(architecture: Architecture, settings: Mapping[str, Any]) -> Context:
    """Sizes of the context.

    ubatch <= batch <= n_ctx. n_ctx is padded to 256; unless unified, n_ctx_seq = pad256(n_ctx //
    sequences) and n_ctx = n_ctx_seq x sequences, which may be more than was asked.

    Raises
    ------
    InvalidProblem : no sequence, no batch, or no context.
    """
    asked = int(settings["ctx_size"]) or longest_context(architecture)
    if not asked and "ctx_size" not in getattr(settings, "given", ()):
        raise InvalidProblem.at("--ctx-size", "tokens (the config names none)", "none")
    sequences, batch = sequences_of(settings), int(settings["batch_size"])
    for flag, count in (("--ctx-size", asked), ("--batch-size", batch)):
        if count < 1:
            raise InvalidProblem.at(flag, "at least 1", shown(count))
    batch = min(asked, batch)
    ubatch = min(batch, int(settings["ubatch_size"]) or batch)
    total = padded(asked)
    if is_unified(settings):
        compressed = any(isinstance(one, Compressed) for one in architecture.layers)
        streams = sequences if compressed else 1  # DeepSeek-V4 keeps sequences apart
        return Context(total, total, streams, sequences, batch, ubatch)
    cells = padded(total // sequences)
    return Context(cells, cells * sequences, sequences, sequences, batch, ubatch)
