"""What vLLM changed in the sizing of its pool, by version.

Read from runs of the pool-sizing code of 0.19.0, 0.25.1 and 0.33.0, and from the source of 0.20.0,
0.20.1, 0.22.0, 0.23.0, 0.24.0, 0.26.0 to 0.29.0, 0.31.0 and 0.32.0 in the published wheels.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

OLDEST, NEWEST = (0, 19, 0), (0, 33, 0)
_TEXT = re.compile(r"v?(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True)
class Version:
    """The rules of one version, as switches."""

    number: tuple[int, int, int]

    @property
    def text(self) -> str:
        """0.33.0."""
        return ".".join(map(str, self.number))

    @property
    def flight_counts_batches(self) -> bool:
        """A window holds the tokens of every batch in flight; before, of one batch."""
        return self.number >= (0, 26, 0)

    @property
    def charges_graphs(self) -> bool:
        """The estimate of the CUDA graphs is taken off the budget."""
        return self.number >= (0, 21, 0)

    @property
    def charges_null_block(self) -> bool:
        """The check and auto-fit leave the null block out of what a request can use."""
        return self.number >= (0, 29, 0)

    @property
    def has_packed_layout(self) -> bool:
        """Block-outermost layouts may pack pages of several sizes in one block."""
        return self.number >= (0, 29, 0)

    @property
    def has_compressed_layers(self) -> bool:
        """DeepSeek-V4 is known."""
        return self.number >= (0, 20, 0)

    @property
    def packs_compressed_layers(self) -> bool:
        """Its layers are packed like others of several pages; before, in tuples of pages."""
        return self.number >= (0, 29, 0)

    @property
    def overlays_tuples(self) -> bool:
        """DeepSeek-V4's groups lie over each other, without padded pages."""
        return self.number >= (0, 27, 0)

    @property
    def buckets_tuples(self) -> bool:
        """A block of DeepSeek-V4 holds the most layers of each page size, not whole tuples."""
        return self.number >= (0, 23, 0)

    @property
    def has_plain_compressed_rows(self) -> bool:
        """FlashInfer's kernels for DeepSeek-V4 store plain elements in pages of their own."""
        return self.number >= (0, 24, 0)

    @property
    def shrinks_fp4_keys(self) -> bool:
        """MXFP4 keys of DeepSeek-V4's indexer take their own bytes; before, those of fp8."""
        return self.number >= (0, 27, 0)

    @property
    def splits_packed_windows(self) -> bool:
        """Packed groups of windows are split to the block that full attention needs."""
        return self.number >= (0, 33, 0)

    @property
    def pads_odd_pages(self) -> bool:
        """A page that does not divide the largest is padded to it, whatever the backend."""
        return self.number >= (0, 26, 0)

    @property
    def pads_strided_pages(self) -> bool:
        """So is one whose backend indexes pages by the block's stride (unify_kv_cache_spec)."""
        return self.number >= (0, 24, 0)

    @property
    def pads_state_pages(self) -> bool:
        """A state page below the common page is padded to it when pages are unified."""
        return self.number >= (0, 25, 0)

    @property
    def tokens_from_concurrency(self) -> bool:
        """The token line is int(concurrency x length); before, blocks // groups x least block."""
        return self.number >= (0, 20, 1)

    @property
    def override_replaces_memory(self) -> bool:
        """--num-gpu-blocks-override stands in for the memory in the check, too."""
        return self.number >= (0, 20, 1)

    @property
    def merges_mla_of_any_head(self) -> bool:
        """MLA layers that name one cache dtype merge into one page whatever their head sizes."""
        return self.number < (0, 26, 0)

    @property
    def has_state_mode_all(self) -> bool:
        """Mamba cache mode "all" exists."""
        return self.number < (0, 33, 0)

    @property
    def mode_all_adds_speculative(self) -> bool:
        """Mode "all" charges the speculative blocks beside one block for every block of tokens."""
        return self.number >= (0, 22, 0)

    @property
    def refuses_requests_above_states(self) -> bool:
        """max_num_seqs above the state blocks is refused (#38270); 0.19 captures fewer graphs."""
        return self.number >= (0, 20, 0)

    @property
    def has_draft_kv_dtype(self) -> bool:
        """--speculative-config knows kv_cache_dtype."""
        return self.number >= (0, 26, 0)

    @property
    def aligns_latent_to_128(self) -> bool:
        """Beside states, blocks of MLA layers are multiples of 128 tokens."""
        return self.number >= (0, 27, 0)

    @property
    def takes_yarn_as_scaled(self) -> bool:
        """YaRN's factor is left out: max_position_embeddings is taken to be the scaled length."""
        return self.number >= (0, 30, 0)

    @property
    def window_includes_edge(self) -> bool:
        """Cohere-2's windows hold one token more than sliding_window (models/commandr.py)."""
        return self.number >= (0, 29, 0)


def version_of(text: str) -> Version:
    """Read a version between 0.19 and 0.33.

    Raises
    ------
    InvalidProblem : no version, or one whose rules are not known.
    """
    match = _TEXT.fullmatch(text)
    number = (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None
    if number is None or not OLDEST <= number <= (*NEWEST[:2], 999):
        raise InvalidProblem.at("--engine-version", "a vLLM version, 0.19 to 0.33", shown(text))
    return Version(number)
