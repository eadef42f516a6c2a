"""Pydantic's findings as faults: path, expected, got."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from typing import Any

from pydantic import BaseModel, ValidationError

from kvplan.models.errors import Fault
from kvplan.models.messages import Misfit, one_of, path_of, shown

MOST_FAULTS = 50
_EXPECTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "string_type": "text",
    "string_unicode": "text",
    "tuple_type": "a list",
}


def faults_of(error: ValidationError, model: type[BaseModel]) -> list[Fault]:
    """Turn a validation error into faults, at most `MOST_FAULTS` of them."""
    entries: list[Any] = list(error.errors(include_url=False))
    missing = {entry["loc"] for entry in entries if entry["type"] == "missing"}
    misspelt = {
        (*entry["loc"][:-1], nearest)
        for entry in entries[:MOST_FAULTS]
        if missing and entry["type"] == "extra_forbidden"
        for nearest in get_close_matches(
            str(entry["loc"][-1])[:99], _known_keys(entry["loc"], model)
        )
    }
    return first_faults(
        _fault(entry, model)
        for entry in entries
        if entry["type"] != "missing" or entry["loc"] not in misspelt
    )


def first_faults(faults: Iterable[Fault]) -> list[Fault]:
    """Take distinct faults, `MOST_FAULTS` of them, and say so when there are more."""
    distinct = dict.fromkeys(islice(faults, MOST_FAULTS + 1))
    if len(distinct) <= MOST_FAULTS:
        return list(distinct)
    return [*islice(distinct, MOST_FAULTS), Fault("", f"at most {MOST_FAULTS} faults", "more")]


def _fault(entry: Any, model: type[BaseModel]) -> Fault:
    location, kind, got = entry["loc"], entry["type"], shown(entry["input"])
    if kind == "extra_forbidden":
        expected = one_of(_known_keys(location, model), str(location[-1]))
        return Fault(path_of(location), expected, "an unknown key")
    if kind == "invalid_key":
        return Fault(path_of(location[:-1]), "text as a key", got)
    if kind == "missing":
        return Fault(path_of(location), "a value", "none")
    error = entry.get("ctx", {}).get("error")
    if isinstance(error, Misfit):
        return Fault(path_of((*location, *error.at)), error.expected, error.got)
    if kind == "literal_error":
        return Fault(path_of(location), entry["ctx"]["expected"], got)
    text = entry["msg"].removeprefix("Input should be ").removeprefix("a valid ")
    return Fault(path_of(location), _EXPECTED.get(kind, text[:1].lower() + text[1:]), got)


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """List the known keys next to an unknown one."""
    for step in location[:-1]:
        if isinstance(step, str) and step in model.model_fields:
            model = _model_within(model.model_fields[step].annotation) or model
    return list(model.model_fields)


def _model_within(annotation: Any) -> type[BaseModel] | None:
    """Find the model inside an annotation such as tuple[Rank, ...] or RankMemory | None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        found = _model_within(inner)
        if found is not None:
            return found
    return None
