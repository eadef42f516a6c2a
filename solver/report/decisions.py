"""The headline, and the table of what was decided beside what was asked."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models import Plan, Problem
from kvplan.models.plan import RequestPlan
from kvplan.solver.report.document import Column, Lines, Row, Table
from kvplan.solver.report.phrases import number

MOST_REQUESTS = 16
_CERTIFICATES = {
    "nested": "every goal proven by the nested search",
    "cp-sat": "every goal proven by CP-SAT",
    "cp-sat+nested": "every goal proven by CP-SAT, confirmed by the nested search",
}
_COLUMNS = (
    Column("decision"),
    Column("chosen", "number"),
    Column("asked", "number"),
    Column("unit", level=2),
    Column("remark"),
)


def headline(plan: Plan, title: str) -> Lines:
    """State, solver and what was proven, under the name of the problem."""
    proof = plan.proof
    if plan.status == "optimal":
        proven = _proven(proof.certificate)
    else:
        closed = sum(goal.bound == goal.value for goal in proof.bound)
        proven = f"{closed} of {len(proof.bound)} goals proven"
        if closed < len(proof.bound):
            proven += ", the others within their bounds"
    if proof.replayed:
        proven += ", replayed block by block"
    line = f"{plan.status} (solver {proof.solver}): {proven}"
    texts = (title, line) if title.strip() else (line,)
    if plan.relaxed:
        texts = (*texts, "NOT what was asked for, these floors were lowered:")
        texts = (*texts, *(f"  {text}" for text in plan.relaxed))
        return Lines(texts, "bad")
    return Lines(texts, "good" if plan.status == "optimal" else "warning")


def _proven(certificate: str) -> str:
    """A certificate in words, with the device that the search ran on."""
    what, on, device = certificate.partition(" on ")
    known = _CERTIFICATES.get(what)
    return f"certificate {certificate}" if known is None else f"{known}{on}{device}"


def decisions(plan: Plan, problem: Problem | None) -> Table:
    """One row a variable, by the names that goals and constraints use."""
    rows = (
        *_pools(plan),
        *_prefill(plan, problem),
        *_experts(plan, problem),
        *_requests(plan),
        *_choices(plan, problem),
        *_copies(plan, problem),
        *_running(plan),
        *_scale(plan),
    )
    return Table("plan", _COLUMNS, (rows,))


def _pools(plan: Plan) -> Iterator[Row]:
    for pool, blocks in plan.blocks.items():
        floor = plan.floors.get(pool)
        remark = "" if floor is None else f"floor {number(floor)} usable"
        yield Row((f"blocks:{pool}", number(blocks), None, "blocks allocated", remark))


def _requests(plan: Plan) -> Iterator[Row]:
    shown = plan.requests
    if len(shown) > MOST_REQUESTS:
        shown = tuple(request for request in shown if request.reduced)
    several = len({request.batch for request in plan.requests}) > 1
    for request in shown:
        yield from _request(request, several)
    hidden = len(plan.requests) - len(shown)
    if hidden:
        further = "further requests" if shown else "requests"
        yield Row((f"{number(hidden)} {further}", "as asked", None, None, None))


def _request(request: RequestPlan, several: bool) -> Iterator[Row]:
    """Capacity, and the count unless it is the 1 that was asked."""
    asked, name = request.requested, request.name
    where = f"in {request.batch}" if several else ""
    yield _row(f"capacity:{name}", request.capacity, asked.capacity, "tokens", where)
    if request.count != 1 or asked.count != 1:
        yield _row(f"count:{name}", request.count, asked.count, "requests", where)


def _row(variable: str, chosen: int, asked: int | None, unit: str, remark: str = "") -> Row:
    """Chosen beside asked; None asked for as many as fit."""
    cut = asked is not None and chosen < asked
    remark = ", ".join(filter(None, (remark, "reduced" if cut else "")))
    wanted = "any" if asked is None else number(asked)
    cells = (variable, number(chosen), wanted, unit, remark)
    return Row(cells, state="warning" if cut else "plain")


def _prefill(plan: Plan, problem: Problem | None) -> Iterator[Row]:
    chunk = plan.prefill_chunk
    if chunk is None:
        return
    if problem is not None and problem.prefill is not None:
        yield _row("prefill", chunk, problem.prefill.requested, "tokens a chunk")
    else:
        yield Row(("prefill", number(chunk), None, "tokens a chunk", None))


def _experts(plan: Plan, problem: Problem | None) -> Iterator[Row]:
    slots, kept = plan.expert_slots, plan.expert_slots_in_prefill
    if slots is None:
        return
    lent = kept is not None and kept < slots
    remark = f"{number(kept or 0)} stay in prefill" if lent else ""
    asked = problem.experts if problem is not None else None
    unit = "slots a layer" if asked is None else asked.unit
    if asked is not None and asked.max_slots is not None:
        yield _row("experts", slots, asked.max_slots, unit, remark)
    else:
        yield Row(("experts", number(slots), None, unit, remark))


def _choices(plan: Plan, problem: Problem | None) -> Iterator[Row]:
    best = {choice.name: choice.options[0].name for choice in problem.choices} if problem else {}
    for choice, option in plan.choices.items():
        wanted = best.get(choice)
        cut = wanted is not None and wanted != option
        asked = None if wanted is None else wanted
        cells = (f"choice:{choice}", option, asked, "option")
        yield Row((*cells, "not the best" if cut else ""), state="warning" if cut else "plain")


def _copies(plan: Plan, problem: Problem | None) -> Iterator[Row]:
    if plan.copies is None:
        return
    batch = problem.fill.batch if problem and problem.fill else None
    label = "copies" if batch is None else f"copies:{batch}"
    yield Row((label, number(plan.copies), None, "whole batches", None))


def _running(plan: Plan) -> Iterator[Row]:
    if plan.running is not None:
        yield Row(("running", number(plan.running), None, "requests at once", None))


def _scale(plan: Plan) -> Iterator[Row]:
    if plan.scale is not None:
        yield Row(("scale", str(plan.scale), None, "of the mix", f"about {float(plan.scale):.4g}"))
