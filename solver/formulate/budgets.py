"""Budgets: what lives on each rank in each phase, and the bytes that it may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kvplan.kernels.instance import POW2, Budget, Buffers, Workspace
from kvplan.models import Problem
from kvplan.models.base import ByStage
from kvplan.models.elastic import Consumer, Option
from kvplan.models.ranks import Rank, at_rank
from kvplan.solver.formulate.context_staging import (
    Requests,
    context_tokens,
    entries_on,
    has_contexts,
    workspaces_of,
)

GIB = 2**30
_LEAST_AUTO_GRANULE = 2 * 2**20


def auto_granule(quota_bytes: int) -> int:
    """2 MiB << min(4, max(0, floor(log2(quota / 1 GiB)))) (TensorRT-LLM V2).

    By integer arithmetic: 2 MiB below 2 GiB, then 4, 8, 16, and 32 MiB from 16 GiB on.
    """
    doublings = max(0, quota_bytes // GIB).bit_length() - 1
    return _LEAST_AUTO_GRANULE << min(4, max(0, doublings))


def rank_granule(rank: Rank, granules: Mapping[str, int]) -> int:
    """The "auto" granule of a rank: held from an earlier plan, or from its quota."""
    return granules.get(rank.name) or auto_granule(rank.quota_bytes)


def at_stage(value: ByStage, stage: int) -> int:
    """Bytes on a stage of a figure by stage."""
    return value if isinstance(value, int) else value[str(stage)]


def lives_in(consumer: Consumer | Option, phase: str) -> bool:
    """Whether a consumer or option takes its bytes in a phase."""
    return consumer.phases is None or phase in consumer.phases


class Layout(NamedTuple):
    """What a rank's budgets have in common."""

    pools: tuple[Buffers, ...]
    layers: int
    staging: tuple[int, ...]
    workspaces: tuple[Workspace, ...]
    runs: bool  # whether running requests take bytes


def pool_layout(problem: Problem, rank: Rank, granule: int) -> tuple[Buffers, ...]:
    """(block bytes, granule) of every buffer that takes bytes on a rank, by pool."""
    layout: list[Buffers] = []
    for pool in problem.pools:
        buffers, plain, _ = pool.figures
        if plain is None:
            sizes = [(at_rank(size, rank), page) for size, page in buffers]
            plain = tuple([(n, _granule(page, granule)) for n, page in sizes if n])
        layout.append(plain)
    return tuple(layout)


def _granule(written: int | str, auto: int) -> int:
    """A granule as the kernels have it."""
    if isinstance(written, int):
        return written
    return auto if written == "auto" else POW2


def staging_bytes(problem: Problem, stage: int) -> tuple[int, ...]:
    """Staging by chunk on a stage: entries add up, of a group only the largest counts.

    What follows a capacity that is a variable is left to the workspaces.
    """
    if problem.prefill is None or not problem.prefill.staging:
        return ()
    entries, _ = entries_on(problem, stage)
    if not entries:
        return ()
    totals, pairs = [], [(entry, context_tokens(problem, entry)) for entry in entries]
    for chunk in problem.prefill.candidates:
        groups: dict[str, int] = {}
        total = 0
        for entry, context in pairs:
            taken = entry.bytes_of(chunk, context)
            if entry.group is None:
                total += taken
            else:
                groups[entry.group] = max(groups.get(entry.group, 0), taken)
        totals.append(total + sum(groups.values()))
    return tuple(totals)


