"""The rules of a problem, each checked on a plan. A finding is (rule, where, text)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from kvplan.models.demands import Batch, Request
from kvplan.models.plan import Plan, RequestPlan
from kvplan.models.problem import Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.oracle import needs
from kvplan.solver.oracle.combinations import may_keep, most_slots
from kvplan.solver.oracle.linear import constraint_form
from kvplan.solver.oracle.memory import is_allocatable, quota_of, staging_bytes
from kvplan.solver.oracle.replay import Replay, request_pairs

Found = tuple[str, str, str]


def names(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Every pool, rank, phase, choice and request appears once, under its own name."""
    pools = [pool.name for pool in problem.pools]
    yield from _alike("blocks", pools, list(plan.blocks))
    yield from _alike("floors", pools, list(plan.floors))
    yield from _alike("choices", [each.name for each in problem.choices], list(plan.choices))
    ranks = [rank.name for rank in problem.ranks]
    yield from _alike("ranks", ranks, [rank.name for rank in plan.ranks])
    for rank in plan.ranks:
        yield from _alike(f"ranks[{rank.name}].phases", problem.phases, list(rank.phases))
    wanted = [f"{batch}/{name}" for batch, name in request_pairs(problem)]
    yield from _alike("requests", wanted, [f"{each.batch}/{each.name}" for each in plan.requests])
    for binding in plan.binding:
        if binding.rank not in ranks or binding.phase not in problem.phases:
            where = f"{binding.rank}/{binding.phase}"
            yield "names", "binding", f"expected a rank and a phase of the problem, got {where}"


def _alike(where: str, expected: Collection[str], got: Collection[str]) -> Iterator[Found]:
    missing, surplus = Counter(expected) - Counter(got), Counter(got) - Counter(expected)
    for name in missing:
        yield "names", where, f"expected {name!r}, got none"
    for name in surplus:
        yield "names", where, f"expected each name of the problem once, got {name!r}"


