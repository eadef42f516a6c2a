"""Why nothing fits and what would help; what limits a plan."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from fractions import Fraction

from kvplan.models import Infeasible, Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.explain import Explained
from kvplan.solver.explain.remedies.what_if import OUTSIDE
from kvplan.solver.explain.sensitivity.break_points import BreakPoint, Change, Worth
from kvplan.solver.report.document import Column, Row, Table
from kvplan.solver.report.phrases import number, rank_runs

MOST_RULED_OUT = 24


def conflict_table(error: Infeasible) -> Table:
    """Demands that cannot hold together."""
    columns = (Column("demand"), Column("field", "paste"))
    rows = tuple(Row((claim.text, claim.path), state="bad") for claim in error.conflict)
    return Table(
        "cannot hold together (drop any one and the others can)",
        columns,
        (rows,),
    )


def remedies_table(error: Infeasible) -> Table:
    """Verified single changes, those that change least first."""
    columns = (Column("what"), Column("--set", "paste"))
    rows = []
    for remedy in error.remedies:
        flag = shlex.quote(f"{remedy.change}={remedy.to}")
        if remedy.change.startswith("variants"):
            flag = ""  # its text lists every flag
        rows.append(Row((remedy.text, flag), state="good"))
    return Table(
        "any one of these makes it fit; each is the smallest change of its kind",
        columns,
        (tuple(rows),),
    )


def ruled_out_table(error: Infeasible) -> Table:
    """Changes that cannot help, with the reason; those outside the conflict are left to --json."""
    columns = (Column("field", "paste"), Column("why it cannot help alone"))
    shown = [entry for entry in error.ruled_out if entry.reason != OUTSIDE]
    rows = [Row((entry.change, entry.reason)) for entry in shown[:MOST_RULED_OUT]]
    hidden = len(error.ruled_out) - len(rows)
    if hidden:
        rows.append(Row((f"{number(hidden)} more", f"{OUTSIDE}; --json has all")))
    return Table("what cannot help", columns, (tuple(rows),))


def break_points_table(explained: Explained, problem: Problem) -> Table:
    """The nearest quotas at which the answer changes, and to what."""
    columns = (
        Column("rank"),
        Column("quota", "number"),
        Column("goal"),
        Column("from", "number"),
        Column("to", "number"),
    )
    rows = tuple(
        row for point in explained.break_points for row in _break_point(explained, point, problem)
    )
    return Table("where the answer changes next", columns, (rows,))


def _break_point(explained: Explained, point: BreakPoint, problem: Problem) -> Iterator[Row]:
    sign = "+" if point.bytes > 0 else "-"
    head = (_label(explained, point.rank), f"{sign} {exact_bytes(abs(point.bytes))}")
    if not point.changes:
        yield Row((*head, "nothing fits", None, None), state="bad")
    yield from _changes(head, point.changes, problem)


def _changes(
    head: tuple[str | None, ...], changes: tuple[Change, ...], problem: Problem
) -> Iterator[Row]:
    for change in changes:
        before, after = (_shown(problem, change.goal, v) for v in (change.before, change.after))
        yield Row((*head, change.goal, before, after))
        head = tuple(None for _ in head)


def worth_table(explained: Explained, problem: Problem) -> Table:
    """What one GiB more on a rank buys, goal by goal."""
    columns = (
        Column("rank"),
        Column("goal"),
        Column("from", "number"),
        Column("to", "number"),
    )
    rows = tuple(row for worth in explained.worth for row in _worth(explained, worth, problem))
    return Table("what 1 GiB more buys", columns, (rows,))


def _worth(explained: Explained, worth: Worth, problem: Problem) -> Iterator[Row]:
    label = _label(explained, worth.rank)
    if not worth.changes:
        yield Row((label, "nothing", None, None))
    yield from _changes((label,), worth.changes, problem)


def _label(explained: Explained, name: str) -> str:
    """The rank with those that are alike: "each of tp0..tp7"."""
    members = explained.groups.get(name, (name,))
    names = [rank.name for rank in explained.plan.ranks]
    return name if len(members) == 1 else f"each of {rank_runs(names, members)}"


def _shown(problem: Problem, goal: str, value: Fraction) -> str:
    """A goal's value; of a choice the option."""
    for choice in problem.choices:
        if goal == f"choice:{choice.name}":
            return choice.options[-int(value)].name
    whole = number(value.numerator)
    return whole if value.denominator == 1 else f"{whole}/{number(value.denominator)}"
