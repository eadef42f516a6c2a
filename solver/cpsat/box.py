"""Domains of the variables: how far each could go alone, by the nested search."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.bytes import most_blocks
from kvplan.kernels.instance import Instance, Variable
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer

MARGIN_BLOCKS = 3


class Box(NamedTuple):
    """Inclusive upper bounds; lower bounds are the problem's own."""

    fitted: tuple[int, ...]  # tokens of a capacity, or count
    chunks: int  # candidates from the smallest
    experts: int
    usable: tuple[int, ...]  # blocks by pool


def box_of(nested: Search, bracket: Answer, *, margin: bool) -> Box:
    """Solo maxima: every variable at its largest with all else at its least.

    Parameters
    ----------
    bracket : the search's answer; the first goal's bound holds that variable's solo maximum.
    margin : leave a little more room than the search found (three blocks of tokens,
        one chunk, one slot), so that CP-SAT must refute it by itself and a search that stops too
        early shows.
    """
    worlds = [world for world in nested.starts() if nested.possible(world)]
    instance = nested.instance
    known: dict[Variable, int] = {}
    if instance.goals and bracket.bounds[0] is not None:
        first, weight = instance.goals[0].single, instance.goals[0].members[0].weight
        if first is not None:
            known[first] = int(bracket.bounds[0] / weight)

    def solo(variable: Variable, extra: int, most: int | None) -> int:
        top = known.get(variable)
        if top is None:
            reached = [nested.largest(world, variable) for world in worlds]
            top = max(value for value in reached if value is not None)
        top += extra if margin else 0
        return top if most is None else min(top, most)

    fitted = []
    for index, request in enumerate(instance.fitted):
        grid = nested.grids[index]
        widest = max((rule.block_tokens for rule in instance.caches), default=1)
        extra = 1 if grid is None else MARGIN_BLOCKS * widest
        kind = "count" if request.is_count else "capacity"
        fitted.append(solo(Variable(kind, index), extra, request.most))
    experts = instance.experts
    chunk = solo(Variable("prefill"), 0, None) if len(instance.chunks) > 1 else instance.chunks[0]
    return Box(
        fitted=tuple(fitted),
        chunks=min(instance.chunks.index(chunk) + 1 + margin, len(instance.chunks)),
        experts=solo(Variable("experts"), 1, experts.most) if experts else 0,
        usable=tuple(
            solo(Variable("blocks", index), pool.multiple, pool.most)
            for index, pool in enumerate(instance.pools)
        ),
    )


def open_box(instance: Instance) -> Box:
    """Crude bounds that no search takes part in: what each variable could take of a whole room."""
    usable = []
    for index, pool in enumerate(instance.pools):
        rooms = [(row.limit_bytes, row.pools[index]) for row in instance.budgets if row.pools]
        held = [most_blocks(room, buffers) for room, buffers in rooms if buffers]
        most = max(0, min(held) - pool.reserved)
        usable.append(most if pool.most is None else min(most, pool.most))
    raw = sum(blocks * pool.use_num for blocks, pool in zip(usable, instance.pools, strict=True))
    experts = 0
    if instance.experts is not None:
        smallest = min(size for _, size in instance.experts.sizes)
        experts = max([0, *(row.limit_bytes // smallest for row in instance.budgets if row.layers)])
        experts = experts if instance.experts.most is None else min(experts, instance.experts.most)
    return Box(
        fitted=tuple(max(f.least, raw) if f.most is None else f.most for f in instance.fitted),
        chunks=len(instance.chunks),
        experts=experts,
        usable=tuple(usable),
    )
