"""Bytes: what a rank has, and what lives on it in each phase. Granules are laid out in pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from kvplan.models.elastic import Consumer, Experts, Option, Staging
from kvplan.models.pools import Pool
from kvplan.models.problem import Problem, request_name
from kvplan.models.ranks import Rank, RankMemory, Share

MIB, GIB = 2**20, 2**30


class Quota(NamedTuple):
    """Bytes that a rank may use, and which figure says so."""

    bytes: int
    bounds: frozenset[str]
    """declared, or the tighter of utilization and physical (both when equal)."""
    physical: int | None
    """Where the staging is the headroom: what it and everything else must stay within."""


def quota_of(rank: Rank) -> Quota:
    """The quota of a rank: declared, or the smaller share of what was measured."""
    if rank.memory is None:
        return Quota(rank.quota or 0, frozenset({"declared"}), None)
    memory, shares = rank.memory, {}
    if memory.utilization is not None:
        charged = [memory.peak_torch, memory.non_torch, memory.connector]
        charged += [_term(memory.safety, memory), *memory.other.values()]
        base = memory.total if memory.total is not None else memory.free or 0
        left = math.floor(memory.utilization * base) - sum(charged)
        graphs = memory.graphs
        if isinstance(graphs, Share):
            graphs = math.ceil(graphs.fraction * left) if left > 0 else 0
        shares["utilization"] = left - graphs
    derived = memory.prefill_headroom == "from_staging"
    if memory.free is not None:
        headroom = _term(memory.prefill_headroom, memory)
        shares["physical"] = memory.free - memory.connector - headroom
    least = min(shares.values())
    bounds = frozenset(name for name, share in shares.items() if share == least)
    return Quota(least, bounds, shares.get("physical") if derived else None)


def _term(term: int | Share | str, memory: RankMemory) -> int:
    if isinstance(term, Share):
        return math.ceil(term.fraction * (memory.total or 0))
    return term if isinstance(term, int) else 0


def pages(needed: int, granule: int | Literal["pow2"]) -> int:
    """Bytes of an allocation: whole granules, the last of them perhaps in part unused.

    A pow2 allocator starts at one byte and doubles until the bytes fit.
    """
    if granule == "pow2":
        size = 1 if needed else 0
        while size < needed:
            size *= 2
        return size
    whole, rest = divmod(needed, granule)
    return (whole + (rest > 0)) * granule


def auto_granule(quota: int) -> int:
    """2 MiB, doubled at 2, 4, 8 and 16 GiB of quota."""
    granule = 2 * MIB
    for threshold in (2 * GIB, 4 * GIB, 8 * GIB, 16 * GIB):
        if quota >= threshold:
            granule *= 2
    return granule


def at_stage(figure: int | Mapping[str, int], stage: int) -> int:
    """A figure for one stage."""
    return figure if isinstance(figure, int) else figure[str(stage)]


def pool_bytes(pool: Pool, rank: Rank, quota: int, allocated: int) -> int:
    """Bytes of a pool on a rank: every buffer is an allocation of its own."""
    total = 0
    for buffer in pool.layout:
        granule = auto_granule(quota) if buffer.granule == "auto" else buffer.granule
        total += pages(allocated * figure_of(buffer.bytes, rank), granule)
    return total


def is_allocatable(pool: Pool, rank: Rank, allocated: int) -> bool:
    """Whether every buffer of a pool stays within its largest allocation on a rank."""
    return all(
        buffer.max_bytes is None
        or buffer.granule == "auto"  # bad input beside max_bytes
        or pages(allocated * figure_of(buffer.bytes, rank), buffer.granule) <= buffer.max_bytes
        for buffer in pool.layout
    )


Contexts = Sequence[int]
"""Tokens by staging entry, of the request that it follows; empty where no entry follows one."""


def contexts_of(problem: Problem, capacities: Mapping[tuple[str, str], int]) -> Contexts:
    """What every staging entry follows.

    Parameters
    ----------
    capacities : tokens by (batch, request).
    """
    entries = () if problem.prefill is None else problem.prefill.staging
    if all(entry.per_token_context is None and not entry.context_table for entry in entries):
        return ()
    absent = [
        (batch.name, request_name(batch, index))
        for batch in problem.batches
        for index, request in enumerate(batch.requests)
        if request.count == 0
    ]
    held = {at[1]: 0 if at in absent else tokens for at, tokens in capacities.items()}
    only = max(held.values(), default=0)  # an entry that names no request stands beside one alone
    return [only if entry.request is None else held.get(entry.request, 0) for entry in entries]


def staging_bytes(problem: Problem, stage: int, chunk: int | None, contexts: Contexts = ()) -> int:
    """Bytes that a prefill of one chunk takes: all entries, of a group the largest alone."""
    alone, groups = 0, dict[str, int]()
    if problem.prefill is None or chunk is None:
        return 0
    for index, entry in enumerate(problem.prefill.staging):
        if entry.stage not in (None, stage):
            continue
        taken = _entry_bytes(entry, chunk, contexts[index] if contexts else 0)
        if entry.group is None:
            alone += taken
        else:
            groups[entry.group] = max(taken, groups.get(entry.group, 0))
    return alone + sum(groups.values())


def headroom_charged(
    problem: Problem, rank: Rank, chunk: int | None, contexts: Contexts = ()
) -> int:
    """Bytes of the quota that a headroom from the staging takes in every phase but prefill.

    What lies between the quota and the physical share is free for it already.
    """
    quota = quota_of(rank)
    if quota.physical is None:
        return 0
    staged = staging_bytes(problem, rank.stage, chunk, contexts)
    return max(0, staged - (quota.physical - quota.bytes))


def _entry_bytes(entry: Staging, chunk: int, context: int) -> int:
    """One byte array for each token of the chunk, as long as the context; then what is tabled."""
    row = (entry.per_token or Fraction(0)) + (entry.per_token_context or 0) * context
    needed = math.ceil((entry.base or 0) + row * chunk)
    for table, reached in ((entry.table, chunk), (entry.context_table, context)):
        if table is not None:
            needed += min((tokens, taken) for tokens, taken in table if tokens >= reached)[1]
    return pages(needed, entry.granule)


def expert_bytes(experts: Experts, stage: int, slots: int) -> int:
    """Bytes of the first `slots` slots of every layer, one allocation a rank."""
    sizes = experts.slot_bytes
    taken, left = 0, slots
    for count, size in ((slots, sizes),) if isinstance(sizes, int) else sizes:
        taken += min(count, left) * size
        left -= min(count, left)
    return pages(taken * at_stage(experts.layers, stage), experts.granule)


def fixed_bytes(
    thing: Consumer | Option, rank: Rank, beside: Iterable[Consumer | Option] = ()
) -> int:
    """Bytes of a consumer or an option on a rank; the rank's own figure goes before its stage's.

    Parameters
    ----------
    beside : consumers that a fraction may be of: the least whole bytes that hold its share.
    """
    if isinstance(thing, Consumer) and thing.fraction is not None:
        for other in beside:
            if other.name == thing.of:
                return math.ceil(thing.fraction * figure_of(other.bytes, rank))
    return figure_of(thing.bytes, rank)


def figure_of(figures: int | Mapping[str, int], rank: Rank) -> int:
    """A figure of one rank: its own, else that of its stage, else 0."""
    if isinstance(figures, int):
        return figures
    for key in (rank.name, str(rank.stage)):
        if key in figures:
            return figures[key]
    return 0


@dataclass(frozen=True)
class Residents:
    """What was decided to live on every rank."""

    allocated: Mapping[str, int]
    """Blocks by pool, reserved ones included."""
    chunk: int | None
    slots: int | None
    slots_in_prefill: int | None
    options: tuple[Option, ...]
    contexts: Contexts = ()
    running: int = 0
    """Requests that run at once."""


class Item(NamedTuple):
    """Bytes that live on a rank in some phases."""

    name: str
    bytes: int
    phases: tuple[str, ...]


def items(problem: Problem, rank: Rank, residents: Residents) -> Iterator[Item]:
    """Everything that lives on one rank."""
    quota, every = quota_of(rank).bytes, problem.phases
    serving = tuple(phase for phase in every if phase != "load")
    things: tuple[Consumer | Option, ...] = (*problem.consumers, *residents.options)
    for thing in things:
        taken = fixed_bytes(thing, rank, problem.consumers)
        if isinstance(thing, Consumer):
            taken += residents.running * figure_of(thing.per_request, rank)
        yield Item(thing.name, taken, thing.phases or every)
    for pool in problem.pools:
        taken = pool_bytes(pool, rank, quota, residents.allocated[pool.name])
        yield Item(pool.name, taken, serving)
    staged = staging_bytes(problem, rank.stage, residents.chunk, residents.contexts)
    yield Item("staging", staged, ("prefill",))
    if problem.experts is not None:
        kept = expert_bytes(problem.experts, rank.stage, residents.slots_in_prefill or 0)
        yield Item("experts", kept, ("prefill",))
        taken = expert_bytes(problem.experts, rank.stage, residents.slots or 0)
        yield Item("experts", taken, tuple(phase for phase in serving if phase != "prefill"))


def usage(problem: Problem, rank: Rank, residents: Residents) -> dict[str, int]:
    """Bytes in use on a rank by phase."""
    used = dict.fromkeys(problem.phases, 0)
    for item in items(problem, rank, residents):
        for phase in dict.fromkeys(item.phases):
            used[phase] += item.bytes
    return used
