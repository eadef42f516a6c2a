"""What the JSON and YAML readers share: bounds, numbers, and unique keys."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from kvplan.models.messages import LONGEST, Misfit

MOST_NODES = 250_000
DEEPEST = 40


def parse_whole(text: str) -> int | str:
    """Read digits; a number that is out of any range stays text."""
    return int(text) if len(text) <= LONGEST else text


def parse_decimal(text: str) -> Decimal | str:
    """Read a decimal as it is written; one that is out of any range stays text."""
    try:
        return Decimal(text) if len(text) <= LONGEST else text
    except InvalidOperation:
        return text


def unique(items: Iterable[tuple[Any, Any]], where: str = "") -> dict[Any, Any]:
    """Build a mapping; reject duplicate keys."""
    mapping: dict[Any, Any] = {}
    for key, value in items:
        if key in mapping:
            raise Misfit("each key once", f"it twice{where}", str(key))
        mapping[key] = value
    return mapping
