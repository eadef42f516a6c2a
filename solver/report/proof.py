"""What keeps the plan from growing, what was reduced, and what was proven."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvplan.models import Plan
from kvplan.models.plan import Binding, GoalValue
from kvplan.solver.report.document import Column, Lines, Row, Table
from kvplan.solver.report.phrases import number, rank_runs

_DIGEST = 16


def binding_table(plan: Plan) -> Table:
    """Ranks and phases that bind, with the bytes that one step more would need."""
    columns = (
        Column("rank"),
        Column("phase", level=2),
        Column("slack", "bytes"),
        Column("one more of"),
        Column("needs", "bytes"),
    )
    alike: dict[str, list[Binding]] = {}
    for entry in plan.binding:
        alike.setdefault(entry.model_dump_json(exclude={"rank"}), []).append(entry)
    names = [rank.name for rank in plan.ranks]
    rows = tuple(row for entries in alike.values() for row in _binding(names, entries))
    return Table("what binds", columns, (rows,))


def _binding(names: list[str], entries: list[Binding]) -> Iterator[Row]:
    """One row a variable; rank, phase and slack stand in the first."""
    label = rank_runs(names, {entry.rank for entry in entries})
    entry = entries[0]
    head: tuple[str | int | None, ...] = (label, entry.phase, entry.slack)
    for variable, needed in entry.next.items() or ((None, None),):
        yield Row((*head, None if variable is None else variable, needed))
        head = (None, None, None)


def notes(plan: Plan) -> Lines:
    """The notes of the plan, one line each."""
    return Lines(tuple(f"note: {text}" for text in plan.notes), "warning")


def goals_table(goals: Iterable[GoalValue]) -> Table:
    """Every goal with its value and proven bound."""
    columns = (Column("goal"), Column("value", "number"), Column("bound", "number"), Column(""))
    return Table("goals, in order of priority", columns, (tuple(map(_goal, goals)),))


def _goal(goal: GoalValue) -> Row:
    proven = goal.bound is not None and goal.value == goal.bound
    bound = "none" if goal.bound is None else _exact(goal.bound.numerator, goal.bound.denominator)
    value = _exact(goal.value.numerator, goal.value.denominator)
    cells = (goal.goal, value, bound, "proven" if proven else "not proven")
    return Row(cells, state="plain" if proven else "warning")


def _exact(numerator: int, denominator: int) -> str:
    whole = number(numerator)
    return whole if denominator == 1 else f"{whole}/{number(denominator)}"


def digest(plan: Plan) -> Lines:
    """The head of the digest: the same on every rank and engine."""
    return Lines((f"digest {plan.digest[:_DIGEST]}",))
