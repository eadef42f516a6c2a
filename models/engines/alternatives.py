"""Variants of an engine's problem: what a deployer may change, as flags to paste."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvplan.models.problem import Problem


def variant(flags: str, problem: Problem, other: Problem, note: str = "") -> dict[str, Any] | None:
    """Write the way from a problem to another as a variant; None where they are the same.

    Parameters
    ----------
    flags : what to give the engine, which is the variant's name.
    note : what the engine would then print.
    """
    changes = list(_changes("", _plain(problem), _plain(other)))
    if not changes:
        return None
    entry: dict[str, Any] = {"name": flags, "set": changes}
    return {**entry, "note": note} if note else entry


def _plain(problem: Problem) -> dict[str, Any]:
    data = problem.model_dump(mode="json", exclude_unset=True)
    return {key: value for key, value in data.items() if key not in ("name", "variants", "labels")}


def _changes(path: str, old: Any, new: Any) -> Iterator[str]:
    """Path=value for what differs: leaf by leaf where both have one shape, else as a whole."""
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping) and (set(old) == set(new) or not path):
        for key in new:
            step = f"{path}.{key}" if path else str(key)
            yield from _changes(step, old.get(key), new[key])
        return
    if _alike(old, new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _changes(f"{path}[{index}]", before, after)
        return
    yield f"{path}={json.dumps(new)}"


def _alike(old: Any, new: Any) -> bool:
    lists = all(isinstance(value, Sequence) and not isinstance(value, str) for value in (old, new))
    return lists and len(old) == len(new)
