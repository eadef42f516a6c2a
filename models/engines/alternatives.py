"""Variants of an engine's problem: what a deployer may change, as flags to paste."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kvplan.models.engines.estimates import Estimate, titled
from kvplan.models.engines.registry import Flag, Settings
from kvplan.models.errors import InvalidProblem
from kvplan.models.problem import Problem

MOST_RANKS = 16
Choice = tuple[str, dict[str, Any]]
"""Flags to give the engine, and the settings that they stand for."""


def laid_over(
    flags: tuple[Flag, ...], settings: Mapping[str, Any], changes: Mapping[str, Any]
) -> Settings:
    """Settings with some of them changed, as if they had been given."""
    given = settings.given if isinstance(settings, Settings) else frozenset(settings)
    given |= {"weights"} & settings.keys()
    return Settings(flags, {key: settings[key] for key in given} | dict(changes))


def offering(
    problem: Problem,
    labels: Mapping[str, str],
    choices: Iterable[Choice],
    rebuilt: Callable[[dict[str, Any]], Problem],
    estimates: Sequence[Estimate] = (),
) -> Problem:
    """Return the problem with the engine's names for its fields, and what else could be launched.

    Parameters
    ----------
    labels : a field's path -> a flag.
    rebuilt : the engine's problem with some settings changed.
    estimates : terms of its budget that nobody measured; the title names them.
    """
    found = []
    for flags, changes in choices:
        try:
            entry = variant(flags, problem, rebuilt(changes))
        except InvalidProblem:
            continue
        if entry is not None:
            found.append(entry)
    more: dict[str, Any] = {"labels": dict(labels)} if labels else {}
    more |= {"variants": found} if found else {}
    more["name"] = titled(problem.name, estimates)
    return Problem.model_validate({**problem.model_dump(mode="json", exclude_unset=True), **more})


def halves(count: int) -> Iterator[int]:
    """Offer half of it, and half again, down to a thirty-second."""
    for power in range(1, 6):
        if count >> power:
            yield count >> power


def on_more_ranks(settings: Mapping[str, Any], flag: str, key: str) -> Iterator[Choice]:
    """Offer twice the ranks, each with half the weights; what was measured is taken as it is."""
    ranks, weights = 2 * max(1, int(settings[key])), settings.get("weights_bytes")
    halved = {} if weights is None else {"weights_bytes": -(-weights // 2)}
    if ranks <= MOST_RANKS:
        yield f"{flag} {ranks}", {key: ranks, **halved}


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