def build_budgets(
    problem: Problem, granules: Mapping[str, int], fitted_at: Requests
) -> tuple[Budget, ...]:
    """One budget for each rank, phase and bound, ranks and phases in order."""
    staging = {stage: staging_bytes(problem, stage) for stage in problem.stages}
    workspaces: dict[int, tuple[Workspace, ...]] = {}
    for stage in problem.stages if has_contexts(problem) else ():
        workspaces[stage] = workspaces_of(problem, entries_on(problem, stage)[1], fitted_at)
    layers = {
        stage: at_stage(problem.experts.layers, stage) if problem.experts else 0
        for stage in problem.stages
    }
    layouts: dict[tuple[int | str, int], Layout] = {}
    runs = problem.counts_running
    budgets: list[Budget] = []
    phases, named = problem.phases, _named_ranks(problem)
    for index, rank in enumerate(problem.ranks):
        granule = rank_granule(rank, granules)
        key = (rank.name if rank.name in named else rank.stage, granule)
        if key not in layouts:
            pools = pool_layout(problem, rank, granule)
            parts = (pools, layers[rank.stage], staging[rank.stage])
            layouts[key] = Layout(*parts, workspaces.get(rank.stage, ()), runs)
        budgets += [_budget(problem, index, phase, layouts[key]) for phase in phases]
        if rank.memory is not None:
            budgets += _headroom_budgets(problem, index, layouts[key])
    return tuple(budgets)


def _named_ranks(problem: Problem) -> set[str]:
    """Ranks whose blocks may differ from those of their stage: keys of bytes by rank name."""
    if len(problem.ranks) == 1:
        return set()
    sizes = [size for pool in problem.pools for size, _ in pool.figures.buffers]
    return {key for size in sizes if not isinstance(size, int) for key in size}


def _budget(problem: Problem, index: int, phase: str, layout: Layout) -> Budget:
    """What lives on a rank in a phase: pools and experts but in load, staging in prefill."""
    rank = problem.ranks[index]
    quota = rank.quota_bytes
    loaded, in_prefill = phase != "load", phase == "prefill"
    pools = layout.pools if loaded else ()
    if layout.runs:
        none: tuple[Buffers, ...] = ((),) * len(layout.pools)
        pools = (*(pools or none), _running(problem, rank, phase))
    limit_bytes = quota
    for consumer in problem.consumers:
        if lives_in(consumer, phase):
            limit_bytes -= at_rank(consumer.bytes, rank)
    options = [
        tuple(at_rank(o.bytes, rank) if lives_in(o, phase) else 0 for o in choice.options)
        for choice in problem.choices
    ]
    return Budget(
        index,
        phase,
        limit_bytes,
        pools,
        layout.layers if loaded else 0,
        in_prefill and problem.experts is not None and problem.experts.lend is not None,
        layout.staging if in_prefill else (),
        tuple(options),
        quota,
        layout.workspaces if in_prefill else (),
    )


def _running(problem: Problem, rank: Rank, phase: str) -> Buffers:
    """Bytes of one running request in a phase, as the block of a pool."""
    living = [each for each in problem.consumers if lives_in(each, phase)]
    taken = sum([at_rank(each.per_request, rank) for each in living])
    return ((taken, 1),) if taken else ()


def _headroom_budgets(problem: Problem, index: int, layout: Layout) -> list[Budget]:
    """Further budgets of a rank whose prefill headroom is its modelled staging.

    The staging then fills the headroom: it is charged once against the physical share, in every
    phase (what ROCm/ATOM PR #1495 reserves as a fixed fraction).
    """
    memory = problem.ranks[index].memory
    if memory is None or memory.prefill_headroom != "from_staging":
        return []
    if not layout.staging and not layout.workspaces:
        return []
    physical = memory.physical_share
    if physical is None:
        return []
    budgets = (_budget(problem, index, phase, layout) for phase in problem.phases)
    return [
        budget._replace(
            limit_bytes=budget.limit_bytes - budget.quota + physical,
            quota=physical,
            staging=layout.staging,
            workspaces=layout.workspaces,
        )
        for budget in budgets
        if budget.phase != "prefill"
    ]


def merge_budgets(budgets: tuple[Budget, ...]) -> tuple[Budget, ...]:
    """Budgets with equal left sides merged to the smallest limit, so the tightest rank rules."""
    tightest: dict[tuple[object, ...], Budget] = {}
    for budget in budgets:
        key = merge_key(budget)
        known = tightest.get(key)
        if known is None or budget.limit_bytes < known.limit_bytes:
            tightest[key] = budget
    return tuple(tightest.values())


def merge_key(budget: Budget) -> tuple[object, ...]:
    """What a budget's left side consists of."""
    _, _, _, pools, layers, lent, staging, options, _, workspaces = budget
    return pools, layers, lent, staging, options, workspaces
