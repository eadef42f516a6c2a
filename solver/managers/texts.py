"""What an engine's log says of a plan: a verdict of one line, the budget, the splits, remedies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.errors import Infeasible
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.models.units import human_bytes
from kvplan.solver.report.budget_table import budgets
from kvplan.solver.report.document import Column, Row, Table
from kvplan.solver.report.elastic_lines import Elastic
from kvplan.solver.report.plain_text import plain_text
from kvplan.solver.report.proof import binding_table


class Split(NamedTuple):
    """One way to use the bytes, and how much of the workload it holds.

    Attributes
    ----------
    label : what tells it from the others: "8 groups of 4".
    blocks : by pool.
    requests : of the workload at once; a fraction of one where not even one fits.
    """

    label: str
    blocks: dict[str, int]
    requests: Fraction


def budget_text(answer: Plan, problem: Problem) -> str:
    """The budget of every rank and what binds, as plain text without a final newline."""
    binding = {(entry.rank, entry.phase) for entry in answer.binding}
    document = (*budgets(answer.ranks, binding, Elastic(problem)), binding_table(answer))
    return plain_text(document).rstrip("\n")


def splits_text(splits: Sequence[tuple[str, Split]], quota_bytes: int) -> str:
    """Splits side by side: who would make it, its label, blocks by pool, requests at once.

    Parameters
    ----------
    quota_bytes : of the first rank, for the title.
    """
    title = f"splits of {human_bytes(quota_bytes)}"
    pools = list(dict.fromkeys(pool for _, split in splits for pool in split.blocks))
    columns = (
        Column("split"),
        Column("layout"),
        *(Column(pool, "number") for pool in pools),
        Column("requests at once", "number"),
    )
    rows = tuple(
        Row((name, split.label, *_counts(split, pools), decimal(split.requests)))
        for name, split in splits
    )
    return plain_text((Table(title, columns, (rows,)),)).rstrip("\n")


def _counts(split: Split, pools: Sequence[str]) -> Iterator[str]:
    for pool in pools:
        yield f"{split.blocks.get(pool, 0):_}"


def decimal(value: Fraction) -> str:
    """Two decimals, rounded down: a share of a request is not there until it is."""
    hundredths = value * 100 // 1
    return f"{hundredths // 100:_}.{hundredths % 100:02d}"


def gain(before: Fraction, after: Fraction) -> str:
    """What a split holds beside another: "15.2 % more"."""
    if not before:
        return "more"
    tenths = round((after / before - 1) * 1000)
    word = "less" if tenths < 0 else "more"
    return f"{abs(tenths) // 10}.{abs(tenths) % 10} % {word}"


def refusal_text(refusal: Infeasible) -> str:
    """What falls short, and the smallest changes that start, in the engine's flags."""
    texts = [remedy.text for remedy in refusal.remedies if remedy.text.startswith("--")]
    heading = ["any one of these changes starts:"] if texts else []
    return "\n".join((*refusal.reasons, *heading, *(f"  {text}" for text in texts)))
