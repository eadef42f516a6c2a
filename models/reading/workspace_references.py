"""Workspaces of two variables: their requests exist, their tables reach, their figures fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.models.elastic import Staging
from kvplan.models.errors import Fault
from kvplan.models.messages import one_of, shown
from kvplan.models.units import LIMIT

if TYPE_CHECKING:
    from kvplan.models.problem import Problem


def workspace_faults(problem: Problem) -> Iterator[Fault]:
    """Find contexts of no request or of several, and of a group more than one."""
    groups: dict[str, tuple[int, int]] = {}
    for index, entry in enumerate(problem.prefill.staging if problem.prefill else ()):
        if not entry.has_context:
            continue
        path = f"prefill.staging[{index}]"
        if problem.place is not None:
            yield Fault(path, "base, per_token or a table beside place", "a context")
        found = problem.context_of(entry)
        if found is None:
            yield _no_request(problem, entry, path)
            continue
        request = problem.batches[found[0]].requests[found[1]]
        yield from _figures(problem, entry, path, request.capacity)
        if entry.group and groups.setdefault(entry.group, found) != found:
            expected = f"one request in all of group {shown(entry.group)}"
            yield Fault(f"{path}.request", expected, f"{shown(entry.request)} beside another")
    for index, consumer in enumerate(problem.consumers):
        if consumer.per_request != 0 and problem.place is not None:
            path = f"consumers[{index}].per_request"
            yield Fault(path, "none beside place", shown(consumer.per_request))


def _no_request(problem: Problem, entry: Staging, path: str) -> Fault:
    """A name that no request has, or several; or none where there are several."""
    named = [
        (batch.name, request.name or f"{batch.name}.{r}")
        for batch in problem.batches
        for r, request in enumerate(batch.requests)
    ]
    names = [name for _, name in named]
    if entry.request is None:
        expected = "the name of a request (it may be left out when there is one)"
        return Fault(f"{path}.request", expected, f"none, with {len(names)} requests")
    holding = [batch for batch, name in named if name == entry.request]
    if holding:
        got = f"{shown(entry.request)} in batches {', '.join(map(shown, holding))}"
        return Fault(f"{path}.request", "the name of one request", got)
    return Fault(f"{path}.request", one_of(names, entry.request), shown(entry.request))


def _figures(problem: Problem, entry: Staging, path: str, capacity: int) -> Iterator[Fault]:
    """A table reaches the capacity that is asked for, where the bytes stay below 2^63."""
    table, chunk = entry.context_table, problem.prefill.requested if problem.prefill else 0
    if table is not None and table[-1][0] < capacity:
        expected = f"a table up to capacity {capacity} of the request"
        yield Fault(f"{path}.context_table", expected, f"one that ends at {table[-1][0]}")
    elif entry.bytes_of(chunk, capacity) >= LIMIT:
        expected = f"bytes below 2^63 at {chunk} x {capacity} tokens"
        yield Fault(path, expected, "more")
