"""One layer's cache as vLLM describes it (vllm/v1/kv_cache_interface.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

Kind = Literal["full", "mla", "window", "chunked", "mamba", "cross"]
Mode = Literal["none", "align", "all"]


@dataclass(frozen=True)
class Spec:
    """The cache of one layer on one rank.

    Attributes
    ----------
    block_tokens : tokens of a block.
    token_bytes : of keys and values a token; 0 for a state.
    state_bytes : of one request's state; 0 for attention.
    padded_bytes : what a page is padded to; None where it is not.
    reach : window or chunk, or positions of the encoder, in tokens; of a promoted layer the one
        that its kernel still has.
    mode, speculative_blocks : of a state: none, align or all; one block a draft token.
    identity : what else tells two specs apart (heads, dims, dtype, named cache dtype).
    named_dtype : MLA: the cache dtype that the layer names; None where it names none.
    fixed_block : the layer's kernel takes this block and no other.
    """

    kind: Kind
    block_tokens: int
    token_bytes: Fraction = Fraction(0)
    state_bytes: int = 0
    padded_bytes: int | None = None
    reach: int | None = None
    mode: Mode = "none"
    speculative_blocks: int = 0
    identity: tuple[object, ...] = ()
    named_dtype: str | None = None
    fixed_block: bool = False

    @property
    def own_bytes(self) -> int:
        """Bytes of a page before padding: block_tokens x token_bytes, or the state's."""
        if self.kind == "mamba":
            return self.state_bytes
        exact = self.block_tokens * self.token_bytes
        return -(-exact.numerator // exact.denominator)

    @property
    def page_bytes(self) -> int:
        """Bytes of one block of this layer."""
        return self.own_bytes if self.padded_bytes is None else self.padded_bytes

    @property
    def family(self) -> tuple[object, ...]:
        """Specs of one family need the same number of blocks ("uniform type").

        full and mla together; windows of one width; chunks of one size; states of one draft length.
        """
        if self.kind in ("full", "mla"):
            return ("full", self.block_tokens)
        if self.kind == "mamba":
            return ("mamba", self.block_tokens, self.speculative_blocks)
        return (self.kind, self.block_tokens, self.reach)

    def padded_to(self, page_bytes: int) -> Spec:
        """Pad the page."""
        return replace(self, padded_bytes=page_bytes)

    def with_block(self, block_tokens: int) -> Spec:
        """Take another block size."""
        return replace(self, block_tokens=block_tokens)


def mergeable(specs: list[Spec], *, any_mla_head: bool) -> bool:
    """Whether specs become one (`merge`): equal, or full layers that differ in reach alone.

    any_mla_head : MLA layers are compared by the cache dtype that they name, not by their heads
        (0.25.1 and before).
    """
    first = specs[0]
    if first.kind == "mla" and any_mla_head:
        return all(s.kind == "mla" and s.named_dtype == first.named_dtype for s in specs)
    if first.kind in ("full", "mla"):
        return all(replace(s, reach=first.reach) == first for s in specs)
    return all(spec == first for spec in specs)
