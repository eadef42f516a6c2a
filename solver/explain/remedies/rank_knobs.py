"""More bytes for a rank: its quota, or the readings that the quota follows from."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterator

from kvplan.models import Problem
from kvplan.models.ranks import Rank, RankMemory, Share
from kvplan.models.reading.paths import rank_path
from kvplan.models.units import LIMIT, exact_bytes, human_bytes
from kvplan.solver.explain.conflict.items import PLENTY, Item
from kvplan.solver.explain.nearest import AUTO_STEPS, less_quota, nearest_in_stretches
from kvplan.solver.explain.remedies.knob import Knob, hundredths
from kvplan.solver.explain.remedies.what_if import WhatIf

MOST_UTILIZATION = 100  # hundredths


def rank_knobs(what_if: WhatIf) -> Iterator[Knob]:
    """Knobs of every rank, each alone; a flag that all ranks share is turned for all."""
    problem = what_if.problem
    flagged = [rank.memory is not None and rank.memory.utilization for rank in problem.ranks]
    one_flag = len(flagged) > 1 and all(flagged) and len(set(flagged)) == 1
    if one_flag:
        yield _utilization(what_if, None)
    for index, rank in enumerate(problem.ranks):
        if rank.memory is None:
            yield from _quota(what_if, index)
            continue
        if rank.memory.utilization is not None:
            yield _utilization(what_if, index)
        yield from _readings(what_if, index, rank.memory)
        yield _declared(what_if, index, rank)


def common_quota(what_if: WhatIf) -> Iterator[Knob]:
    """One quota for all ranks, where raising a single one is not enough."""
    ranks = what_if.problem.ranks
    if len(ranks) < 2 or any(rank.memory is not None for rank in ranks):
        return
    now = min(rank.quota_bytes for rank in ranks)
    hint = max(rank.quota_bytes + what_if.short_bytes(i) for i, rank in enumerate(ranks))
    most = _largest_quota(hint)

    def find(what_if: WhatIf, knob: Knob) -> int | None:
        steps = _steps(what_if, 0)
        return nearest_in_stretches(
            lambda q: what_if.fits_with(knob.written(q)), now + 1, knob.last, steps, knob.hint
        )

    yield Knob(
        change="ranks.*.quota",
        now=now,
        last=most,
        eases=_quotas(what_if.problem),
        text=lambda to: f"every rank: a quota of {exact_bytes(to)}",
        hint=hint,
        find=find,
    )


def _quotas(problem: Problem) -> frozenset[Item]:
    return frozenset(Item("quota", (i,)) for i in range(len(problem.ranks)))


def _largest_quota(hint: int) -> int:
    """Up to where a quota is looked for: plenty, or all that may be declared."""
    return PLENTY if hint < PLENTY else LIMIT - 1


def _steps(what_if: WhatIf, index: int) -> tuple[int, ...]:
    """Where the "auto" granule of a rank changes; nowhere if it is held or not used."""
    held = what_if.held is not None and what_if.problem.ranks[index].name in what_if.held.granules
    automatic = what_if.problem.has_auto_granules
    return AUTO_STEPS if automatic and not held else ()


def _byte_cuts(what_if: WhatIf, index: int, field: str, last: int) -> tuple[int, ...]:
    """Distances of a reading in bytes, up to `last`, from which the rank's granule is another.

    The quota never falls on the way; how fast it rises follows from the other terms (of a share of
    what is free, of graphs that are a fraction).
    """
    rank = what_if.problem.ranks[index]
    assert rank.memory is not None
    now, readings = getattr(rank.memory, field), rank.memory.model_dump(exclude_unset=True)
    sign = 1 if last > now else -1

    def quota(far: int) -> int:
        memory = RankMemory.model_validate({**readings, field: now + sign * far})
        return Rank(name=rank.name, memory=memory).quota_bytes

    distances = range(sign * (last - now) + 1)
    ahead = [step for step in _steps(what_if, index) if step > rank.quota_bytes]
    found = [bisect_left(distances, step, key=quota) for step in ahead]
    return tuple(far for far in found if far < len(distances))


def _hundredth_cuts(what_if: WhatIf, index: int) -> tuple[int, ...]:
    """Each of the hundredths of a flag is tried where they may cross a granule step."""
    return tuple(range(1, MOST_UTILIZATION + 1)) if _steps(what_if, index) else ()


def _quota(what_if: WhatIf, index: int) -> Iterator[Knob]:
    rank, change = what_if.problem.ranks[index], f"{rank_path(what_if.problem, index)}.quota"
    now, steps = rank.quota_bytes, _steps(what_if, index)
    eases = frozenset({Item("quota", (index,))})

    def up(what_if: WhatIf, knob: Knob) -> int | None:
        return nearest_in_stretches(
            lambda q: what_if.fits_with(knob.written(q)), now + 1, knob.last, steps, knob.hint
        )

    def down(what_if: WhatIf, knob: Knob) -> int | None:
        return less_quota(lambda q: what_if.fits_with(knob.written(q)), 0, now - 1, steps)

    def more(to: int) -> str:
        return f"rank {rank.name}: {exact_bytes(to - now)} more, a quota of {exact_bytes(to)}"

    hint = now + what_if.short_bytes(index)
    yield Knob(change, now, _largest_quota(hint), eases, more, hint=hint, find=up)
    if any(step <= now for step in steps):
        yield Knob(
            change,
            now,
            0,
            eases,
            lambda to: f"rank {rank.name}: a quota of {exact_bytes(to)}, below a granule step",
            is_aside=True,
            find=down,
        )


def _declared(what_if: WhatIf, index: int, rank: Rank) -> Knob:
    """A declared quota in place of the readings: the bytes, whatever provides them."""
    now, steps = rank.quota_bytes, _steps(what_if, index)
    name, hint = json.dumps(rank.name), now + what_if.short_bytes(index)

    def find(what_if: WhatIf, knob: Knob) -> int | None:
        return nearest_in_stretches(
            lambda q: what_if.fits_with(knob.written(q)), max(now, 0), knob.last, steps, knob.hint
        )

    return Knob(
        change=rank_path(what_if.problem, index),
        now=now,
        last=_largest_quota(hint),
        eases=frozenset({Item("quota", (index,))}),
        text=lambda to: f"rank {rank.name}: {exact_bytes(to - now)} more, {exact_bytes(to)} in all",
        write=lambda to: f"{{name: {name}, stage: {rank.stage}, quota: {to}}}",
        was=f"a quota of {now} from its readings",
        hint=hint,
        find=find,
    )


def _utilization(what_if: WhatIf, index: int | None) -> Knob:
    """The share of memory that the engine may use, in the steps of a flag; of all ranks if None."""
    problem = what_if.problem
    path = "ranks.*" if index is None else rank_path(problem, index)
    ranks = problem.ranks if index is None else (problem.ranks[index],)
    shares = [r.memory.utilization for r in ranks if r.memory and r.memory.utilization is not None]
    who = "every rank" if index is None else f"rank {ranks[0].name}"
    eases = _quotas(problem) if index is None else frozenset({Item("quota", (index,))})
    now = int(min(shares) * 100 // 1)

    def text(to: int) -> str:
        gained = min(_with_utilization(rank, to) - rank.quota_bytes for rank in ranks)
        return f"{who}: utilization {hundredths(to)}, {human_bytes(gained)} more"

    return Knob(
        change=f"{path}.memory.utilization",
        now=now,
        last=MOST_UTILIZATION,
        eases=eases,
        text=text,
        write=hundredths,
        was=str(min(shares)),
        cuts=_hundredth_cuts(what_if, 0 if index is None else index),
        why_not=lambda what_if: _bound_by_free(what_if, index, ranks),
    )


def _with_utilization(rank: Rank, value: int) -> int:
    assert rank.memory is not None
    share = RankMemory.model_validate(
        {**rank.memory.model_dump(exclude_unset=True), "utilization": hundredths(value)}
    )
    return Rank(name=rank.name, stage=rank.stage, memory=share).quota_bytes


def _bound_by_free(what_if: WhatIf, index: int | None, ranks: tuple[Rank, ...]) -> str | None:
    """Name the ranks that are short and whose quota does not grow with the utilization."""
    stuck = []
    for place, rank in enumerate(ranks):
        at = place if index is None else index
        top = _with_utilization(rank, MOST_UTILIZATION)
        if what_if.short_bytes(at) > 0 and top - rank.quota_bytes < what_if.short_bytes(at):
            if rank.memory is None or rank.memory.physical_share != top:
                return None
            gained = top - rank.quota_bytes
            gives = f"gives {human_bytes(gained)} at most" if gained else "does nothing"
            stuck.append(f"rank {rank.name} is bound by free memory, raising it {gives}")
    return "; ".join(stuck) or None


def _readings(what_if: WhatIf, index: int, memory: RankMemory) -> Iterator[Knob]:
    """More free memory, a smaller safety margin, a smaller headroom."""
    problem = what_if.problem
    rank, path = problem.ranks[index], f"{rank_path(problem, index)}.memory"
    eases = frozenset({Item("quota", (index,))})
    if memory.free is not None:
        now = memory.free
        hint = now + what_if.short_bytes(index)
        most = _largest_quota(hint) if memory.total is None else memory.total
        yield Knob(
            f"{path}.free",
            now,
            most,
            eases,
            lambda to: f"rank {rank.name}: {exact_bytes(to - now)} more free memory",
            cuts=_byte_cuts(what_if, index, "free", most),
        )
    for field in ("prefill_headroom", "safety"):
        yield from _margin(what_if, index, path, field)


def _margin(what_if: WhatIf, index: int, path: str, field: str) -> Iterator[Knob]:
    """A headroom or margin lowered, in bytes or in hundredths of the total."""
    rank, eases = what_if.problem.ranks[index], frozenset({Item("quota", (index,))})
    change, value = f"{path}.{field}", getattr(rank.memory, field)
    title = f"rank {rank.name}: {field.replace('_', ' ')}"
    if isinstance(value, str):
        yield _headroom_off(change, rank, eases)
    elif isinstance(value, Share):
        yield Knob(
            f"{change}.fraction",
            int(-(-value.fraction * 100 // 1)),
            0,
            eases,
            lambda to: f"{title} of {hundredths(to)} of total",
            write=hundredths,
            was=str(value.fraction),
            cuts=_hundredth_cuts(what_if, index),
        )
    elif value:
        cuts = _byte_cuts(what_if, index, field, 0)
        yield Knob(change, value, 0, eases, lambda to: f"{title} of {exact_bytes(to)}", cuts=cuts)


def _headroom_off(change: str, rank: Rank, eases: frozenset[Item]) -> Knob:
    return Knob(
        change,
        1,
        0,
        eases,
        lambda _: f"rank {rank.name}: no prefill headroom derived from the staging",
        write=lambda to: 0 if to == 0 else "from_staging",
    )
