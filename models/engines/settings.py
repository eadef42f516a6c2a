"""An engine's own flags, from the command line to its settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.registry import Flag, Settings
from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import Misfit, one_of, shown
from kvplan.models.units import parse_bytes, parse_fraction, parse_integer


def read_settings(
    flags: tuple[Flag, ...], arguments: Sequence[str], common: Mapping[str, Any]
) -> Settings:
    """Read `--flag value`, `--flag=value` and switches.

    Parameters
    ----------
    common : settings that all engines share (total_bytes, weights_bytes, gpu).

    Raises
    ------
    InvalidProblem : one fault for each unknown flag and each value that does not fit.
    """
    known = {flag.name: flag for flag in flags}
    given: dict[str, Any] = dict(common)
    faults: list[Fault] = []
    rest = list(arguments)
    while rest:
        name, equals, text = rest.pop(0).partition("=")
        flag = known.get(name)
        if flag is None:
            faults.append(Fault(name, _known(known, name), "an unknown argument"))
            if not equals and rest and not rest[0].startswith("--"):
                rest.pop(0)
            continue
        value: str | None = text if equals else None
        if value is None and flag.kind != "switch" and rest:
            value = rest.pop(0)
        try:
            read = _value(flag, value)
        except Misfit as error:
            faults.append(Fault(name, error.expected, error.got))
            continue
        given[flag.key] = (*given.get(flag.key, ()), read) if flag.repeated else read
    if faults:
        raise InvalidProblem(faults)
    return Settings(flags, given)


def _known(known: Mapping[str, Flag], name: str) -> str:
    return f"a flag of this engine: {one_of(known, name)}"


def _value(flag: Flag, text: str | None) -> Any:
    """Read one value.

    Raises
    ------
    Misfit : it does not fit the kind of the flag.
    """
    if flag.kind == "switch":
        if text is not None:
            raise Misfit("no value (a switch)", shown(text))
        return True
    if text is None:
        raise Misfit("a value", "none")
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
