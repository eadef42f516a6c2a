"""Flags whose value is JSON: which keys vLLM knows, and which of them touch the sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import shown
from kvplan.models.reading.loader import parse_text


@dataclass(frozen=True)
class Keys:
    """Keys of one JSON value.

    Attributes
    ----------
    read : what the sizes follow from.
    harmless : what leaves them alone.
    refused : what touches them and is not modelled, each with the reason.
    """

    read: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


def read_json(flag: str, text: str, keys: Keys) -> Mapping[str, Any]:
    """Read a JSON mapping and check its keys; keys that are null count as not given.

    Raises
    ------
    InvalidProblem : no mapping; one fault for each unknown or refused key.
    """
    data = parse_text(text, name=flag)
    if not isinstance(data, Mapping):
        raise InvalidProblem.at(flag, "JSON, a mapping", shown(text))
    given = {str(key): value for key, value in data.items() if value is not None}
    faults = [fault for key in given if (fault := _fault(flag, key, given[key], keys))]
    if faults:
        raise InvalidProblem(faults)
    return given


def _fault(flag: str, key: str, value: Any, keys: Keys) -> Fault | None:
    if key in keys.refused:
        return Fault(f"{flag}.{key}", keys.refused[key], shown(value))
    known = (*keys.read, *keys.harmless)
    if key in known:
        return None
    near = get_close_matches(key, sorted((*known, *keys.refused)), n=3, cutoff=0.5)
    hint = f": {', '.join(map(shown, near))}" if near else ""
    return Fault(f"{flag}.{key}", f"a key of this value{hint}", "an unknown key")
