"""The decisions as variables of the model."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total
from kvplan.solver.cpsat.program.chunks import Chunks, create_chunks
from kvplan.solver.cpsat.program.domains import Domains
from kvplan.solver.cpsat.program.sizes import fewest_kept


class Variables(NamedTuple):
    """Forms by position, as in `Point`."""

    capacities: tuple[Linear, ...]  # tokens by fitted request
    counts: tuple[Linear, ...]
    chunk: Chunks
    options: tuple[list[Linear], ...]  # literals by choice and option
    experts: Linear
    kept: Linear  # slots that stay during prefill
    usable: tuple[Linear, ...]  # blocks by pool


def create_variables(model: Model, instance: Instance, domains: Domains, point: Point) -> Variables:
    """All decision variables, with domains and hints."""
    capacity, count = [], []
    for index, request in enumerate(instance.fitted):
        hint = point.counts[index] if request.is_count else point.capacities[index]
        variable = model.integer(request.least, domains.fitted[index], hint)
        capacity.append(constant(request.capacity) if request.is_count else variable)
        count.append(variable if request.is_count else constant(request.requests))
    experts, kept = _experts(model, instance, domains, point)
    return Variables(
        capacities=tuple(capacity),
        counts=tuple(count),
        chunk=create_chunks(model, domains.chunks, point.chunk),
        options=tuple(
            model.one_of(options, point.options[index])
            for index, options in enumerate(instance.choices)
        ),
        experts=experts,
        kept=kept,
        usable=tuple(
            _usable(model, instance, domains, index, point.usable[index])
            for index in range(len(instance.pools))
        ),
    )


def _usable(model: Model, instance: Instance, domains: Domains, index: int, hint: int) -> Linear:
    """n = multiple x n', least <= n <= most."""
    multiple = instance.pools[index].multiple
    least = -(-domains.least_usable[index] // multiple)
    most = domains.usable[index] // multiple
    return total([(multiple, model.integer(least, most, hint // multiple))])


def _experts(
    model: Model, instance: Instance, domains: Domains, point: Point
) -> tuple[Linear, Linear]:
    if instance.experts is None:
        return constant(0), constant(0)
    experts = model.integer(instance.experts.least, domains.experts, point.experts)
    if not instance.experts.lend_num:
        return experts, experts
    low = fewest_kept(instance, instance.experts.least)
    return experts, model.integer(low, domains.experts, point.kept)
