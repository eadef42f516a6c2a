"""Staging that follows a capacity, as rows: the product of chunk and capacity, tables, groups."""

from __future__ import annotations

from collections.abc import Sequence

from kvplan.kernels.instance import Part, Workspace
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, total
from kvplan.solver.cpsat.program.allocations import paged_bytes
from kvplan.solver.cpsat.program.decision_variables import Variables


def workspace_form(model: Model, variables: Variables, workspace: Workspace) -> Linear:
    """The largest of the parts; the product of chunk and capacity is shared by all of them."""
    capacity = variables.capacities[workspace.fitted]
    forms = [_part_form(model, variables, part, capacity) for part in workspace.parts]
    return model.largest(*forms)


def _part_form(model: Model, variables: Variables, part: Part, capacity: Linear) -> Linear:
    """den v >= base + slope x C, both of the chosen chunk; then the table, then the granule."""
    chunk = variables.chunk
    slopes, bases = part.slopes[: chunk.number], part.bases[: chunk.number]
    grown = total([(slopes[0], capacity)])
    if len(set(slopes)) > 1:
        grown = chunk.times(model, slopes, capacity)
    linear = total([(1, chunk.table(model, bases)), (1, grown)])
    needed = model.ceil_div(linear, part.den)
    if part.table:
        needed = total([(1, needed), (1, _tabled(model, part.table, capacity))])
    return paged_bytes(model, needed, part.granule)


def _tabled(model: Model, table: Sequence[tuple[int, int]], capacity: Linear) -> Linear:
    """The entry in whose range the capacity lies: above the tokens of the one before."""
    low, high = model.low(capacity), model.high(capacity)
    starts = [0, *[tokens + 1 for tokens, _ in table[:-1]]]
    ranges = [
        (start, end, size)
        for start, (end, size) in zip(starts, table, strict=True)
        if end >= low and start <= high
    ]
    at = model.value(capacity)
    holding = next((n for n, (_, end, _) in enumerate(ranges) if at <= end), len(ranges) - 1)
    literals = model.one_of(len(ranges), holding)
    for (start, end, _), literal in zip(ranges, literals, strict=True):
        if literal.terms:
            model.bound(capacity, start, end, when=literal)
    return model.table(literals, [size for _, _, size in ranges])
