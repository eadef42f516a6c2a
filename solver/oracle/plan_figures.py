"""The plan's own figures, each recomputed. A finding is (rule, where, text)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvplan.models.plan import Asked, Plan, RankPlan
from kvplan.models.problem import Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.oracle import needs
from kvplan.solver.oracle.linear import goals_in_order
from kvplan.solver.oracle.memory import headroom_charged, quota_of
from kvplan.solver.oracle.replay import Replay, request_pairs
from kvplan.solver.oracle.rules import Found


def floors(replay: Replay) -> Iterator[Found]:
    """Floors are the fewest legal usable blocks at the plan's requests and chunk."""
    for pool in replay.problem.pools:
        expected = needs.smallest_legal(
            pool,
            [raw[pool.name] for raw in replay.raws.values()],
            replay.structural[pool.name],
            needs.headroom(replay.problem, pool),
        )
        got = replay.plan.floors[pool.name]
        if got != expected:
            yield "figures", f"floors[{pool.name}]", f"expected {expected}, got {got}"


def requests(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Requests are reported as written, and reduced ones are marked."""
    pairs = request_pairs(problem)
    for each in plan.requests:
        _, request = pairs[each.batch, each.name]
        count = request.count
        if count is None and request.fit != "count":
            count = 1
        where = f"requests[{each.batch}/{each.name}]"
        asked = Asked(capacity=request.capacity, history=request.history_tokens, count=count)
        if each.requested != asked:
            text = f"expected {_asked(asked)}, got {_asked(each.requested)}"
            yield "figures", f"{where}.requested", text
        reduced = each.capacity < request.capacity or (count is not None and each.count < count)
        if each.reduced != reduced:
            text = "expected true, got false" if reduced else "expected false, got true"
            yield "figures", f"{where}.reduced", text


def _asked(asked: Asked) -> str:
    count = "an open count" if asked.count is None else f"count {asked.count}"
    return f"capacity {asked.capacity}, history {asked.history}, {count}"


def copies(replay: Replay) -> Iterator[Found]:
    """Copies are those of the fill batch that the blocks hold."""
    fill, got = replay.problem.fill, replay.plan.copies
    batch = fill.batch if fill is not None else None
    expected = None if batch is None else replay.copies(batch)
    if got != expected:
        yield "figures", "copies", f"expected {_or_none(expected)}, got {_or_none(got)}"


def scale(replay: Replay) -> Iterator[Found]:
    """The scale is how much of the fill mix the blocks hold."""
    if replay.plan.scale != replay.scale:
        text = f"expected {_or_none(replay.scale)}, got {_or_none(replay.plan.scale)}"
        yield "figures", "scale", text


def _or_none(figure: int | Fraction | None) -> str:
    return "none" if figure is None else str(figure)


def ranks(replay: Replay) -> Iterator[Found]:
    """Quota, use by phase, largest use, slack and the ledger add up."""
    plans = {rank.name: rank for rank in replay.plan.ranks}
    for rank in replay.problem.ranks:
        got, quota = plans[rank.name], quota_of(rank)
        phases = dict(replay.used[rank.name])
        chunk, contexts = replay.plan.prefill_chunk, replay.residents.contexts
        charged = headroom_charged(replay.problem, rank, chunk, contexts)
        phases.update({phase: phases[phase] + charged for phase in phases if phase != "prefill"})
        used = max(phases.values())
        expected = {"quota": quota.bytes, "used": used, "slack": quota.bytes - used}
        for figure, value in expected.items():
            if getattr(got, figure) != value:
                text = f"expected {exact_bytes(value)}, got {exact_bytes(getattr(got, figure))}"
                yield "figures", f"ranks[{rank.name}].{figure}", text
        if got.bound not in quota.bounds:
            text = f"expected {' or '.join(sorted(quota.bounds))}, got {got.bound}"
            yield "figures", f"ranks[{rank.name}].bound", text
        for phase, value in phases.items():
            if got.phases[phase] != value:
                text = f"expected {exact_bytes(value)}, got {exact_bytes(got.phases[phase])}"
                yield "figures", f"ranks[{rank.name}].phases[{phase}]", text
        yield from _ledger(got)


def _ledger(rank: RankPlan) -> Iterator[Found]:
    """Lines of the ledger that live in a phase sum to the use of that phase."""
    for phase, used in rank.phases.items():
        listed = sum(line.bytes for line in rank.ledger if phase in line.phases)
        if listed != used:
            where = f"ranks[{rank.name}].ledger[{phase}]"
            text = f"expected lines of {exact_bytes(used)} in all, got {exact_bytes(listed)}"
            yield "figures", where, text


def goals(replay: Replay) -> Iterator[Found]:
    """The proof has every goal in order, with the plan's value, none above its own bound."""
    forms, rows = goals_in_order(replay.problem), replay.plan.proof.bound
    for index, goal in enumerate(rows):
        where = f"proof.bound[{index}]"
        if goal.bound is not None and goal.value > goal.bound:
            text = f"expected {goal.goal} of at most its bound {goal.bound}, got {goal.value}"
            yield "figures", where, text
    labels, got = [form.label for form in forms], [goal.goal for goal in rows]
    if labels != got:
        yield "figures", "proof.bound", f"expected the goals {_listed(labels)}, got {_listed(got)}"
        return
    for index, (form, goal) in enumerate(zip(forms, rows, strict=True)):
        expected = form.value({name: replay.value(name) for name in form.weights})
        if expected != goal.value:
            text = f"expected {goal.goal} of {expected}, got {goal.value}"
            yield "figures", f"proof.bound[{index}]", text


def _listed(labels: list[str]) -> str:
    return ", ".join(labels) or "none"
