"""Reports: a plan, or why there is none, as plain text or on a terminal."""

from __future__ import annotations

from typing import TextIO

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.report.budget import budgets
from kvplan.solver.report.decisions import decisions, headline
from kvplan.solver.report.document import Document
from kvplan.solver.report.plain import plain_text
from kvplan.solver.report.proof import binding_table, digest, goals_table, notes
from kvplan.solver.report.refusal import reasons, shortfall_table

__all__ = ["document_of", "print_report", "report"]


def document_of(answer: Plan | Infeasible, problem: Problem | None = None) -> Document:
    """What a report says, in reading order.

    Parameters
    ----------
    answer : a plan, or the error that explains why there is none.
    problem : what was asked; adds its name and the requested values to the table of decisions.
    """
    title = problem.name if problem is not None else ""
    if isinstance(answer, Infeasible):
        return (reasons(answer, title), shortfall_table(answer), *budgets(answer.ranks))
    binding = {(entry.rank, entry.phase) for entry in answer.binding}
    return (
        headline(answer, title),
        decisions(answer, problem),
        *budgets(answer.ranks, binding),
        binding_table(answer),
        notes(answer),
        goals_table(answer.proof.bound),
        digest(answer),
    )


def report(answer: Plan | Infeasible, problem: Problem | None = None) -> str:
    """Render an answer as plain text: aligned, never wrapped or cut, without colour."""
    return plain_text(document_of(answer, problem))


def print_report(answer: Plan | Infeasible, problem: Problem | None, file: TextIO) -> None:
    """Print an answer: in colour with bars where `file` is a terminal, as plain text elsewhere."""
    if not file.isatty():
        file.write(report(answer, problem))
        return
    from rich.console import Console

    from kvplan.solver.report.terminal import print_document

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    print_document(document_of(answer, problem), console)
