"""`path=value`: changes of single fields, applied to plain data before validation."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown
from kvplan.models.reading.loader import parse_text

_STEP = re.compile(
    r"""\[(?P<index>\*|[0-9]+)\]|\['(?P<single>[^']+)'\]|\["(?P<double>[^"]+)"\]"""
    r"""|(?:^|\.)(?P<key>[^.\[\]]+)"""
)
_CHOICE_TERM = re.compile(r"\.terms\.choice:[^.\[\]]*$")
_INSTEAD = {"quota": "memory", "memory": "quota"}  # a rank has one of the two
_MOST_ENDS = 16  # places of "=" where a path may end
_INDEX = re.compile(r"[0-9]{1,9}")


def apply_overrides(data: Any, overrides: Iterable[str]) -> Any:
    """Return a copy of `data` with every override applied.

    A path is keys joined by dots; an item of a list is named by its name or its index, `*` is all
    of them: `ranks.*.quota=10GiB`, `batches[0].requests.long.capacity=4096`. Where a key holds "="
    itself, the path ends at the first "=" up to which it leads to a value that is there:
    `constraints[0].terms.choice:s=a=1`; a new `choice:<name>=<option>` reaches up to the last one.
    A key with dots or brackets stands in quotes and brackets: `consumers[0].bytes['host.0']=1GiB`.
    The `quota` of a rank takes the place of its `memory`, and the other way round.

    Raises
    ------
    InvalidProblem : not path=value, a path that leads nowhere, or a value that is not YAML.
    """
    texts = (overrides,) if isinstance(overrides, str) else tuple(overrides)
    if not texts:
        return data
    data = _copied(data)
    for text in texts:
        path, value = split_override(data, text)
        set_path(data, path.strip(), parse_text(value, name=f"--set {path}"))
    return data


def split_override(data: Any, text: str) -> tuple[str, str]:
    """Split path=value where the path ends in the data.

    Raises
    ------
    InvalidProblem : it has no path, or no "=".
    """
    path, equals, value = text.partition("=")
    if not equals or not path.strip():
        raise InvalidProblem.at("--set", "path=value", shown(text))
    ends = [at for at, letter in enumerate(text) if letter == "="]
    if len(ends) == 1:
        return path, value
    legal = [at for at in ends[:_MOST_ENDS] if _is_path(text[:at].strip())]
    there = [at for at in legal if _leads_to_a_value(data, text[:at].strip())]
    new = ends[-1:] if _CHOICE_TERM.search(path) else legal
    at = (there or new or ends)[0]
    return text[:at], text[at + 1 :]


def _is_path(path: str) -> bool:
    try:
        return bool(split_path(path))
    except InvalidProblem:
        return False


def _leads_to_a_value(data: Any, path: str) -> bool:
    try:
        return bool(_walk(data, split_path(path), path))
    except InvalidProblem:
        return False


def _copied(data: Any) -> Any:
    """Copy containers one by one: two items of a list may be the same object."""
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(item) for item in data] if isinstance(data, list | tuple) else data


def set_path(data: Any, path: str, value: Any) -> None:
    """Set one path in place; every container but the last key must be there."""
    steps = split_path(path)
    found = False
    for holder in _walk(data, steps[:-1], path):
        for key in _keys(holder, steps[-1], path, new=True):
            holder[key] = _copied(value)
            drop_other(holder, key)
            found = True
    if not found:
        raise InvalidProblem.at(path, "a path that leads to a value", "none")


def drop_other(holder: Any, key: Any) -> None:
    """Drop what a key that was set stands in for."""
    if isinstance(holder, dict) and isinstance(key, str) and key in _INSTEAD:
        holder.pop(_INSTEAD[key], None)


def split_path(path: str) -> list[str]:
    """Split ranks[0].quota or ranks.0.quota into its steps; ['a.b'] is a key with a dot."""
    steps, end = [], 0
    for match in _STEP.finditer(path):
        if match.start() != end:
            break
        steps.append(match[match.lastgroup or 0])
        end = match.end()
    if not steps or end != len(path):
        raise InvalidProblem.at("--set", "a path such as ranks.0.quota", shown(path))
    return steps


def _walk(data: Any, steps: list[str], path: str) -> list[Any]:
    """Find the containers that the steps lead to."""
    holders = [data]
    for step in steps:
        holders = [
            holder[key] for holder in holders for key in _keys(holder, step, path, new=False)
        ]
    return holders


def _keys(holder: Any, step: str, path: str, *, new: bool) -> list[Any]:
    """Keys or indices of `holder` that a step names."""
    if isinstance(holder, dict):
        if step == "*":
            return list(holder)
        known = {str(key): key for key in holder}
        if step in known or new:
            return [known.get(step, step)]
        raise InvalidProblem.at(path, one_of(known, step), shown(step))
    if isinstance(holder, list):
        if step == "*":
            return list(range(len(holder)))
        named = [i for i, item in enumerate(holder) if _name_of(item) == step]
        if named:
            return named
        if _INDEX.fullmatch(step) and int(step) < len(holder):
            return [int(step)]
        names = [name for name in map(_name_of, holder) if isinstance(name, str)]
        listed = f"{one_of(names)}," if names else "a name"
        expected = f"{listed} or an index below {len(holder)}"
        raise InvalidProblem.at(path, expected, shown(step))
    raise InvalidProblem.at(path, "a mapping or a list before the last key", shown(holder))


def _name_of(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else None
