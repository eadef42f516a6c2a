"""Groups of one command line: what stands behind each --and is a model of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand

AND, DRAFT = "--and", "--and-draft"
_LATER = "kvplan.later_groups"
_FIRST_ONLY = ("check", "from_log", "optimize", "mean_tokens", "flags", "as_json", "share")
"""Options of the whole command; those of a group are the others."""


class Group(NamedTuple):
    """One model of a command line.

    Attributes
    ----------
    keyword : that it stands behind; --and for the first.
    options : kvplan's own, by parameter.
    arguments : the engine's.
    """

    keyword: str
    options: Mapping[str, Any]
    arguments: Sequence[str]


class GroupedCommand(TyperCommand):
    """A command that keeps what follows the first --and for `later_groups`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the first group; the others wait."""
        first, *later = split(args)
        ctx.meta[_LATER] = later
        return super().parse_args(ctx, first[1])


def split(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """(keyword, words) of each group; a keyword behind "--" separates as well."""
    found: list[tuple[str, list[str]]] = [(AND, [])]
    for word in words:
        if word in (AND, DRAFT):
            found.append((word, []))
        else:
            found[-1][1].append(word)
    return found


def groups_of(context: typer.Context) -> list[Group]:
    """Return every group of a command, the first one included; one where there is no --and.

    Raises
    ------
    InvalidProblem : an option of the whole command behind --and, or one that --and has no part in.
    """
    from kvplan.models import InvalidProblem

    later = context.meta[_LATER]
    found = [Group(AND, context.params, context.args)]
    if not later and context.params["share"]:
        raise InvalidProblem.at("--share", f"several models ({AND} CONFIG)", "one")
    if later:
        for name in ("check", "from_log", "optimize", "mean_tokens", "flags"):
            if context.params[name]:
                raise InvalidProblem.at(_spelled(name), "one model (no --and)", f"{len(later) + 1}")
    for keyword, words in later:
        inner = context.command.make_context(context.info_name, list(words), parent=context.parent)
        for name in _FIRST_ONLY:
            if inner.params[name]:
                raise InvalidProblem.at(_spelled(name), f"before the first {AND}", f"behind {AND}")
        found.append(Group(keyword, inner.params, inner.args))
    return found


def _spelled(name: str) -> str:
    return "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
