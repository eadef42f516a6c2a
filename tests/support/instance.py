"""Rules and instances of the kernels, written by hand or taken from a problem."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import FLIGHT, FULL, LIVE, PEAK, STATE, CacheRule, Instance
from kvplan.kernels.need import request_blocks
from kvplan.kernels.search.search import Search
from kvplan.models import Problem
from kvplan.solver.formulate.formulation import formulate

KINDS = {"full": FULL, "live": LIVE, "peak": PEAK, "flight": FLIGHT, "state": STATE}


def rule(kind: str, block_tokens: int = 1, **fields: Any) -> CacheRule:
    """The rule of one cache on pool 0."""
    return CacheRule(0, KINDS[kind], block_tokens, **fields)


def blocks(
    of: CacheRule, capacity: Any, history: Any = None, *, flight: int = 1, prefix_blocks: int = 0
) -> Any:
    """Blocks of one request; one token in flight unless the history is given."""
    before = capacity - 1 if history is None else history
    return request_blocks(of, capacity, before, flight, prefix_blocks)


def instance_of(problem: Problem) -> Instance:
    """A problem in integers."""
    return formulate(problem).instance


def search_of(problem: Problem) -> Search:
    """The search on a problem."""
    return Search(instance_of(problem))


def raw_of(problem: Problem, batch: int = 0, chunk: int = 0) -> list[int]:
    """Raw blocks by pool of a batch in which nothing is fitted."""
    return Demand(instance_of(problem)).raw(batch, chunk, (), ())


def windows(block_tokens: int, *spans: int, **fields: Any) -> list[dict[str, Any]]:
    """Live windows on pool p, one for each span in tokens."""
    return [
        {
            "name": f"swa{span}",
            "pool": "p",
            "kind": "window",
            "keep": "live",
            "window": span,
            "tokens_per_block": block_tokens,
            **fields,
        }
        for span in spans
    ]


def last(fits: Sequence[bool] | Iterable[bool], low: int) -> int | None:
    """The largest of low, low + 1, ... for which a list says that it fits; or None."""
    found = [low + step for step, fit in enumerate(fits) if fit]
    return found[-1] if found else None
