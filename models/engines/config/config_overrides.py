"""Fields that a launch line lays over a model's config, as each engine lays them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kvplan.models.engines.config.sections import text_fields
from kvplan.models.engines.positions import (
    Positions,
    overridden,
    positions_of,
    rope_section,
    standard_section,
)


@dataclass(frozen=True)
class Overrides:
    """What a flag lays over a config.

    Attributes
    ----------
    flag : that says so.
    fields : by the config's keys.
    ropes_merge : where rotary parameters are merged with the config's: at the config's top level
        (SGLang), or in a section below it (vLLM). Elsewhere they replace them.
    ropes_standard : whether what an override leaves out is filled in, as in a config (flags that
        older engines read while they loaded it).
    """

    flag: str
    fields: Mapping[str, Any]
    ropes_merge: Literal["top", "below"] = "below"
    ropes_standard: bool = False


def laid_over(config: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Overrides win; a section of both is merged."""
    merged = dict(config)
    for key, value in fields.items():
        own = merged.get(key)
        both = isinstance(own, Mapping) and isinstance(value, Mapping)
        merged[key] = laid_over(own, value) if both and own is not None else value
    return merged


def overridden_positions(config: Mapping[str, Any], overrides: Overrides) -> Positions:
    """Positions of the text model with overrides over them."""
    fields = text_fields(laid_over(config, overrides.fields))
    path = fields.path.split(".")[1:]
    base, given = _part(config, path), rope_section(_part(overrides.fields, path))
    if overrides.ropes_standard and given:
        return positions_of({**fields.data, "rope_scaling": given}, fields.given)
    lengths = positions_of({**fields.data, "rope_scaling": None} | _own(base), fields.given)
    if not given:
        return lengths
    merges = overrides.ropes_merge == ("below" if path else "top")
    kept = standard_section(lengths, rope_section(base)) if merges else {}
    return overridden(lengths, {**kept, **given})


def _own(part: Mapping[str, Any]) -> dict[str, Any]:
    """The config's own rotary parameters, whatever lies over them."""
    return {"rope_parameters": rope_section(part) or None}


def _part(data: Mapping[str, Any], path: list[str]) -> Mapping[str, Any]:
    part: Any = data
    for key in path:
        part = part.get(key) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else {}
