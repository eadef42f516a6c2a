"""`path=value`: changes of single fields, applied to plain data before validation."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.models.loader import parse_text
from kvplan.models.units import shown

_STEP = re.compile(r"\[(\*|[0-9]+)\]|(?:^|\.)([^.\[\]]+)")


def apply_overrides(data: Any, overrides: Iterable[str]) -> Any:
    """Return a copy of `data` with every override applied.

    A path is keys joined by dots; an item of a list is named by its index or its name, `*` is all
    of them: `ranks.*.quota=10GiB`, `batches[0].requests.long.capacity=4096`.
    """
    texts = tuple(overrides)
    if not texts:
        return data
    data = copy.deepcopy(data)
    for text in texts:
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise InvalidProblem.at("--set", "path=value", shown(text))
        set_path(data, path.strip(), parse_text(value, name=f"--set {path}"))
    return data


def set_path(data: Any, path: str, value: Any) -> None:
    """Set one path in place; every container but the last key must be there."""
    steps = split_path(path)
    for holder in _walk(data, steps[:-1], path):
        for key in _keys(holder, steps[-1], path, new=True):
            holder[key] = value


def split_path(path: str) -> list[str]:
    """Split ranks[0].quota or ranks.0.quota into its steps."""
    steps, end = [], 0
    for match in _STEP.finditer(path):
        if match.start() != end:
            break
        steps.append(match[1] or match[2])
        end = match.end()
    if not steps or end != len(path):
        raise InvalidProblem.at(path, "a path such as ranks.0.quota", shown(path))
    return steps


def _walk(data: Any, steps: list[str], path: str) -> Iterator[Any]:
    if not steps:
        yield data
        return
    for key in _keys(data, steps[0], path, new=False):
        yield from _walk(data[key], steps[1:], path)


def _keys(holder: Any, step: str, path: str, *, new: bool) -> list[Any]:
    """Keys or indices of `holder` that a step names."""
    if isinstance(holder, dict):
        if step == "*":
            return list(holder)
        known = {str(key): key for key in holder}
        if step in known:
            return [known[step]]
        if new:
            return [step]
        raise InvalidProblem.at(path, f"one of {', '.join(known)}", repr(step))
    if isinstance(holder, list):
        if step == "*":
            return list(range(len(holder)))
        named = [i for i, item in enumerate(holder) if isinstance(item, dict) and item.get("name") == step]
        if named:
            return named
        if step.isdecimal() and int(step) < len(holder):
            return [int(step)]
        raise InvalidProblem.at(path, f"an index below {len(holder)} or a name", repr(step))
    raise InvalidProblem.at(path, "a mapping or a list before the last key", shown(holder))
