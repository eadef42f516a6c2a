"""Models of Mamba states alone, and Zamba-2 with a few attention layers beside them."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.families.hybrid import mamba2
from kvplan.models.engines.layers import Attention, Layer, Recurrent
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def pure_mamba1(fields: Fields) -> list[Layer]:
    """Mamba, Falcon-Mamba: intermediate_size (or expand x hidden_size) channels in every layer."""
    fields.require("num_hidden_layers", "state_size", "conv_kernel")
    if fields.has("intermediate_size"):
        inner = fields.count("intermediate_size", least=1)
    else:
        inner = fields.count("expand", 2, least=1) * fields.count("hidden_size", least=1)
    state, kernel = fields.count("state_size", least=1), fields.count("conv_kernel", least=1)
    return [
        Recurrent(index, "mamba1", 1, inner, state, 0, kernel, inner)
        for index in range(fields.layers)
    ]


def pure_mamba2(fields: Fields) -> list[Layer]:
    """Mamba-2: num_heads of head_dim, n_groups and state_size in every layer."""
    fields.require("num_hidden_layers", "num_heads", "head_dim", "n_groups", "state_size")
    heads, dim = fields.count("num_heads", least=1), fields.count("head_dim", least=1)
    names = {"groups": "n_groups", "state": "state_size", "kernel": "conv_kernel"}
    return [
        mamba2(fields, index, heads, dim, chunk="chunk_size", **names)
        for index in range(fields.layers)
    ]


def zamba2(fields: Fields) -> list[Layer]:
    """Zamba-2: a state in every layer, and attention before it in those of hybrid_layer_ids.

    Attention sees two hidden states side by side: attention_head_dim is twice the usual.
    """
    fields.require("n_mamba_heads", "mamba_headdim", "mamba_d_state", "num_attention_heads")
    heads, dim = fields.count("n_mamba_heads", least=1), fields.count("mamba_headdim", least=1)
    names = {"groups": "mamba_ngroups", "state": "mamba_d_state", "kernel": "mamba_d_conv"}
    layers: list[Layer] = []
    fields.pass_over("kv_channels")
    hybrid = _hybrid(fields)
    for index in range(fields.layers):
        if index in hybrid:
            width = fields.count("attention_head_dim", least=1)
            layers.append(Attention(index, "full", fields.kv_heads, width, width))
        layers.append(mamba2(fields, index, heads, dim, chunk="chunk_size", **names))
    return layers


def _hybrid(fields: Fields) -> set[int]:
    """Layers that attend, too: hybrid_layer_ids, or "hybrid" in layers_block_type."""
    if fields.has("hybrid_layer_ids"):
        fields.raw("layers_block_type")
        return set(fields.counts("hybrid_layer_ids"))
    kinds = fields.items("layers_block_type", fields.layers)
    found = {index for index, kind in enumerate(kinds) if kind == "hybrid"}
    if not found:
        where = f"{fields.path}.layers_block_type"
        raise InvalidProblem.at(where, "some layers of kind hybrid", shown(kinds))
    return found
