"""What `kvplan model` prints: a problem as YAML, an engine's figures as comments, a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kvplan.solver.cli.model.model_check import check_lines as check_lines

if TYPE_CHECKING:
    from kvplan.solver.advise.advice import Advice


def comment_text(title: str, lines: Mapping[str, str]) -> str:
    """Write figures as YAML comments, a line each."""
    rows = [f"# {title}", *(f"#   {label}: {value}" for label, value in lines.items())]
    return "".join(f"{row}\n" for row in rows)


def assumed_text(lines: Iterable[str]) -> str:
    """Write what was assumed as YAML comments; nothing where nothing was."""
    rows = [f"#   {line}\n" for line in lines]
    return "".join(("# assumed\n", *rows)) if rows else ""


def advice_text(advice: Advice) -> str:
    """Write what to set, and the table of before and after."""
    labels = list(dict.fromkeys((*advice.before, *advice.after)))
    width = max((len(label) for label in labels), default=0)
    before = {label: advice.before.get(label, "-") for label in labels}
    after = {label: advice.after.get(label, "-") for label in labels}
    column = max((len(text) for text in (*before.values(), "before")), default=6)
    flags = " ".join(f"{flag} {value}".rstrip() for flag, value in advice.flags.items())
    rows = [
        f"set: {flags or 'nothing: no other setting holds more'}",
        f"{'':{width}}  {'before':>{column}}  after",
        *(f"{label:{width}}  {before[label]:>{column}}  {after[label]}" for label in labels),
        f"requests at once: {advice.requests[0]} before, {advice.requests[1]} after; "
        f"no setting holds more than {advice.bound}",
        *(f"not counted: {text}" for text in advice.left_out),
    ]
    return "".join(f"# {row.rstrip()}\n" for row in rows)
