"""Reports: a plan, or why there is none, as plain text or on a terminal."""

from __future__ import annotations

from typing import TextIO

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver.explain import Explained
from kvplan.solver.report.budget_table import budgets
from kvplan.solver.report.decisions import decisions, headline
from kvplan.solver.report.document import Document, Lines
from kvplan.solver.report.elastic_lines import Elastic
from kvplan.solver.report.explanation import (
    break_points_table,
    conflict_table,
    remedies_table,
    ruled_out_table,
    worth_table,
)
from kvplan.solver.report.plain_text import plain_text
from kvplan.solver.report.proof import binding_table, digest, goals_table, notes
from kvplan.solver.report.shortfalls import reasons, shortfall_table
from kvplan.solver.report.spaces import placement_tables

__all__ = ["document_of", "explanation_of", "print_report", "report", "show"]


def document_of(answer: Plan | Infeasible, problem: Problem | None = None) -> Document:
    """The contents of a report, in reading order.

    Parameters
    ----------
    answer : a plan, or the error that explains why there is none.
    problem : what was asked; adds its name and the requested values to the table of decisions.
    """
    title = problem.name if problem is not None else ""
    elastic = None if problem is None or problem.place is not None else Elastic(problem)
    if isinstance(answer, Infeasible):
        return (
            reasons(answer, title),
            conflict_table(answer),
            shortfall_table(answer),
            remedies_table(answer),
            ruled_out_table(answer),
            *budgets(answer.ranks, elastic=elastic),
        )
    binding = {(entry.rank, entry.phase) for entry in answer.binding}
    return (
        headline(answer, title),
        decisions(answer, problem),
        *placement_tables(answer, problem),
        *budgets(answer.ranks, binding, elastic),
        binding_table(answer),
        notes(answer),
        goals_table(answer, problem),
        *next_question(problem),
        digest(answer),
    )


def next_question(problem: Problem | None) -> Document:
    """What to ask where nothing is fitted: every request is given."""
    if problem is None or problem.prefill or problem.experts or problem.choices or problem.goals:
        return ()
    if problem.fitted("capacity") or problem.fitted("count") or not problem.batches:
        return ()
    return (
        Lines(
            (
                "next: every request gets what it asked for, and nothing else was left to decide.",
                "  fit: capacity (or fit: count) on a request asks for the most that fits",
                "  kvplan explain FILE says at which quota the answer changes",
            )
        ),
    )


def explanation_of(explained: Explained, problem: Problem) -> Document:
    """What limits a plan: binding rows, where the answer changes, what 1 GiB more buys."""
    answer = explained.plan
    binding = {(entry.rank, entry.phase) for entry in answer.binding}
    elastic = None if problem.place is not None else Elastic(problem)
    return (
        headline(answer, problem.name),
        decisions(answer, problem),
        *placement_tables(answer, None),
        binding_table(answer),
        break_points_table(explained, problem),
        worth_table(explained, problem),
        *budgets(answer.ranks, binding, elastic),
        notes(answer),
    )


def report(answer: Plan | Infeasible, problem: Problem | None = None) -> str:
    """Render an answer as plain text: aligned, never wrapped or cut, without colour."""
    return plain_text(document_of(answer, problem))


def print_report(answer: Plan | Infeasible, problem: Problem | None, file: TextIO) -> None:
    """Print an answer: in colour with bars where `file` is a terminal, as plain text elsewhere."""
    show(document_of(answer, problem), file)


def show(document: Document, file: TextIO) -> None:
    """Print a document: in colour with bars where `file` is a terminal, as plain text elsewhere."""
    if not file.isatty():
        file.write(plain_text(document))
        return
    from rich.console import Console

    from kvplan.solver.report.terminal import print_document

    console = Console(file=file, highlight=False, markup=False, emoji=False)
    print_document(document, console)
