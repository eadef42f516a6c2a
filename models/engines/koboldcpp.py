"""koboldcpp's own estimate of --gpulayers -1 (autoset_gpu_layers in koboldcpp.py, 1.88).

It counts layers of the file alike, an f16 cache whatever --quantkv says, and a compute buffer that
grows with all layers and the context, so it leaves much of a card free (#1480).
"""

from __future__ import annotations

from fractions import Fraction

GIB = 2**30
EXTRA_LAYERS = 3
"""What it adds to the file's layers for everything: 43 of 40."""
_LEAST_RESERVE, _MARGIN = Fraction("1.3"), Fraction("0.5")
_CACHE, _COMPUTE, _WHOLE = Fraction("1.15"), Fraction("1.55"), Fraction("1.6")


def auto_layers(
    total_bytes: int,
    used_bytes: int,
    file_bytes: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    context_tokens: int,
    batch_tokens: int = 512,
) -> int:
    """Layers that it puts on the first card; at most all and three more, none below three.

    The larger of two shares of the layers:

        (total - used) / (1.6 file x context / 4096)
        (total - reserve - compute) / (file + cache)

    reserve = max(1.3 GiB, 0.5 GiB + used); cache = 1.15 x 4 B x layers x KV heads x head_dim x
    context; compute = 1.55 x 4 B x layers x 4 (batch / 128 above 512) x head_dim x context.
    """
    reserve = max(_LEAST_RESERVE * GIB, _MARGIN * GIB + used_bytes)
    cells = 4 * layers * head_dim * context_tokens
    rows = 4 if batch_tokens <= 512 else Fraction(batch_tokens, 128)
    slow = 1 if batch_tokens <= 512 else Fraction("1.2")
    share = (total_bytes - used_bytes) / (file_bytes * _WHOLE * slow * _scale(context_tokens))
    if kv_heads:
        rest = total_bytes - reserve - _COMPUTE * rows * cells
        share = max(share, rest / (file_bytes + _CACHE * kv_heads * cells))
    found = min(int(share * layers), layers + EXTRA_LAYERS)
    return found if found >= EXTRA_LAYERS else 0


def _scale(context_tokens: int) -> Fraction:
    """How much more than the file a context is taken to need."""
    if context_tokens >= 8192:
        return Fraction(context_tokens, 4096)
    return next((s for least, s in _SHORT if context_tokens > least), Fraction(1))


_SHORT = ((4096, Fraction("1.8")), (2048, Fraction("1.2")))
