"""The budget of each rank: where its quota comes from and who takes what of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from kvplan.kernels.bytes import expert_bytes, pool_bytes
from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point
from kvplan.models import Problem
from kvplan.models.elastic import Consumer, Staging
from kvplan.models.plan import LedgerLine, RankPlan, Source
from kvplan.models.ranks import Rank, RankMemory, Share, at_rank
from kvplan.models.units import human_bytes
from kvplan.solver.answer.context_wording import context_note
from kvplan.solver.answer.in_use import bytes_by_phase
from kvplan.solver.formulate.context_staging import context_tokens
from kvplan.solver.formulate.formulation import Formulation

NOT_GIVEN = "not given"  # of a term of the quota that counts 0 B
_GUESSED = "(estimated"


def rank_plans(formulation: Formulation, point: Point) -> tuple[RankPlan, ...]:
    """The budget of every rank at a point, feasible or not."""
    problem = formulation.problem
    phases, headroom = bytes_by_phase(formulation, point)
    plans = []
    for index, rank in enumerate(problem.ranks):
        quota, used = rank.quota_bytes, max(phases[index].values())
        plans.append(
            RankPlan(
                name=rank.name,
                quota=quota,
                used=used,
                slack=quota - used,
                bound=quota_bound(rank),
                phases=phases[index],
                ledger=(
                    *_quota_lines(rank),
                    *_occupants(formulation, index, point),
                    *_headroom(problem, rank, headroom[index]),
                ),
            )
        )
    return tuple(plans)


def _headroom(problem: Problem, rank: Rank, charged: int) -> Iterator[LedgerLine]:
    """What a headroom from the staging takes of the quota where nothing is staged.

    The utilization leaves some memory free; only what the staging needs beyond that is charged.
    """
    if charged:
        others = tuple(phase for phase in problem.phases if phase != "prefill")
        is_whole = rank.quota_bytes == rank.memory.physical_share if rank.memory else False
        note = "the modelled staging" + ("" if is_whole else " beyond what the utilization leaves")
        yield LedgerLine(
            consumer="prefill_headroom", bytes=charged, source="solved", phases=others, note=note
        )


def quota_bound(rank: Rank) -> Literal["declared", "utilization", "physical"]:
    """What a rank's quota is: declared, or the share of `memory` that is smaller."""
    if rank.memory is None:
        return "declared"
    utilization, physical = rank.memory.utilization_share, rank.memory.physical_share
    if physical is None or (utilization is not None and utilization <= physical):
        return "utilization"
    return "physical"


def _quota_lines(rank: Rank) -> Iterator[LedgerLine]:
    memory = rank.memory
    if memory is None:
        yield LedgerLine(consumer="quota", bytes=rank.quota_bytes, source="declared")
        return
    bound = quota_bound(rank)
    for name in ("total", "free", "peak_torch", "non_torch"):
        yield _term(memory, name, "estimated" if name in memory.estimated else "measured")
    yield _term(memory, "graphs", "estimated")
    for name in ("safety", "connector", "prefill_headroom"):
        yield _term(memory, name, "declared")
    for name, count in memory.other.items():
        # A term's name marks it as an estimate ("activation (estimated)").
        source: Source = "estimated" if _GUESSED in name else "declared"
        note = memory.ranges.get(name, "")
        yield LedgerLine(consumer=name, bytes=count, source=source, note=note)
    charged = {"total", "peak_torch", "non_torch"} & set(memory.estimated)
    guessed = bool(charged) or any(_GUESSED in name for name in memory.other)
    for kind, share, estimated in (
        ("utilization", memory.utilization_share, guessed),
        ("physical", memory.physical_share, "free" in memory.estimated),
    ):
        if share is not None:
            note = "sets the quota" if bound == kind else ""
            source = "estimated" if estimated else "solved"
            yield LedgerLine(consumer=f"{kind} share", bytes=share, source=source, note=note)


def _term(
    memory: RankMemory, name: str, source: Literal["measured", "estimated", "declared"]
) -> LedgerLine:
    value = getattr(memory, name)
    whole = "what is usable" if name == "graphs" else "total"
    note = f"{value.fraction} of {whole}" if isinstance(value, Share) else ""
    note = note or memory.ranges.get(name, "")
    if name == "prefill_headroom":
        note = "the modelled staging" if value == "from_staging" else note
        count = memory.headroom_bytes
    elif name == "graphs":
        count = memory.graphs_bytes
    else:
        count = memory.safety_bytes if name == "safety" else value or 0
    if name not in memory.model_fields_set:
        note = NOT_GIVEN
    elif count and not _counts(memory, name):
        note = "unused: the share that it reduces is not given"
    return LedgerLine(consumer=name, bytes=count, source=source, note=note)


