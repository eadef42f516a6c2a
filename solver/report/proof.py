"""What keeps the plan from growing, what was reduced, and what was proven."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models import Plan, Problem
from kvplan.models.goals import Goal, curve_value
from kvplan.models.plan import Binding, GoalValue
from kvplan.solver.report.document import Column, Lines, Row, Table
from kvplan.solver.report.phrases import number, rank_runs

_DIGEST = 16


def binding_table(plan: Plan) -> Table:
    """Ranks and phases that bind, with the bytes that one step more would need."""
    columns = (
        Column("rank"),
        Column("phase"),
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


def goals_table(plan: Plan, problem: Problem | None = None) -> Table:
    """Every goal with its value and proven bound; of a weighted goal what each part is worth."""
    columns = (
        Column("goal"),
        Column("value", "number"),
        Column("bound", "number"),
        Column(""),
        Column("made of"),
    )
    weighted = {} if problem is None else {goal.label: goal for goal in problem.goals}
    rows = tuple(_goal(each, _parts(weighted.get(each.goal), plan)) for each in plan.proof.bound)
    return Table("goals, in order of priority", columns, (rows,))


def _parts(goal: Goal | None, plan: Plan) -> str:
    """What each variable adds to a weighted goal, such as "3 x 4_592 experts = 13_776"."""
    if goal is None or goal.single is not None:
        return ""
    texts = []
    for variable, weight in goal.maximize.items():
        at = _value(variable, plan)
        if at is None:
            return ""
        worth = curve_value(goal.curves[variable], at) if variable in goal.curves else at
        total = weight * worth
        seen = (
            f"({number(at)} {variable})" if variable in goal.curves else f"{number(at)} {variable}"
        )
        texts.append(
            f"{_exact(weight.numerator, weight.denominator)} x {seen}"
            f" = {_exact(total.numerator, total.denominator)}"
        )
    return ", ".join(texts)


def _value(variable: str, plan: Plan) -> int | None:
    """What a variable of a goal is in a plan; None where it is no count."""
    kind, _, name = variable.partition(":")
    if variable == "prefill":
        return plan.prefill_chunk
    if variable == "experts":
        return plan.expert_slots
    if kind == "copies":
        return plan.copies
    named = (row for row in plan.requests if row.name == name)
    found = next(named, None)
    if found is None or kind not in ("capacity", "count"):
        return None
    return found.capacity if kind == "capacity" else found.count


def _goal(goal: GoalValue, parts: str = "") -> Row:
    proven = goal.bound is not None and goal.value == goal.bound
    bound = "none" if goal.bound is None else _exact(goal.bound.numerator, goal.bound.denominator)
    value = _exact(goal.value.numerator, goal.value.denominator)
    cells = (goal.goal, value, bound, "proven" if proven else "not proven", parts)
    return Row(cells, state="plain" if proven else "warning")


def _exact(numerator: int, denominator: int) -> str:
    whole = number(numerator)
    return whole if denominator == 1 else f"{whole}/{number(denominator)}"


def digest(plan: Plan) -> Lines:
    """The head of the digest: the same on every rank and engine."""
    return Lines((f"digest {plan.digest[:_DIGEST]}",))
