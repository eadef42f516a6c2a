"""What the environment asks of kvplan inside an engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast, get_args

from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown

Mode = Literal["off", "check", "apply"]
MOST_GROUPS = 16
"""Groups of layers that a plan may ask for; each costs a block table and metadata every step."""


class Settings(NamedTuple):
    """The environment, read.

    Attributes
    ----------
    mode : off: the engine sizes alone; check: kvplan compares and explains; apply: it sizes.
    workload_file : requests at once, a mix or quantiles of lengths; None: the longest request.
    strict : a start that kvplan cannot check, or that differs, fails.
    most_groups : cap on vLLM's groups of layers.
    layout_file : vLLM: a page layout to apply, of `kvplan layout --json`.
    """

    mode: Mode = "off"
    workload_file: str | None = None
    strict: bool = False
    most_groups: int = MOST_GROUPS
    layout_file: str | None = None


def is_strict(environment: Mapping[str, str]) -> bool:
    """Whether KVPLAN_STRICT is set to something other than 0."""
    return environment.get("KVPLAN_STRICT", "0") not in ("", "0")


def settings_of(environment: Mapping[str, str]) -> Settings:
    """Read KVPLAN, KVPLAN_WORKLOAD, KVPLAN_STRICT, KVPLAN_MAX_GROUPS and KVPLAN_LAYOUT.

    Raises
    ------
    InvalidProblem : a mode or a number that is none.
    """
    mode = environment.get("KVPLAN") or "off"
    if mode not in get_args(Mode):
        raise InvalidProblem.at("KVPLAN", one_of(get_args(Mode), mode), shown(mode))
    groups = environment.get("KVPLAN_MAX_GROUPS") or str(MOST_GROUPS)
    if not groups.isdecimal() or not int(groups):
        raise InvalidProblem.at("KVPLAN_MAX_GROUPS", "a whole number of at least 1", shown(groups))
    return Settings(
        cast(Mode, mode),
        environment.get("KVPLAN_WORKLOAD") or None,
        is_strict(environment),
        int(groups),
        environment.get("KVPLAN_LAYOUT") or None,
    )
