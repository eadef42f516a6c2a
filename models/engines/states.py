"""Tensors of a recurrent layer's state on one rank, for one request."""

from __future__ import annotations

from kvplan.models.engines.layers import Recurrent, Tensor
from kvplan.models.errors import InvalidProblem


def state_tensors(
    layer: Recurrent,
    tensor_parallel: int,
    speculative_tokens: int,
    *,
    conv_dtype: str,
    state_dtype: str,
) -> tuple[Tensor, ...]:
    """Shapes as vLLM and SGLang allocate them (model_executor/layers/mamba/mamba_utils.py).

    K taps, s draft tokens, tp ranks:
    mamba1      conv (d_inner / tp, K - 1),                        state (d_inner / tp, d_state)
    mamba2      conv (K - 1 + s, (d_inner + 2 G' d_state) / tp),   state (heads / tp, D, d_state)
    gdn         conv (K - 1 + s, (2 Hk Dk + Hv Dv) / tp),          state (Hv / tp, Dv, Dk)
    kda         conv (K - 1 + s, (Hv D + 2 Hk D) / tp),            state (H / tp, D, D)
    linear                                                         state (H / tp, D, D)
    short_conv  conv (K - 1, d / tp)
    G' = G where tp divides it, else one group a rank more than it has: tp.

    Raises
    ------
    InvalidProblem : heads or channels that tp does not divide.
    """
    tensors = []
    if layer.conv_kernel:
        columns = layer.conv_kernel - 1
        if layer.recurrence in ("mamba2", "gdn", "kda"):
            columns += speculative_tokens
        channels = _share(_channels(layer, tensor_parallel), tensor_parallel, "channels")
        tensors.append(Tensor((columns, channels), conv_dtype))
    if layer.recurrence == "mamba1":
        inner = _share(layer.head_dim, tensor_parallel, "channels")
        tensors.append(Tensor((inner, layer.state_dim), state_dtype))
    elif layer.heads:
        heads = _share(layer.heads, tensor_parallel, "state heads")
        tensors.append(Tensor((heads, layer.head_dim, layer.state_dim), state_dtype))
    return tuple(tensors)


def _channels(layer: Recurrent, tensor_parallel: int) -> int:
    """Channels with B and C groups replicated where tp does not divide them."""
    if layer.recurrence != "mamba2" or layer.groups % tensor_parallel == 0:
        return layer.conv_channels
    added = tensor_parallel - layer.groups
    return layer.conv_channels + 2 * added * layer.state_dim


def _share(count: int, ranks: int, what: str) -> int:
    if count % ranks:
        raise InvalidProblem.at(
            "--tensor-parallel-size", f"a divisor of {count} {what}", str(ranks)
        )
    return count // ranks
