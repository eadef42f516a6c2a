"""Where a field stands in the problem, written so that --set finds it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kvplan.models import Problem

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
