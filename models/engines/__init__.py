"""From a model's config to a problem: what each engine would do, and with which layout."""

from kvplan.models.engines.layers import (
    Architecture,
    Attention,
    Compressed,
    Latent,
    Layer,
    Recurrent,
    Tensor,
)

__all__ = [
    "Architecture",
    "Attention",
    "Compressed",
    "Latent",
    "Layer",
    "Recurrent",
    "Tensor",
]
