"""Why there is no plan: the reasons, and the bytes that are short."""

from __future__ import annotations

from kvplan.models import Infeasible
from kvplan.solver.report.document import Column, Lines, Row, Table
from kvplan.solver.report.phrases import number, rank_runs

MOST_REASONS = 8


def reasons(error: Infeasible, title: str) -> Lines:
    """The verdict, under the name of the problem, and one line a reason."""
    head = (title,) if title.strip() else ()
    verdict = "infeasible: no plan satisfies everything that was asked"
    texts = [f"  {text}" for text in error.reasons[:MOST_REASONS]]
    hidden = len(error.reasons) - len(texts)
    if hidden:
        texts.append(f"  and {number(hidden)} more; the tables below group them, --json has all")
    return Lines((*head, verdict, *texts), "bad")


def shortfall_table(error: Infeasible) -> Table:
    """Bytes that ranks lack by phase, with everything elastic at its floor."""
    columns = (Column("rank"), Column("phase"), Column("short by", "bytes"))
    alike: dict[tuple[str, int], list[str]] = {}
    for entry in error.shortfall:
        alike.setdefault((entry.phase, entry.bytes), []).append(entry.rank)
    names = [rank.name for rank in error.ranks] or [entry.rank for entry in error.shortfall]
    rows = tuple(
        Row((rank_runs(list(dict.fromkeys(names)), ranks), phase, count), state="bad")
        for (phase, count), ranks in alike.items()
    )
    return Table("shortfall, with everything elastic at its floor", columns, (rows,))
