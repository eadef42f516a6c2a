"""Families whose windows follow a pattern or none: OLMo-3, EXAONE-MoE, Laguna; Hunyuan."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.models.engines.families.attention import (
    FULL,
    WINDOW,
    attention,
    every,
    layer_kinds,
    plain,
)
from kvplan.models.engines.families.attention import nextn as next_tokens
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def hunyuan(fields: Fields) -> list[Layer]:
    """Hunyuan v1; layers that share keys and values (use_cla) are not modelled."""
    if fields.switch("use_cla"):
        where = f"{fields.path}.use_cla"
        raise InvalidProblem.at(where, "false (shared keys and values are not modelled)", "true")
    return plain(fields)


def sliding(fields: Fields) -> list[Layer]:
    """OLMo-3, EXAONE-MoE, AFMoE: layer_types, or every fourth layer is full.

    EXAONE may write its pattern as a number or as letters (LLLG). Next-token layers are full.
    """
    fields.require("sliding_window")
    kinds = layer_kinds(fields) or _pattern(fields)
    layers: list[Layer] = [attention(fields, index, kind) for index, kind in enumerate(kinds)]
    return [*layers, *next_tokens(fields)]


def _pattern(fields: Fields) -> list[str]:
    pattern = fields.raw("sliding_window_pattern")
    if isinstance(pattern, str):
        kinds = {"L": WINDOW, "G": FULL}
        if not pattern or set(pattern) - set(kinds):
            where = f"{fields.path}.sliding_window_pattern"
            raise InvalidProblem.at(where, "letters L and G", shown(pattern))
        return [kinds[pattern[index % len(pattern)]] for index in range(fields.layers)]
    name = "sliding_window_pattern" if pattern is not None else "global_attn_every_n_layers"
    return every(fields, fields.count(name, 4, least=1), kind=FULL, other=WINDOW)


def optional_sliding(fields: Fields) -> list[Layer]:
    """Laguna, Mellum: windows by layer_types, where the config has a window; else all full."""
    kinds = layer_kinds(fields) if fields.count("sliding_window", 0) else None
    kinds = kinds or [FULL] * fields.layers
    return [attention(fields, index, kind) for index, kind in enumerate(kinds)]


POPULAR: dict[str, Callable[[Fields], list[Layer]]] = {
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe"), hunyuan),
    **dict.fromkeys(("olmo3", "exaone_moe", "afmoe"), sliding),
    **dict.fromkeys(("laguna", "mellum"), optional_sliding),
}
"""What reads the layers of these model types."""
