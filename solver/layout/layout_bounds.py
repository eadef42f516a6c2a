"""What no layout can beat: bytes without any layout, and the least that a page can cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from kvplan.kernels.pages import workload_blocks
from kvplan.models.layouts import LayoutQuestion
from kvplan.models.layouts.bucket import Bucket
from kvplan.models.pools import Cache
from kvplan.solver.layout.kinds import Array, retained, rule_at, weights_of
from kvplan.solver.layout.layout_candidates import Part


def needed_bytes(bucket: Bucket, cache: Cache, workload: Sequence[tuple[int, int]]) -> Fraction:
    """Weighted bytes of one layer's tokens, or of its states: blocks of one token, without extras.

    A state keeps its extra blocks: they hold states. A page of fixed bytes is needed as it is.
    """
    if bucket.token_bytes is None:
        return Fraction(
            (bucket.state_bytes or 0)
            * workload_blocks(rule_at(cache, bucket.block_tokens), workload)
        )
    rule = rule_at(cache, 1)._replace(extra_blocks=0)
    return bucket.token_bytes * int(workload_blocks(rule, workload))


def floor_bytes(question: LayoutQuestion, *, held_full: bool = False) -> Fraction:
    """Bytes of the workload that no layout can do without, on the fullest stage."""
    workload, scale = weights_of(question)
    total = {stage: Fraction(0) for stage in question.stages}
    for bucket in question.buckets:
        cache = retained(bucket, held_full=held_full)
        each = needed_bytes(bucket, cache, workload)
        for stage, layers in bucket.by_stage.items():
            total[stage] += layers * each
    return max(total.values()) / scale


def page_bounds(
    pages: Array, parts: Sequence[Part], needs: Sequence[Array], own_bytes: Sequence[int]
) -> Array:
    """Least bytes at each common page, whatever the width: P x sum of layers x blocks, plus own.

    A group holds at most `width` layers on a stage, so width x groups >= its layers there.

    Parameters
    ----------
    own_bytes : by stage, of pools of their own.
    """
    most: Any = None
    for stage, own in enumerate(own_bytes):
        slots = sum(part.layers[stage] * need for part, need in zip(parts, needs, strict=True))
        taken = pages * slots + own
        most = taken if most is None else np.maximum(most, taken)
    return most
