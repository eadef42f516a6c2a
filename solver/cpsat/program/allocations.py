"""The rounding of allocations as rows: whole granules, or powers of two."""

from __future__ import annotations

from kvplan.kernels.instance import POW2
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total
from kvplan.solver.cpsat.program.sizes import allocation


def paged_bytes(model: Model, total_bytes: Linear, granule: int) -> Linear:
    """granule x ceil(bytes / granule); linear where every count is whole pages."""
    if granule == POW2:
        return powers_of_two(model, total_bytes)
    if granule == 1 or (
        all(value % granule == 0 for _, value in total_bytes.terms)
        and (total_bytes.constant % granule == 0)
    ):
        return total_bytes
    return total([(granule, model.ceil_div(total_bytes, granule))])


def powers_of_two(model: Model, total_bytes: Linear) -> Linear:
    """One of the powers of two that is no smaller; nothing but the budgets keeps it the least."""
    low, high = (allocation(end(total_bytes), POW2) for end in (model.low, model.high))
    values = [low]
    while values[-1] < high:
        values.append(max(1, 2 * values[-1]))
    if len(values) == 1:
        return constant(low)
    hint = values.index(allocation(model.value(total_bytes), POW2))
    taken = model.table(model.one_of(len(values), hint), values)
    model.bound(total([(1, taken), (-1, total_bytes)]), least=0)
    return taken
