"""Weights by layer and end of a pipeline, on one rank: what moves with a layer, and what does not.

The embedding (and a vision tower) lies on the first stage; norm, head and draft on the last, where
the draft loads an embedding of its own (vLLM #46994). Tied heads are an embedding on both ends.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from kvplan.models.engines.checkpoint.weights import DRAFT, LAYER, TOWER, Weights, is_drafts
from kvplan.models.engines.layers import DTYPE_BITS, Architecture

_EMBEDDING = re.compile(
    r"embed_tokens\.|embed_in\.|tok_embeddings\.|(?:word_)?embeddings?\.|token_embd\.|\bwte\."
)
_HEAD = re.compile(r"lm_head\.|^output\.|output_layer\.|embed_out\.")


@dataclass(frozen=True)
class StageWeights:
    """Bytes of weights on one rank.

    Attributes
    ----------
    layers : by layer of the target model.
    first, last : of the ends.
    is_estimated : layers are taken to be alike.
    """

    layers: tuple[int, ...]
    first: int
    last: int
    is_estimated: bool = False

    def on(self, counts: Sequence[int]) -> list[int]:
        """Bytes by stage of a partition."""
        ends = list(accumulate(counts))
        sums = [
            sum(self.layers[end - count : end]) for end, count in zip(ends, counts, strict=True)
        ]
        sums[0] += self.first
        sums[-1] += self.last
        return sums


def stage_weights(
    weights: Weights, architecture: Architecture, ranks: int, *, draft: bool = False
) -> StageWeights | None:
    """Share the tensors of a model out, evenly over the ranks of a stage; None without tensors.

    Parameters
    ----------
    ranks : tensor parallel ranks.
    draft : whether the draft layers are loaded, with an embedding of their own.
    """
    layers = [0] * architecture.total_layers
    first = last = drafted = embedding = head = 0
    for name, count in weights.tensors.items():
        match = LAYER.search(name)
        if TOWER.search(name):
            first += count
        elif is_drafts(name, len(layers)):
            drafted += count
        elif match:
            layers[int(match[1])] += count
        elif _EMBEDDING.search(name):
            embedding += count
        else:
            head += count if _HEAD.search(name) else 0
            last += count
    if not any(layers):
        return None
    last += 0 if head else embedding
    owned = any(DRAFT.search(name) and _EMBEDDING.search(name) for name in weights.tensors)
    if draft:
        last += drafted + (0 if owned else embedding)
    *each, first, last = [-(-count // ranks) for count in (*layers, first + embedding, last)]
    return StageWeights(tuple(each), first, last)


def even_weights(total_bytes: int, architecture: Architecture, ranks: int) -> StageWeights:
    """Alike layers beside an embedding and a head of vocabulary x hidden, from the total of a rank.

    Parameters
    ----------
    total_bytes : of all stages, on one rank each.
    """
    bits = DTYPE_BITS.get(architecture.dtype, 16)
    end = min(
        architecture.vocabulary * architecture.hidden_dim * bits // 8 // ranks, total_bytes // 4
    )
    each = (total_bytes - 2 * end) // architecture.total_layers
    return StageWeights((each,) * architecture.total_layers, end, end, is_estimated=True)
