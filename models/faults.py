"""Pydantic's findings as faults: path, expected, got."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from kvplan.models.errors import Fault
from kvplan.models.units import shown

MOST_FAULTS = 50
_EXPECTED = {
    "string_type": "text",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
}
_UNION_TAGS = {"Share", "function-before[<lambda>(), int]", "literal['from_staging']", "int"}


def path_of(location: tuple[int | str, ...]) -> str:
    """Write a location as it is read in the file: ranks[0].quota."""
    path = ""
    for step in location:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}" if path else step
    return path


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Turn a validation error into faults, at most `MOST_FAULTS` of them."""
    found = error.errors(include_url=False)
    faults = list(dict.fromkeys(_fault(entry, model) for entry in found[:MOST_FAULTS]))
    if len(found) > MOST_FAULTS:
        faults.append(Fault("", "no more faults", f"{len(found) - MOST_FAULTS} further ones"))
    return faults


def _fault(entry: Any, model: type[BaseModel]) -> Fault:
    location = tuple(step for step in entry["loc"] if not _is_tag(step))
    path, kind, got = path_of(location), entry["type"], shown(entry["input"])
    if kind == "extra_forbidden":
        return Fault(path, _known_keys(location, model), "an unknown key")
    if kind == "missing":
        return Fault(path, "a value", "none")
    if kind == "value_error":
        text = str(entry["ctx"]["error"]).removeprefix("expected ")
        expected, _, came = text.rpartition(", got ")
        return Fault(path, expected, came) if expected else Fault(path, text)
    if kind == "literal_error":
        return Fault(path, entry["ctx"]["expected"], got)
    if kind in _EXPECTED:
        return Fault(path, _EXPECTED[kind], got)
    text = entry["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return Fault(path, text[:1].lower() + text[1:], got)


def _is_tag(step: int | str) -> bool:
    """Whether a step of the location names a union's branch, not a key of the file."""
    return isinstance(step, str) and (step in _UNION_TAGS or "[" in step)


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel]) -> str:
    """List the keys that would have been known beside an unknown one, the nearest first."""
    for step in location[:-1]:
        if isinstance(step, str):
            model = _model_within(model.model_fields[step].annotation) or model
    known = list(model.model_fields)
    nearest = get_close_matches(str(location[-1]), known, n=1)
    return f"{nearest[0]!r}" if nearest else f"one of {', '.join(known)}"


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """Find the model inside an annotation such as tuple[Rank, ...] or RankMemory | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_within(inner)
        if found is not None:
            return found
    return None