def requests(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Capacity and count stay as asked, or shrink where they may; C - H never changes."""
    pairs = request_pairs(problem)
    for each in plan.requests:
        batch, request = pairs[each.batch, each.name]
        where = f"{each.batch}/{each.name}"
        for text in (*_capacity(batch, request, each), *_count(request, each)):
            yield "requests", where, text
        if each.capacity - each.history != request.flight_tokens:
            got = f"{each.capacity} - {each.history}"
            text = f"expected capacity - history = {request.flight_tokens}, got {got}"
            yield "requests", where, text


def _capacity(batch: Batch, request: Request, each: RequestPlan) -> Iterator[str]:
    least = most = request.capacity
    if request.fit == "capacity":
        least = max(1, request.flight_tokens, request.min_capacity or 1)
        if batch.shared_prefix:
            least = max(least, batch.shared_prefix + request.flight_tokens)
    if not least <= each.capacity <= most:
        yield f"expected capacity from {least} to {most}, got {each.capacity}"


def _count(request: Request, each: RequestPlan) -> Iterator[str]:
    asked = 1 if request.count is None else request.count
    if request.fit != "count":
        if each.count != asked:
            yield f"expected count {asked}, got {each.count}"
        return
    least, most = request.min_count or 1, request.count
    if each.count < least or (most is not None and each.count > most):
        upper = "any" if most is None else str(most)
        yield f"expected count from {least} to {upper}, got {each.count}"


def chunk(problem: Problem, plan: Plan) -> Iterator[Found]:
    """The chunk is one of the candidates, and absent without a prefill section."""
    allowed = (None,) if problem.prefill is None else problem.prefill.candidates
    if plan.prefill_chunk not in allowed:
        shown = ", ".join(map(str, allowed[:8])) + (", ..." if len(allowed) > 8 else "")
        yield "chunk", "prefill_chunk", f"expected one of {shown}, got {plan.prefill_chunk}"


def choices(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Of every choice exactly one of its options is taken."""
    for choice in problem.choices:
        options, taken = [option.name for option in choice.options], plan.choices[choice.name]
        if taken not in options:
            text = f"expected one of {', '.join(options)}, got {taken!r}"
            yield "choices", choice.name, text


def experts(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Slots within their range; of them at least `keep`, and no more lent than their fraction."""
    slots, kept = plan.expert_slots, plan.expert_slots_in_prefill
    if problem.experts is None:
        if slots is not None or kept is not None:
            yield "experts", "expert_slots", f"expected none without experts, got {slots}, {kept}"
        return
    if slots is None or kept is None:
        yield "experts", "expert_slots", f"expected slots and slots in prefill, got {slots}, {kept}"
        return
    least, most = problem.experts.min_slots, most_slots(problem.experts)
    if slots < least or (most is not None and slots > most):
        text = f"expected from {least} to {'any' if most is None else most}, got {slots}"
        yield "experts", "expert_slots", text
    if not may_keep(problem.experts, slots, kept):
        text = f"expected slots that may be kept of {slots}, got {kept}"
        yield "experts", "expert_slots_in_prefill", text


def blocks(problem: Problem, plan: Plan) -> Iterator[Found]:
    """Usable blocks obey min_blocks, max_blocks and multiple_of; reserved ones come on top."""
    for pool in problem.pools:
        usable = plan.blocks[pool.name] - pool.reserved_blocks
        got = f"got {plan.blocks[pool.name]} less {pool.reserved_blocks} reserved"
        if usable < pool.min_blocks:
            yield "blocks", pool.name, f"expected at least {pool.min_blocks} usable, {got}"
        if not all(is_allocatable(pool, rank, plan.blocks[pool.name]) for rank in problem.ranks):
            yield "blocks", pool.name, f"expected buffers within their max_bytes, {got}"
        if pool.max_blocks is not None and usable > pool.max_blocks:
            yield "blocks", pool.name, f"expected at most {pool.max_blocks} usable, {got}"
        if usable % pool.multiple_of:
            yield "blocks", pool.name, f"expected a multiple of {pool.multiple_of} usable, {got}"


def floors(replay: Replay) -> Iterator[Found]:
    """Usable blocks serve every batch, within the utilization, and the structural floor."""
    for pool in replay.problem.pools:
        usable, in_use = replay.usable(pool), replay.in_use(pool)
        if usable < replay.structural[pool.name]:
            text = f"expected at least {replay.structural[pool.name]} usable blocks, got {usable}"
            yield "structural", pool.name, text
        for batch, raw in replay.raws.items():
            if raw[pool.name] > in_use:
                share = needs.headroom(replay.problem, pool)
                text = f"expected {raw[pool.name]} blocks in use at most {share} of the usable ones"
                yield "floors", f"{pool.name}/{batch}", f"{text}, got {usable} usable"


def running(replay: Replay) -> Iterator[Found]:
    """Bytes of each running request are there for all that run at once, and only where asked."""
    got, most = replay.plan.running, max(replay.runs.values(), default=0)
    if not replay.problem.counts_running:
        if got is not None:
            yield "running", "running", f"expected none, got {got}"
    elif got is None or got < most:
        yield "running", "running", f"expected at least {most} requests, got {got}"


def quotas(replay: Replay) -> Iterator[Found]:
    """Use of every rank and phase stays within the quota; with the staging, within what is free."""
    for rank in replay.problem.ranks:
        quota = quota_of(rank)
        for phase, used in replay.used[rank.name].items():
            where = f"{rank.name}/{phase}"
            if used > quota.bytes:
                text = f"expected at most {exact_bytes(quota.bytes)}, got {exact_bytes(used)}"
                yield "quota", where, text
            if quota.physical is None:
                continue
            if phase != "prefill":
                chunk, contexts = replay.plan.prefill_chunk, replay.residents.contexts
                used += staging_bytes(replay.problem, rank.stage, chunk, contexts)
            if used > quota.physical:
                text = f"expected at most {exact_bytes(quota.physical)} with the staging"
                yield "physical", where, f"{text}, got {exact_bytes(used)}"


def constraints(replay: Replay) -> Iterator[Found]:
    """Every linear constraint holds."""
    for index, rule in enumerate(replay.problem.constraints):
        form, where = constraint_form(rule), f"constraints[{index}]"
        total = form.value({name: replay.value(name) for name in form.weights})
        if rule.min is not None and total < rule.min:
            yield "constraints", where, f"expected {form.label} of at least {rule.min}, got {total}"
        if rule.max is not None and total > rule.max:
            yield "constraints", where, f"expected {form.label} of at most {rule.max}, got {total}"
