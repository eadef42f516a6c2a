"""Where a field stands in the problem, written so that --set finds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.models.problem import Problem

_PLAIN = re.compile(r"[^.\[\]=\s*]+(?: +[^.\[\]=\s*]+)*")


def item_path(section: str, items: Sequence[Any], index: int) -> str:
    """`section.name`, or `section[index]` where the name would be read otherwise."""
    name = items[index].name
    named = name is not None and _PLAIN.fullmatch(name) and not name.isdecimal()
    return f"{section}.{name}" if named else f"{section}[{index}]"


def rank_path(problem: Problem, index: int) -> str:
    """Path of a rank."""
    return item_path("ranks", problem.ranks, index)


def batch_path(problem: Problem, b: int) -> str:
    """Path of a batch."""
    return item_path("batches", problem.batches, b)


def request_path(problem: Problem, b: int, r: int) -> str:
    """Path of a request of a batch."""
    requests = problem.batches[b].requests
    return item_path(f"{batch_path(problem, b)}.requests", requests, r)


def pool_path(problem: Problem, index: int) -> str:
    """Path of a pool."""
    return item_path("pools", problem.pools, index)


def flags_at(problem: Problem, *paths: str) -> str:
    """The caller's flags for some fields and those below them, ` (--flag)`; "" without a label.

    A label of several words says what to write for one value: it is for remedies alone.
    """
    ends = tuple(f"{path}." for path in paths)
    found = [
        label
        for path, label in problem.labels.items()
        if (path in paths or path.startswith(ends)) and " " not in label
    ]
    return f" ({', '.join(dict.fromkeys(found))})" if found else ""
