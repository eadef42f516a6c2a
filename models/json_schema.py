"""What the JSON Schema states beyond types: text formats, and which keys go together."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from kvplan.models.messages import LONGEST

LIMIT = 2**63
LONGEST_NAME = 200

_DIGITS = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_ZERO = r"-(?:0+\.?0*|\.0+)(?:[eE][+-]?[0-9]+)?"
_UNIT = r"(?:B|[kKMGTP]B|[KMGTP]iB)"
_SHARE = rf"\+?{_DIGITS}|{_ZERO}|\+?[0-9]+\s*/\s*0*[1-9][0-9]*|-0+\s*/\s*0*[1-9][0-9]*"
_BYTES = rf"^\s*(?:\+?{_DIGITS}|{_ZERO})\s*{_UNIT}?\s*$"
_EXACT = rf"^\s*(?:[+-]?{_DIGITS}|[+-]?[0-9]+\s*/\s*0*[1-9][0-9]*)\s*$"


def _text(pattern: str) -> Any:
    return Annotated[str, Field(pattern=pattern, max_length=LONGEST)]


def whole(least: int) -> Any:
    """A whole number in [least, 2^63)."""
    return Annotated[int, Field(ge=least, lt=LIMIT)]


def bytes_input(least: int = 0) -> Any:
    """Bytes as a whole number, or as text with a unit."""
    return whole(least) | _text(_BYTES)


def pairs(first: Any, second: Any) -> Any:
    """At least one [first, second]."""
    return Annotated[list[tuple[first, second]], Field(min_length=1)]


def several(entry: Any) -> Any:
    """At least one of something."""
    return Annotated[list[entry], Field(min_length=1)]


def any_keys(figure: Any) -> Any:
    """Figures by name; none is legal, too."""
    return dict[str, figure]


def by_keys(figure: Any) -> Any:
    """Figures by stage or rank name."""
    return Annotated[dict[str, figure], Field(min_length=1)]


EXACT: Any = Annotated[float, Field(gt=-LIMIT, lt=LIMIT)] | _text(_EXACT)
PAIRS = pairs(whole(1), bytes_input())
CURVE = pairs(EXACT, EXACT)
PORTION = Annotated[float, Field(ge=0, le=1)] | _text(rf"^\s*(?:{_SHARE})\s*$")
RATIO = Annotated[float, Field(gt=0, le=1)] | _text(rf"^\s*(?:{_SHARE})\s*$")
RATE = Annotated[float, Field(ge=0, lt=LIMIT)] | _text(
    rf"^\s*(?:{_SHARE}|(?:\+?{_DIGITS}|{_ZERO})\s*{_UNIT})\s*$"
)
RATE_OR_TIME = Annotated[
    str,
    Field(pattern=rf"^\s*(?:(?:\+?{_DIGITS})\s*{_UNIT}?(?:/s)?|{_DIGITS}\s*[pnum]s)\s*$"),
]
TITLE = Annotated[str, Field(max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f]*$")]
NAME = Annotated[str, Field(max_length=LONGEST_NAME, pattern=r"^(?=.*\S)[^\x00-\x1f\x7f]+$")]

_POOL_OR_REQUEST = r"(?:blocks|capacity|count):.|(?:prefill|experts)$"
_PLACED = r"(?:speed|layers_on_gpu|experts_on_gpu)$"
GOAL_VARIABLE = rf"^(?:{_POOL_OR_REQUEST}|{_PLACED}|copies:.|choice:[^=]+$)"
TERM_VARIABLE = rf"^(?:{_POOL_OR_REQUEST}|(?:layers|experts):.|copies:.|choice:[^=]+=.)"
RELAXED_VARIABLE = rf"^(?:{_POOL_OR_REQUEST})"
OVERRIDES = Annotated[
    list[Annotated[str, Field(pattern=r"^[^=]*[^=\s][^=]*=")]], Field(min_length=1)
]

Rule = dict[str, Any]
BY_STAGE: Rule = {"propertyNames": {"pattern": "^[0-9]+$"}}


def given(field: str) -> Rule:
    """A field that is there, and not null."""
    return {"required": [field], "properties": {field: {"not": {"type": "null"}}}}


def given_as(field: str, schema: Rule) -> Rule:
    """A field that is there, as a schema says."""
    return {"required": [field], "properties": {field: schema}}


def without(*fields: str) -> Rule:
    """None of these fields, or null."""
    return {"properties": {field: {"type": "null"} for field in fields}}


def one_of(*fields: str) -> Rule:
    """Exactly one of these fields."""
    return {"oneOf": [given(field) for field in fields]}


def any_of(*fields: str) -> Rule:
    """At least one of these fields."""
    return {"anyOf": [given(field) for field in fields]}


def when(condition: Rule, rule: Rule) -> Rule:
    """A rule that holds under a condition."""
    return {"if": condition, "then": rule}
