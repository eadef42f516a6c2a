"""A plan checked against its problem: by the oracle, and by what follows from its decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.kernels.instance import Instance
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer, Point
from kvplan.models import Plan, Problem
from kvplan.models.messages import shown
from kvplan.models.plan import RequestPlan
from kvplan.solver.answer.credit import Credit
from kvplan.solver.answer.deferred_fields import deferred_fields
from kvplan.solver.check.placement import placement_faults
from kvplan.solver.digest import DECISIONS, digest_of, question_of
from kvplan.solver.formulate.formulation import Formulation, formulate
from kvplan.solver.oracle import check
from kvplan.solver.place.context_cap import capped, fitted_values, longest, retold
from kvplan.solver.place.placed import placed

_OF_THE_SOLVER = ("the deadline passed", "the default time was over", "solver:", "device:")
"""Beginnings of notes that say who answered; no decision implies them."""
_SOLVERS = {
    "nested": ("auto", "cp-sat", "bisect"),
    "nested on ": ("bisect",),
    "search": ("auto", "cp-sat", "bisect"),
    "cp-sat": ("auto", "cp-sat"),
    "cp-sat+nested": ("cp-sat",),
}
"""Solvers by certificate."""


def violations(problem: Problem, plan: Plan) -> list[str]:
    """Rules that a plan breaks, and figures or text that do not follow from its decisions.

    These do not follow from the decisions and are not checked: bounds of goals that are not
    proven, CP-SAT's time, which of the solvers answered, and whether a replay was made. A plan of
    an older kvplan says no question.
    """
    if problem.place is not None:
        return _of_placement(problem, plan)
    found = check(problem, plan)
    lines = []
    if plan.question and plan.question != question_of(problem):
        lines.append(
            "question: the plan answers another problem than this one; verify it with the file and "
            "the --set that it was solved with"
        )
    lines += [str(each) for each in found]
    if digest_of(plan) != plan.digest:
        lines.append(f"digest: expected {digest_of(plan)}, got {plan.digest}")
    if all(each.rule == "figures" for each in found):
        formulation = formulate(problem)
        lines += _proof(plan, formulation.instance)
        lines += _texts(formulation, plan)
    return lines


def _of_placement(problem: Problem, plan: Plan) -> list[str]:
    """The placement's own rules, then those of the pools that it leaves."""
    if plan.placement is None:
        return ["placement: expected one, got none"]
    lines = placement_faults(problem, plan.placement)
    if digest_of(plan) != plan.digest:
        lines.append(f"digest: expected {digest_of(plan)}, got {plan.digest}")
    if plan.question and plan.question != question_of(problem):
        lines.append("question: the plan answers another problem than this one")
    if lines:
        return lines
    tokens = plan.placement.context_tokens
    if longest(plan) != tokens:
        return [
            f"placement: buffers are of {tokens} tokens, the longest request of {longest(plan)}"
        ]
    rest = placed(problem, plan.placement)
    short = capped(rest, fitted_values(rest, plan))
    found = _of_rest(rest, plan, retold(plan, rest))
    return found and (_of_rest(short, plan, retold(plan, short)) and found)


def _of_rest(rest: Problem, plan: Plan, requests: tuple[RequestPlan, ...]) -> list[str]:
    """Rules of the pools that a placement leaves."""
    changes = {"placement": None, "status": plan.proof.status, "requests": requests}
    bare = plan.model_copy(update=changes)
    asked = {"digest": digest_of(bare), "question": question_of(rest)}
    return violations(rest, bare.model_copy(update=asked))


def _proof(plan: Plan, instance: Instance) -> Iterator[str]:
    """Status, certificate and bounds agree."""
    proof, status = plan.proof, plan.status
    if proof.status != status:
        yield f"proof.status: expected {status} as the plan's status, got {proof.status}"
    what, on, _ = proof.certificate.partition(" on ")
    solvers = _SOLVERS.get(what + on)
    if solvers is None or proof.solver not in solvers:
        got = f"{shown(proof.certificate)} of solver {proof.solver}"
        yield f"proof.certificate: expected one that a solver gives, got {got}"
    elif what != "cp-sat" and (what == "search") != (status == "feasible"):
        yield f"status: expected what the certificate {what} proves, got {status}"
    below = [goal.goal for goal in proof.bound if goal.bound != goal.value]
    if status == "optimal" and below:
        yield f"proof.bound: expected every goal at its bound, got {below[0]} elsewhere"
    # Where blocks are coupled, fill may be unproven beside proven goals.
    if status == "feasible" and not below and what == "cp-sat" and not instance.blocks_are_coupled:
        yield "status: expected optimal with every goal at its bound, got feasible"
    if proof.deterministic_time < 0 or (proof.deterministic_time and not what.startswith("cp-sat")):
        yield f"proof.deterministic_time: expected 0 of {what}, got {proof.deterministic_time}"


def _texts(formulation: Formulation, plan: Plan) -> Iterator[str]:
    """Ledger, what binds and notes are those that follow from the decisions."""
    nothing = (0,) * len(formulation.instance.objectives)  # the oracle has checked the goals
    answer = Answer(_point(formulation, plan), nothing, nothing, exact=plan.status == "optimal")
    decisions = {name: getattr(plan, name) for name in DECISIONS}
    if plan.running is not None:
        decisions["running"] = plan.running
    credit = Credit(plan.proof.solver, plan.proof.certificate)
    told = deferred_fields(formulation, Search(formulation.instance), answer, credit, decisions)
    for field in ("requests", "ranks", "binding"):
        mine = [each.model_dump(mode="json") for each in told[field]]
        theirs = [each.model_dump(mode="json") for each in getattr(plan, field)]
        yield from _different(field, mine, theirs)
    notes = [note for note in plan.notes if not note.startswith(_OF_THE_SOLVER)]
    yield from _different("notes", list(told["notes"]), notes)


def _different(path: str, expected: Any, got: Any) -> Iterator[str]:
    """The first places where two pieces of plain data differ, of each list or mapping one."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping) and [*expected] == [*got]:
        for key, value in expected.items():
            yield from _different(f"{path}.{key}", value, got[key])
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, value in enumerate(expected):
            yield from _different(f"{path}[{index}]", value, got[index])
    elif expected != got:
        if isinstance(expected, list):
            missing = next((each for each in expected if each not in got), None)
            expected = f"{len(expected)} entries" + (f" with {missing}" if missing else "")
            got = f"{len(got)}"
        yield f"{path}: expected {expected}, got {got}"


def _point(formulation: Formulation, plan: Plan) -> Point:
    """The decisions of a plan by position."""
    problem, instance = formulation.problem, formulation.instance
    rows = {(row.batch, row.name): row for row in plan.requests}
    fitted = [
        rows[problem.batches[b].name, formulation.request_names[b][r]]
        for b, r in formulation.fitted_at
    ]
    options = []
    for choice in problem.choices:
        names = [option.name for option in choice.options]
        options.append(names.index(plan.choices[choice.name]))
    return Point(
        capacities=tuple(row.capacity for row in fitted),
        counts=tuple(row.count for row in fitted),
        chunk=instance.chunks.index(plan.prefill_chunk) if plan.prefill_chunk else 0,
        options=tuple(options),
        experts=plan.expert_slots or 0,
        kept=plan.expert_slots_in_prefill or 0,
        usable=(
            *[plan.blocks[pool.name] - pool.reserved for pool in instance.named_pools],
            *([plan.running or 0] if instance.runs else []),
        ),
    )