def _counts(memory: RankMemory, name: str) -> bool:
    """Whether a term comes off a share that exists."""
    if name in ("peak_torch", "non_torch", "graphs", "safety"):
        return memory.utilization is not None
    return name != "prefill_headroom" or memory.free is not None


def _occupants(formulation: Formulation, index: int, point: Point) -> Iterator[LedgerLine]:
    problem, instance = formulation.problem, formulation.instance
    rank = problem.ranks[index]
    every = problem.phases
    loaded = tuple(phase for phase in every if phase != "load")
    for consumer in problem.consumers:
        yield _consumer(consumer, rank, point.usable[-1] if instance.runs else 0, every)
    yield from _pools(instance, index, point, loaded)
    yield from _experts(instance, index, point, loaded)
    yield from _staging(formulation, rank, point)
    for choice, option_index in zip(problem.choices, point.options, strict=True):
        option = choice.options[option_index]
        yield LedgerLine(
            consumer=f"{choice.name}={option.name}",
            bytes=at_rank(option.bytes, rank),
            source="solved",
            phases=option.phases or every,
        )


def _consumer(consumer: Consumer, rank: Rank, running: int, phases: tuple[str, ...]) -> LedgerLine:
    """Fixed bytes, and those of each running request."""
    fixed, each = at_rank(consumer.bytes, rank), at_rank(consumer.per_request, rank)
    note = f"{human_bytes(each)} x {running:,} requests" if each else ""
    if each and fixed:
        note = f"{human_bytes(fixed)} + {note}"
    return LedgerLine(
        consumer=consumer.name,
        bytes=fixed + each * running,
        source="solved" if each else "declared",
        phases=consumer.phases or phases,
        note=note,
    )


def _pools(
    instance: Instance, index: int, point: Point, phases: tuple[str, ...]
) -> Iterator[LedgerLine]:
    layout = next(
        budget.pools
        for budget in instance.every_budget
        if budget.rank == index and budget.phase != "load"
    )
    for pool, usable, buffers in zip(instance.named_pools, point.usable, layout, strict=False):
        count = pool_bytes(usable + pool.reserved, buffers)
        yield LedgerLine(consumer=pool.name, bytes=count, source="solved", phases=phases)


def _experts(
    instance: Instance, index: int, point: Point, phases: tuple[str, ...]
) -> Iterator[LedgerLine]:
    experts = instance.experts
    layers = next(
        budget.layers
        for budget in instance.every_budget
        if budget.rank == index and budget.phase != "load"
    )
    if experts is None or not layers:
        return
    whole = expert_bytes(point.experts, layers, experts)
    if point.kept == point.experts:
        yield LedgerLine(consumer="experts", bytes=whole, source="solved", phases=phases)
        return
    others = tuple(phase for phase in phases if phase != "prefill")
    kept = expert_bytes(point.kept, layers, experts)
    lent = f"{point.experts - point.kept} slots lent"
    yield LedgerLine(consumer="experts", bytes=whole, source="solved", phases=others)
    yield LedgerLine(
        consumer="experts", bytes=kept, source="solved", phases=("prefill",), note=lent
    )


def _staging(formulation: Formulation, rank: Rank, point: Point) -> Iterator[LedgerLine]:
    """Entries that count on a rank: of a group, the largest."""
    problem, chunk = formulation.problem, formulation.instance.chunks[point.chunk]
    if problem.prefill is None:
        return
    largest: dict[str, LedgerLine] = {}
    counted: list[LedgerLine] = []
    for entry in problem.prefill.staging:
        if entry.stage is not None and entry.stage != rank.stage:
            continue
        tokens = _context(formulation, entry, point) if entry.has_context else 0
        line = LedgerLine(
            consumer=entry.name,
            bytes=entry.bytes_of(chunk, tokens),
            source="solved",
            phases=("prefill",),
            note=context_note(problem, entry, chunk, tokens),
        )
        if entry.group is None:
            counted.append(line)
        elif entry.group not in largest or line.bytes > largest[entry.group].bytes:
            largest[entry.group] = line
    yield from (*counted, *largest.values())


def _context(formulation: Formulation, entry: Staging, point: Point) -> int:
    """The context of an entry at a point: its request's capacity."""
    place = formulation.problem.context_of(entry)
    fitted, asked = None, context_tokens(formulation.problem, entry)
    if place is not None and asked:
        fitted = formulation.fitted_at.get(place)
    return asked if fitted is None else point.capacities[fitted]
