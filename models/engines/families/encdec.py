"""Encoder-decoders: each decoder layer keeps its own tokens and the encoder's output."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Cross, Layer


def whisper(fields: Fields) -> list[Layer]:
    """Whisper: self-attention and cross-attention in each of decoder_layers.

    The encoder gives max_source_positions rows (1,500 of 30 s); its own layers keep nothing.
    """
    fields.require("decoder_layers", "decoder_attention_heads", "d_model", "max_source_positions")
    heads = fields.count("decoder_attention_heads", least=1)
    dim = fields.count("d_model", least=heads) // heads
    tokens = fields.count("max_source_positions", least=1)
    layers: list[Layer] = []
    for index in range(fields.count("decoder_layers", least=1)):
        layers.append(Attention(index, "full", heads, dim, dim))
        layers.append(Cross(index, heads, dim, tokens))
    return layers
