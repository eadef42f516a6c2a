"""The floor of the prefill chunk: the field that sets it, and what a lower one makes legal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kvplan.models import Problem
from kvplan.models.elastic import MOST_CHUNKS, Prefill


class ChunkFloor(NamedTuple):
    """The field that sets the smallest chunk, that chunk, and the smallest that may be asked."""

    field: str
    now: int
    least: int


def chunk_floor(prefill: Prefill) -> ChunkFloor:
    """The floor as the problem file has it."""
    now, step = prefill.candidates[0], prefill.step or 1
    if prefill.chunks is not None:
        return ChunkFloor("prefill.chunks[0]", now, 1)
    if prefill.min is None and prefill.step is None and prefill.requested > MOST_CHUNKS:
        return ChunkFloor("prefill.requested", now, 1)  # with `min` it would list too many chunks
    return ChunkFloor("prefill.min", now, max(1, prefill.requested - MOST_CHUNKS * step + 1))


def lowest_listed(prefill: Prefill) -> int:
    """The lowest floor down to which every legal chunk can be listed."""
    field, now, _ = chunk_floor(prefill)
    most = now if field == "prefill.chunks[0]" else prefill.requested
    return min(now, max(1, most - MOST_CHUNKS + 1))


def with_floors_from(prefill: Prefill, least: int) -> Prefill:
    """The section with every chunk that some floor from `least` to the one now makes legal.

    A lower floor moves the grid of `step`, so it is not only the chunks below the old floor.
    """
    field, now, _ = chunk_floor(prefill)
    most = now if field == "prefill.chunks[0]" else prefill.requested
    step = (prefill.step or 1) if field == "prefill.min" else 1
    legal = {chunk for chunk in range(least, most + 1) if (chunk - least) % step <= now - least}
    return with_chunks(prefill, legal.union(prefill.chunks or ()))


def with_chunks(prefill: Prefill, chunks: Iterable[int]) -> Prefill:
    """The section with other chunks to choose from."""
    listed = tuple(sorted(set(chunks)))
    return prefill.model_copy(update={"chunks": listed, "min": None, "step": None})


def is_constrained(problem: Problem) -> bool:
    """Whether a linear constraint looks at the chunk, so that the smallest may not be the best."""
    return any("prefill" in constraint.terms for constraint in problem.constraints)
