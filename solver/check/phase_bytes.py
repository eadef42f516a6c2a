"""Bytes on a rank: its quota, what lives there in each phase, and what decisions take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kvplan.models.elastic import Consumer, Experts, Option, Prefill
from kvplan.models.pools import Pool
from kvplan.models.problem import Problem
from kvplan.models.ranks import Rank, RankMemory, Share
from kvplan.solver.check.ranges import Decisions, contexts_of

POW2 = -1
GRANULES: Mapping[int | str, Any] = {"auto": 0, "pow2": POW2}
Buffers = tuple[tuple[int, int], ...]
"""(block bytes, granule bytes) of each; an "auto" granule is 0."""
Limit = tuple[str, int | None, bool, int, int, list[list[int]]]
"""Phase, limit where it is not the quota, whether staging counts; bytes of the consumers, of each
running request, and of the options by choice.
"""


def quota_of(rank: Rank) -> int:
    """The quota: as declared, or the smaller of what a utilization and what is free leave.

    The first is a share of total (of free without one) less all terms; graphs may be a share of
    what the other terms leave.
    """
    memory, free = rank.memory, free_of(rank.memory)
    if memory is None or memory.utilization is None:
        return rank.quota or free or 0
    whole = memory.free if memory.total is None else memory.total
    left = (whole or 0) * memory.utilization.numerator // memory.utilization.denominator
    left -= memory.peak_torch + memory.non_torch + memory.connector + sum(memory.other.values())
    left -= _term_bytes(memory.safety, memory.total)
    left -= _term_bytes(memory.graphs, max(0, left))
    return left if free is None else min(left, free)


def free_of(memory: RankMemory | None) -> int | None:
    """What is free, less the connector and a headroom that is not the staging."""
    if memory is None or memory.free is None:
        return None
    return memory.free - memory.connector - _term_bytes(memory.prefill_headroom, memory.total)


def _term_bytes(term: int | Share | str, whole: int | None) -> int:
    """Bytes, or a share of a whole, rounded up; a word is charged elsewhere."""
    if isinstance(term, Share):
        return share_bytes(term.fraction, whole or 0)
    return 0 if isinstance(term, str) else term


def share_bytes(share: Fraction, whole: int) -> int:
    """A share of a whole, rounded up."""
    return -(-share.numerator * whole // share.denominator)


def limits_of(problem: Problem, rank: Rank, phases: Sequence[str]) -> Iterator[Limit]:
    """Limit each phase by the quota; by free - connector too, where headroom is the staging."""
    memory, free = rank.memory, None
    if memory is not None and memory.prefill_headroom == "from_staging":
        free = free_of(memory)
    for phase in phases:
        here = [each for each in problem.consumers if lives(each, phase)]
        fixed = sum([consumed(problem, each, rank) for each in here])
        running = sum([figure_on(rank, each.per_request) for each in here])
        options = [
            [lives(each, phase) * figure_on(rank, each.bytes) for each in choice.options]
            for choice in problem.choices
        ]
        yield phase, None, phase == "prefill", fixed, running, options
        if free is not None:
            yield phase, free, True, fixed, running, options


def lives(thing: Consumer | Option, phase: str) -> bool:
    """Whether a consumer or option takes its bytes in a phase."""
    return phase in (thing.phases or (phase,))


def consumed(problem: Problem, consumer: Consumer, rank: Rank) -> int:
    """Bytes of a consumer; a fraction of another's is worked out here again."""
    if consumer.fraction is not None:
        for other in problem.consumers:
            if other.name == consumer.of:
                return share_bytes(consumer.fraction, figure_on(rank, other.bytes))
    return figure_on(rank, consumer.bytes)


def figure_on(rank: Rank, figure: int | Mapping[str, int]) -> int:
    """One figure, or that of the rank's name, of its stage, or none."""
    if isinstance(figure, int):
        return figure
    return figure.get(rank.name, figure.get(str(rank.stage), 0))


def auto_granule(quota: int) -> int:
    """2 MiB below 2 GiB, doubled at 2, 4, 8 and 16 GiB."""
    return 2 * 2**20 << sum([quota >= step * 2**30 for step in (2, 4, 8, 16)])


def layouts_of(problem: Problem) -> list[list[Buffers]]:
    """Buffers of every pool by rank; alike ranks have the same list."""
    figures, layouts = [pool.figures for pool in problem.pools], {}
    plain = [each.plain for each in figures if each.plain is not None]
    if len(plain) == len(figures):
        return [plain] * len(problem.ranks)
    sizes = [size for pool in figures for size, _ in pool.buffers if not isinstance(size, int)]
    names = {name for size in sizes for name in size}
    alike = [rank.name if rank.name in names else rank.stage for rank in problem.ranks]
    for key, rank in dict(zip(alike, problem.ranks, strict=True)).items():
        layouts[key] = [
            tuple([(figure_on(rank, size), GRANULES.get(g, g)) for size, g in pool.buffers])
            for pool in figures
        ]
    return [layouts[key] for key in alike]


