"""What staging takes for a chunk and a context, in words."""

from __future__ import annotations

from kvplan.models import Problem
from kvplan.models.elastic import Staging
from kvplan.models.problem import request_name
from kvplan.models.units import human_bytes


def context_note(problem: Problem, entry: Staging, chunk: int, context: int) -> str:
    """`64 B x 2,048 x 131,072 tokens of long`; empty where bytes follow the chunk alone."""
    place = problem.context_of(entry) if entry.has_context else None
    if place is None:
        return ""
    name = request_name(problem.batches[place[0]], place[1])
    tokens = f"{context:,} tokens of {name}"
    if entry.per_token_context is None:
        return f"at {tokens}"
    rate = entry.per_token_context
    each = human_bytes(int(rate)) if rate.denominator == 1 else f"{rate} B"
    return f"{each} x {chunk:,} x {tokens}"
