"""vLLM's printed figures as functions of the blocks."""

from __future__ import annotations

from kvplan.models.engines.vllm.block_groups import Layout, Serving
from kvplan.models.engines.vllm.pool_problem import group_blocks

GIB = 2**30


def concurrency(layout: Layout, serving: Serving, blocks: int, length: int) -> float:
    """Requests of a length that fit at once: blocks / what one request is charged.

    A float because vLLM's is: the token line is cut from this product, rounding error and all.
    """
    return blocks / layout.concurrency_blocks(0, lambda spec: group_blocks(spec, serving, length))


def printed_tokens(layout: Layout, serving: Serving, blocks: int, length: int) -> int:
    """The token line: int(concurrency x length); in 0.19 blocks // groups x least block x dcp."""
    if serving.version.tokens_from_concurrency:
        return int(concurrency(layout, serving, blocks, length) * length)
    least = min(group.spec.block_tokens for group in layout.groups)
    return blocks // len(layout.groups) * least * serving.context_shards


def gib(count: int) -> str:
    """Bytes as vLLM prints GiB: two decimals, trailing zeros kept to one."""
    hundredths = (2 * 100 * abs(count) + GIB) // (2 * GIB)
    sign = "-" if count < 0 and hundredths else ""
    text = f"{sign}{hundredths // 100}.{hundredths % 100:02d}"
    return text[:-1] if text.endswith("0") else text
