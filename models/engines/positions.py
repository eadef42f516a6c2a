"""The positions that a config declares: its lengths by key, and how rotary positions are scaled.

What an engine makes of them is its own rule (`vllm/max_model_len.py`, `sglang/launch/context.py`,
`trtllm/lengths.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

LENGTH_KEYS = (
    *("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length"),
    *("max_target_positions", "max_sequence_length", "max_seq_length", "seq_len"),
)
ROPE_KEYS = ("rope_scaling", "rope_parameters")
"""The same field, before and since transformers 5; of both in one config the first rules."""
LENGTHLESS = frozenset({"bloom", "mamba", "mamba2", "falcon_mamba"})
"""Model types whose configuration class declares no length, so that none is taken from it."""
BY_KIND = frozenset(
    {
        *("gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "olmo3", "step3p5", "step3p7"),
        "deepseek_v4",
    }
)
"""Model types whose class gives each kind of layer rotary parameters of its own (transformers 5.19,
and vLLM's own classes), also where a config has one section."""
_LEGACY = {"su": "longrope", "mrope": "default"}
_WITH_ORIGINAL = ("llama3", "yarn", "longrope")


@dataclass(frozen=True)
class Rope:
    """One section of rotary parameters.

    Attributes
    ----------
    kind : rope_type; None where an override names none.
    factor : None where there is no such key, or where it is null (`has_factor` tells which).
    original : original_max_position_embeddings; 0 without one.
    """

    kind: str | None
    factor: Fraction | None = None
    has_factor: bool = False
    original: int = 0


@dataclass(frozen=True)
class Positions:
    """What a config says of its lengths.

    Attributes
    ----------
    lengths : tokens by the config's own key.
    ropes : rotary parameters; one for each kind of layer where the config nests them.
    nested : whether it does, or its class does.
    original : original_max_position_embeddings beside the rotary parameters, as Phi-3 has it.
    declared : whether the config itself names a length; else its class's default stands in, and no
        length is refused for it.
    """

    lengths: Mapping[str, int] = field(default_factory=dict)
    ropes: tuple[Rope, ...] = ()
    nested: bool = False
    original: int = 0
    declared: bool = True


def positions_of(part: Mapping[str, Any], given: Collection[str] = LENGTH_KEYS) -> Positions:
    """Read the part of a config that describes the text model.

    Parameters
    ----------
    given : keys that the config has itself; the others of `part` are defaults of its class.
    """
    lengths = {key: count for key in LENGTH_KEYS if (count := _count(part.get(key))) is not None}
    sections = _sections(rope_section(part))
    original = _count(part.get("original_max_position_embeddings")) or 0
    longest = next(iter(lengths.values()), 0)
    ropes = tuple(_standard(one, original, longest) for one in sections)
    nested = len(sections) != 1 or part.get("model_type") in BY_KIND
    return Positions(lengths, ropes, nested, original, any(key in given for key in lengths))


def overridden(positions: Positions, section: Mapping[str, Any]) -> Positions:
    """Return the positions with other rotary parameters, in which nothing is filled in."""
    sections = _sections(section)
    return replace(positions, ropes=tuple(map(_literal, sections)), nested=len(sections) != 1)


def rope_section(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Rotary parameters of a config or an override; empty without any."""
    found: Any = next((part[key] for key in ROPE_KEYS if part.get(key)), {})
    return found if isinstance(found, Mapping) else {}


def standard_section(positions: Positions, section: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what transformers fills in when it loads a config: the kind, the original length."""
    if positions.nested or not positions.ropes:
        return dict(section)
    (rope,) = positions.ropes
    filled = {"original_max_position_embeddings": rope.original} if rope.original else {}
    return {**section, "rope_type": rope.kind, **filled}


def _sections(section: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The section, or those of each kind of layer, where each of its values is a mapping."""
    if section and all(one is None or isinstance(one, Mapping) for one in section.values()):
        return [one for one in section.values() if one]
    return [section] if section else []


def _standard(section: Mapping[str, Any], original: int, longest: int) -> Rope:
    """Read a section as transformers loads it: a kind, and an original length where it scales."""
    named = str(section.get("rope_type") or section.get("type") or "default")
    kind = _LEGACY.get(named, named)
    known = _literal(section)
    own = known.original or (longest if kind in _WITH_ORIGINAL else 0)
    return replace(known, kind=kind, original=original if original and own else own)


def _literal(section: Mapping[str, Any]) -> Rope:
    kind, factor = section.get("rope_type"), section.get("factor")
    return Rope(
        kind=str(kind) if kind else None,
        factor=Fraction(str(factor)) if _is_number(factor) else None,
        has_factor="factor" in section,
        original=_count(section.get("original_max_position_embeddings")) or 0,
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def _count(value: Any) -> int | None:
    return int(value) if _is_number(value) and value < float("inf") else None
