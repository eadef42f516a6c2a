"""Values of flags: how many words belong to one, and how its text is read."""

from __future__ import annotations

import json
from typing import Any

from kvplan.models.engines.command_line.launch_line import Arity, human_count, is_flag
from kvplan.models.engines.registry import Flag
from kvplan.models.messages import Misfit, one_of, shown
from kvplan.models.units import parse_bytes, parse_fraction, parse_integer


def json_or_text(text: str) -> Any:
    """Read JSON; what is none stays text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def follows(arity: Arity, rest: list[str]) -> list[str]:
    """Take the words that belong to a flag off the rest."""
    if arity == "switch" or (arity == "optional" and (not rest or is_flag(rest[0]))):
        return []
    if arity != "values":
        return [rest.pop(0)] if rest else []
    taken = []
    while rest and not is_flag(rest[0]):
        taken.append(rest.pop(0))
    return taken


def read_value(flag: Flag, text: str | None) -> Any:
    """Read one value.

    Raises
    ------
    Misfit : it does not fit the kind of the flag.
    """
    if text is None:
        raise Misfit("a value", "none")
    human = human_count(text, flag.suffixes)
    if human is not None:
        return human
    if flag.kind == "bytes":
        return parse_bytes(_number(text), round_up=False)
    if flag.kind == "count":
        return parse_integer(_number(text))
    if flag.kind == "number":
        return parse_fraction(text)
    if flag.choices and text not in flag.choices:
        raise Misfit(one_of(flag.choices, text), shown(text))
    return text


def _number(text: str) -> int | str:
    """Text of digits as a number; anything else as it was typed, for a clear message."""
    return int(text) if text.isdecimal() and len(text) < 20 else text
