"""The demands of a problem, and the problem without some of them.

Without a demand a problem is never harder: whatever fitted still fits. What no one asked for
stays: reserved blocks, the structural floors of live windows, multiples, the resume utilization.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from kvplan.models import Problem
from kvplan.models.demands import Batch
from kvplan.models.elastic import Prefill
from kvplan.models.pools import Pool
from kvplan.models.ranks import Rank
from kvplan.solver.explain.chunk_floor import lowest_listed, with_chunks, with_floors_from
from kvplan.solver.formulate.formulation import Held

MOST_REQUESTS = 48
"""Most requests of a batch that are separate demands; a larger batch is one demand."""
PLENTY = 2**52
"""Bytes of a quota that no server today is short of."""
ENDLESS = 1 << 200
"""Bytes of a quota that was dropped."""


class Item(NamedTuple):
    """One demand: its kind and the positions of its parts."""

    kind: str
    at: tuple[int, ...] = ()


Items = frozenset[Item]


def items_of(problem: Problem, held: Held | None = None) -> Iterator[Item]:
    """Every demand; those to drop from a conflict first come first."""
    yield from (Item("constraint", (i,)) for i in range(len(problem.constraints)))
    for index, pool in enumerate(problem.pools):
        if pool.max_blocks is not None:
            yield Item("pool limit", (index,))
        if pool.figures.limited:
            yield Item("allocation limit", (index,))
        if pool.min_blocks or (held is not None and held.floors.get(pool.name)):
            yield Item("pool minimum", (index,))
    if problem.prefill is not None:
        yield from (Item("staging", (i,)) for i in range(len(problem.prefill.staging)))
        if problem.prefill.candidates[0] > 1:
            yield Item("chunk floor")
    yield from (Item("choice", (i,)) for i in range(len(problem.choices)))
    if problem.experts is not None and problem.experts.min_slots:
        yield Item("expert floor")
    for b, batch in enumerate(problem.batches):
        if len(batch.requests) > MOST_REQUESTS:
            yield Item("batch", (b,))
        else:
            yield from (Item("request", (b, r)) for r in range(len(batch.requests)))
    yield from (Item("consumer", (i,)) for i in range(len(problem.consumers)))
    yield from (Item("quota", (i,)) for i in range(len(problem.ranks)))


def without(
    problem: Problem, held: Held | None, dropped: Collection[Item]
) -> tuple[Problem, Held | None]:
    """The problem without some demands; not validated again.

    A linear constraint is dropped with the request, choice or batch that it names.
    """
    gone = frozenset(dropped)
    constraints = _constraints(problem, gone)
    update: dict[str, Any] = {
        "goals": (),
        "fill": None,
        "relax": (),
        "variants": (),
        "ranks": tuple(
            _free(rank) if Item("quota", (i,)) in gone else rank for i, rank in _of(problem.ranks)
        ),
        "pools": tuple(_pool(pool, i, gone) for i, pool in _of(problem.pools)),
        "batches": tuple(_batch(batch, b, gone) for b, batch in _of(problem.batches)),
        "consumers": _left(problem.consumers, "consumer", gone),
        "choices": _left(problem.choices, "choice", gone),
        "constraints": constraints,
    }
    if problem.prefill is not None:
        looked_at = any("prefill" in constraint.terms for constraint in constraints)
        update["prefill"] = _prefill(problem.prefill, gone, looked_at)
    if problem.experts is not None and Item("expert floor") in gone:
        update["experts"] = problem.experts.model_copy(update={"min_slots": 0})
    if held is not None:
        floors = {
            pool.name: held.floors.get(pool.name, 0)
            for i, pool in _of(problem.pools)
            if Item("pool minimum", (i,)) not in gone
        }
        held = Held(held.granules, floors)
    return problem.model_copy(update=update), held


def _of(parts: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
    return enumerate(parts)


def _left(parts: tuple[Any, ...], kind: str, gone: Items) -> tuple[Any, ...]:
    return tuple(part for i, part in enumerate(parts) if Item(kind, (i,)) not in gone)


def _free(rank: Rank) -> Rank:
    """The rank with more bytes than anything takes; not validated, since 64 bits may not do."""
    return Rank.model_construct(name=rank.name, stage=rank.stage, quota=ENDLESS, memory=None)


def _pool(pool: Pool, index: int, gone: Items) -> Pool:
    update: dict[str, Any] = {}
    if Item("pool limit", (index,)) in gone:
        update["max_blocks"] = None
    if Item("allocation limit", (index,)) in gone:
        update["max_bytes"] = None
        update["buffers"] = pool.buffers and tuple(
            [buffer.model_copy(update={"max_bytes": None}) for buffer in pool.buffers]
        )
    if Item("pool minimum", (index,)) in gone:
        update["min_blocks"] = 0
    return pool.model_copy(update=update) if update else pool


def _batch(batch: Batch, b: int, gone: Items) -> Batch:
    kept = tuple(
        request.model_copy(update={"name": request.name or f"{batch.name}.{r}"})
        for r, request in enumerate(batch.requests)
        if Item("request", (b, r)) not in gone and Item("batch", (b,)) not in gone
    )
    return (
        batch if len(kept) == len(batch.requests) else batch.model_copy(update={"requests": kept})
    )


def _prefill(prefill: Prefill, gone: Items, is_constrained: bool) -> Prefill:
    """Without its floor the chunk may be a single token, or any other that a floor makes legal."""
    staging = _left(prefill.staging, "staging", gone)
    if Item("chunk floor") in gone:
        wider = with_floors_from(prefill, lowest_listed(prefill)) if is_constrained else prefill
        prefill = with_chunks(prefill, (1, *wider.candidates))
    return prefill.model_copy(update={"staging": staging})


def _constraints(problem: Problem, gone: Items) -> tuple[Any, ...]:
    moot: set[str] = set()
    for item in gone:
        if item.kind in ("request", "batch"):
            batch = problem.batches[item.at[0]]
            moot.add(f"copies:{batch.name}")
            rows = range(len(batch.requests)) if item.kind == "batch" else item.at[1:]
            names = [batch.requests[r].name or f"{batch.name}.{r}" for r in rows]
            moot.update(f"{kind}:{name}" for name in names for kind in ("capacity", "count"))
        elif item.kind == "choice":
            choice = problem.choices[item.at[0]]
            moot.update(f"choice:{choice.name}={option.name}" for option in choice.options)
    kept = _left(problem.constraints, "constraint", gone)
    return tuple(constraint for constraint in kept if not moot & constraint.terms.keys())
