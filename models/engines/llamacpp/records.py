"""What llama.cpp allocates: a cache of cells, and a cache of states."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TokenCache:
    """A cache of keys and values.

    Attributes
    ----------
    name : "full", "window", "index", or "ratio" and the tokens of a compressed row.
    window : tokens of the window or of the local chunk; 0 for full.
    cells, streams : the buffer has cells x streams rows.
    key_bytes, value_bytes : of one cell over all layers.
    host_key_bytes, host_value_bytes : of them, those of layers on the host.
    ratio : tokens of a cell.
    widest_row_bytes : of one cell in one layer, keys or values: a tensor has all cells of it.
    """

    name: str
    window: int
    layers: int
    cells: int
    streams: int
    key_bytes: int
    value_bytes: int
    ratio: int = 1
    host_key_bytes: int = 0
    host_value_bytes: int = 0
    widest_row_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the whole buffer."""
        return self.cells * self.streams * (self.key_bytes + self.value_bytes)


@dataclass(frozen=True)
class StateCache:
    """A cache of states: `rows` of each sequence (1 + what may be rolled back)."""

    layers: int
    sequences: int
    rows: int
    conv_bytes: int
    recurrent_bytes: int
    host_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of the whole buffer."""
        return self.sequences * self.rows * (self.conv_bytes + self.recurrent_bytes)
