"""Bytes of quantised cache rows: blocks of values with their scales (ggml's types, and Strata's).

A row of n values takes n / values x bytes of its type; n must be whole blocks.
"""

from __future__ import annotations

from typing import NamedTuple

from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown


class RowType(NamedTuple):
    """A block of `values` takes `bytes`, scales included."""

    values: int
    bytes: int


ROW_TYPES = {
    "f32": RowType(1, 4),
    "f16": RowType(1, 2),
    "bf16": RowType(1, 2),
    "q8_0": RowType(32, 34),
    "q5_1": RowType(32, 24),
    "q5_0": RowType(32, 22),
    "q4_1": RowType(32, 20),
    "q4_0": RowType(32, 18),
    "iq4_nl": RowType(32, 18),
}
"""Types that llama.cpp takes for --cache-type-k and --cache-type-v (ggml block sizes)."""

STRATA_TYPES = {"int8": RowType(256, 264), "q4_0": ROW_TYPES["q4_0"]}
"""Strata's: int8 keeps 8 bytes of scales for a head of 256 values (Niko1221/Strata #765)."""
STRATA_PAIRS = {"int8": ("int8", "int8"), "k8v4": ("int8", "q4_0"), "q4_0": ("q4_0", "q4_0")}
"""Types of keys and values by Strata's setting; k8v4 keeps keys in int8 and values in q4_0."""


def row_bytes(word: str, values: int, types: dict[str, RowType] | None = None) -> int:
    """Bytes of a row of so many values.

    Raises
    ------
    InvalidProblem : an unknown type, or values that are not whole blocks.
    """
    known = ROW_TYPES if types is None else types
    if word not in known:
        raise InvalidProblem.at("cache type", one_of(known, word), shown(word))
    block = known[word]
    if values % block.values:
        expected = f"a row of whole blocks of {block.values} values for {word}"
        raise InvalidProblem.at("cache type", expected, f"{values} values")
    return values // block.values * block.bytes


def strata_token_bytes(word: str, layers: int, heads: int, head_dim: int) -> int:
    """Bytes a token of Strata's cache: layers x heads x (key row + value row)."""
    keys, values = STRATA_PAIRS[word]
    both = (row_bytes(side, head_dim, STRATA_TYPES) for side in (keys, values))
    return layers * heads * sum(both)
