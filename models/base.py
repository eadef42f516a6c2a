"""What every model of the problem shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator

from kvplan.models.immutable.frozen_dict import FrozenDict, FrozenMapping
from kvplan.models.json_schema import LONGEST_NAME, NAME, TITLE, by_keys, bytes_input
from kvplan.models.messages import Misfit, shown, within
from kvplan.models.units import Granule, parse_bytes

__all__ = [
    "BUILT_IN_PHASES",
    "ByStage",
    "Frozen",
    "Granule",
    "Name",
    "TextKeys",
    "Title",
    "Version",
    "by_key",
]

BUILT_IN_PHASES = ("load", "prefill", "decode")


class Frozen(BaseModel):
    """Immutable, and no key that is not described."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __eq__(self, other: object) -> bool:
        """Compare fields and class, as Pydantic does, in a fifth of the time."""
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, optionally with some fields updated: not validated, mappings and lists frozen."""
        changes = {name: _frozen(value) for name, value in (update or {}).items()}
        return super().model_copy(update=changes, deep=deep)


def _frozen(value: Any) -> Any:
    """A list as a tuple and a mapping as one that is read-only, as fields hold them."""
    if type(value) is list:
        return tuple(value)
    return FrozenDict(value) if type(value) is dict else value


def _reader(*, may_be_blank: bool) -> Callable[[Any], str]:
    """Make a reader of printable text."""

    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise Misfit("text", shown(value))
        if len(value) > LONGEST_NAME or not value.isprintable():
            raise Misfit(f"printable text of at most {LONGEST_NAME} characters", shown(value))
        if not may_be_blank and not value.strip():
            raise Misfit("a name", shown(value))
        return value

    return read


def _version(value: Any) -> int:
    if type(value) is not int or value != 1:
        raise Misfit("1", shown(value))
    return value


Title = Annotated[str, BeforeValidator(_reader(may_be_blank=True), json_schema_input_type=TITLE)]
Name = Annotated[str, BeforeValidator(_reader(may_be_blank=False), json_schema_input_type=NAME)]
Version = Annotated[Literal[1], BeforeValidator(_version)]


def text_keys(value: Any) -> dict[str, Any]:
    """Read a mapping; keys become text, since YAML reads the key 0 as a number."""
    if not isinstance(value, dict):
        raise Misfit("a mapping", shown(value))
    keyed: dict[str, Any] = {}
    for key, entry in value.items():
        if isinstance(key, bool) or not isinstance(key, str | int):
            raise Misfit("text as a key", shown(key))
        if str(key) in keyed:
            raise Misfit("each key once", f"{shown(str(key))} twice")
        keyed[str(key)] = entry
    return keyed


TextKeys = BeforeValidator(text_keys)
"""For fields that are mappings by name."""


def by_key(parse: Callable[[Any], int]) -> Callable[[Any], int | FrozenDict[str, int]]:
    """Make a reader of one figure, or of figures by stage or by rank name."""

    def read(value: Any) -> int | FrozenDict[str, int]:
        if not isinstance(value, dict):
            return parse(value)
        if not value:
            raise Misfit("one figure, or figures by stage or rank", "an empty mapping")
        figures = {key: within(key, parse, entry) for key, entry in text_keys(value).items()}
        return FrozenDict(figures)

    return read


ByStage = Annotated[
    int | FrozenMapping[str, int],
    PlainValidator(
        by_key(lambda value: parse_bytes(value, round_up=True)),
        json_schema_input_type=bytes_input() | by_keys(bytes_input()),
    ),
]
"""Bytes, the same everywhere, by stage or by rank name."""
