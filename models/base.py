"""What every model of the problem shares."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from kvplan.models.units import Demand, parse_bytes, shown

BUILT_IN_PHASES = ("load", "prefill", "decode")


class Frozen(BaseModel):
    """Immutable, and no key that is not described."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > 200:
        raise ValueError(f"expected a name (text of 1 to 200 characters), got {shown(value)}")
    if any(not letter.isprintable() for letter in value):
        raise ValueError(f"expected a printable name, got {shown(value)}")
    return value


Name = Annotated[str, BeforeValidator(_name)]


def _keyed(value: Any) -> Any:
    """Read one figure, or figures by stage or rank; keys become text (YAML reads 0 as a number)."""
    if not isinstance(value, dict):
        return parse_bytes(value, round_up=True)
    if not value:
        raise ValueError("expected one figure, or figures by stage or rank, got an empty mapping")
    keyed: dict[str, int] = {}
    for key, figure in value.items():
        try:
            keyed[str(key)] = parse_bytes(figure, round_up=True)
        except ValueError as error:
            raise ValueError(f"{error} at key {shown(key)}") from None
    return keyed


ByStage = Annotated[
    int | dict[str, int],
    BeforeValidator(_keyed, json_schema_input_type=int | str | dict[str, int | str]),
]
"""Bytes, the same everywhere or by stage (consumers and options: by stage or by rank name)."""

Granule = Annotated[Demand, Field(ge=1)]
