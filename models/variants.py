"""Whole alternatives, tried where the problem itself does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from kvplan.models.base import Frozen, Name, Title
from kvplan.models.json_schema import OVERRIDES
from kvplan.models.messages import Misfit, shown


def _overrides(value: Any) -> tuple[str, ...]:
    """Read ["path=value", ...], the same text that --set takes."""
    if not isinstance(value, list | tuple) or not value:
        raise Misfit('a list of "path=value"', shown(value))
    for index, entry in enumerate(value):
        if not isinstance(entry, str) or not entry.partition("=")[0].strip() or "=" not in entry:
            raise Misfit("path=value", shown(entry), index)
    return tuple(value)


Overrides = Annotated[
    tuple[str, ...], BeforeValidator(_overrides, json_schema_input_type=OVERRIDES)
]


class Variant(Frozen):
    """Overrides under one name: another KV type, another way to shard."""

    name: Name = Field(description="unique among the variants")
    set: Overrides = Field(description='changes, "path=value" each, applied together')
    note: Title = Field(
        default="", description="what the caller says of it, such as the tokens it gives"
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            name: str,
            set: Sequence[str],
            note: str = "",
        ) -> None: ...
