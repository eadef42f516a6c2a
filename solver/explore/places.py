"""Where in a problem's data the varied fields are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvplan.models import InvalidProblem
from kvplan.models.reading.overrides import set_path
from kvplan.solver.explore.axes import Axis


class Place(NamedTuple):
    """A key of a container: what a path leads to."""

    holder: Any
    key: Any
    location: tuple[int | str, ...]


def find_places(data: dict[str, Any], axes: tuple[Axis, ...]) -> tuple[tuple[Place, ...], ...]:
    """Where each axis writes, [axis][place]; every place is left marked in `data`.

    Raises
    ------
    InvalidProblem : a path that leads nowhere, or two that meet.
    """
    marks = [_Mark(axis.path) for axis in axes]
    counts = []
    for axis, mark in zip(axes, marks, strict=True):
        _mark(data, axis.path, mark)
        counts.append(len(_marked(data, mark)))
    found = tuple(_marked(data, mark) for mark in marks)
    for axis, places, count in zip(axes, found, counts, strict=True):
        if len(places) < count:
            raise InvalidProblem.at(axis.path, "fields that no other path varies", "one twice")
    return found


class _Mark(str):
    """A text that is compared by identity."""

    __slots__ = ()


def _mark(data: dict[str, Any], path: str, mark: _Mark) -> None:
    try:
        set_path(data, path, mark)
    except InvalidProblem as error:
        faults = (f._replace(path="--vary") if f.path == "--set" else f for f in error.faults)
        raise InvalidProblem(faults) from None


def _marked(data: Any, mark: _Mark) -> tuple[Place, ...]:
    return tuple(place for place in _walk(data) if place.holder[place.key] is mark)


def _walk(holder: Any, location: tuple[int | str, ...] = ()) -> Iterator[Place]:
    """Every key and index of the data, outer ones first."""
    if isinstance(holder, dict | list):
        for key in holder if isinstance(holder, dict) else range(len(holder)):
            yield Place(holder, key, (*location, key))
            yield from _walk(holder[key], (*location, key))