def pool_bytes(buffers: Buffers, blocks: int, auto: int) -> int:
    """Sum over the buffers of ceil(n x bytes / granule) x granule."""
    total = 0
    for size, granule in buffers:
        page = granule or auto
        total += rounded(blocks * size, page) if page == POW2 else -(-blocks * size // page) * page
    return total


def rounded(count: int, granule: int) -> int:
    """Whole granules, or (POW2) the first of 0, 1, 2, 4, ... that is no smaller."""
    if granule != POW2:
        return -(-count // granule) * granule
    return 2 ** len(f"{count - 1:b}") if count > 1 else count


def is_too_large(pool: Pool, ranks: Sequence[Rank], blocks: int) -> bool:
    """Whether an allocation of a buffer exceeds its max_bytes; the granule of that is no "auto"."""
    for buffer in pool.layout:
        if buffer.max_bytes is not None:
            granule = GRANULES.get(buffer.granule, buffer.granule)
            block = max([figure_on(rank, buffer.bytes) for rank in ranks])
            if rounded(blocks * block, granule) > buffer.max_bytes:
                return True
    return False


def layer_bytes(experts: Experts | None, slots: int | None) -> int:
    """Bytes of the first slots of one layer."""
    if experts is None or not slots:
        return 0
    taken, left, sizes = 0, slots, experts.slot_bytes
    for count, size in ((slots, sizes),) if isinstance(sizes, int) else sizes:
        taken += min(count, left) * size
        left -= min(count, left)
    return taken


def slots_bytes(experts: Experts | None, rank: Rank, layer: int) -> int:
    """ceil(layers x bytes of one / granule) x granule: all layers are one allocation."""
    if experts is None:
        return 0
    return rounded(layer * figure_on(rank, experts.layers), experts.granule)


def staging_bytes(
    prefill: Prefill | None, rank: Rank, chunk: int | None, contexts: Sequence[int] = ()
) -> int:
    """Sum of the entries, of a group the largest: ceil(base + per_token x chunk), or the first row.

    A row of a table counts from where its tokens reach the chunk (or the context, in the context's
    table, which adds); per_token_context x chunk x context is inside the same ceil. Each entry
    fills whole granules. `contexts` are tokens by entry, none where no entry follows one.
    """
    groups: dict[str | int, int] = {}
    tokens = chunk or 0
    for index, entry in enumerate(prefill.staging if prefill else ()):
        if entry.stage is None or entry.stage == rank.stage:
            exact = (entry.base or 0) + (entry.per_token or 0) * tokens
            exact = next((size for most, size in entry.table or () if most >= tokens), exact)
            if contexts:
                held, rows = contexts[index], entry.context_table or ()
                exact += (entry.per_token_context or 0) * tokens * held
                exact += next((size for most, size in rows if most >= held), 0)
            key = index if entry.group is None else entry.group
            taken = rounded(math.ceil(exact), GRANULES.get(entry.granule, entry.granule))
            groups[key] = max(taken, groups.get(key, 0))
    return sum(groups.values())


class RankLimits:
    """The limits of every rank, read once; `granules` are "auto" ones that a resize holds."""

    def __init__(self, problem: Problem, granules: Mapping[str, int]) -> None:
        self._problem, self._granules, phases = problem, granules, problem.phases
        self._limits = [[*limits_of(problem, rank, phases)] for rank in problem.ranks]
        self._layouts = layouts_of(problem)
        self._has_auto = 0 in [granule for pool in self._layouts[0] for _, granule in pool]
        self._contexts = contexts_of(problem)

    def auto(self, rank: Rank, quota: int) -> int:
        """Bytes of an "auto" granule: held, or by the quota; 0 where no buffer has one."""
        return self._has_auto and (self._granules.get(rank.name) or auto_granule(quota))

    def taken(self, pool: int, blocks: int, rank: int, quota: int) -> int:
        """Bytes of a pool's blocks on a rank."""
        auto = self.auto(self._problem.ranks[rank], quota)
        return pool_bytes(self._layouts[rank][pool], blocks, auto)

    def free(self, decisions: Decisions, quotas: Sequence[int]) -> Iterator[tuple[Rank, str, int]]:
        """What decisions leave of each limit of every rank, with its phase."""
        problem, experts, sizes = self._problem, self._problem.experts, decisions.fitted
        layers = [layer_bytes(experts, each) for each in (decisions.slots, decisions.kept)]
        contexts = [n if at is None else sizes[at][0] for n, at in self._contexts]
        known: dict[tuple[int, int], int] = {}
        rows = zip(problem.ranks, quotas, self._limits, self._layouts, strict=True)
        for rank, quota, limits, layout in rows:
            auto = self.auto(rank, quota)
            alike = id(layout), auto
            if alike not in known:
                pools = zip(layout, decisions.blocks, strict=True)
                known[alike] = sum([pool_bytes(each, n, auto) for each, n in pools])
            slots, kept = [slots_bytes(experts, rank, each) for each in layers]
            staging = staging_bytes(problem.prefill, rank, decisions.chunk, contexts)
            for phase, limit, is_staged, fixed, each, options in limits:
                free = (quota if limit is None else limit) - fixed - (staging if is_staged else 0)
                free -= each * (decisions.running or 0)
                for by_option, option in zip(options, decisions.options, strict=True):
                    free -= by_option[option]
                if phase != "load":
                    free -= known[alike] + (kept if phase == "prefill" else slots)
                yield rank, phase, free
