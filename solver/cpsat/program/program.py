"""The integer program as one short list: domains, variables, needs, floors, rows, goals."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear
from kvplan.solver.cpsat.program.constraints import (
    add_budgets,
    add_floors,
    add_lending,
    add_linear,
    copies_of_batches,
)
from kvplan.solver.cpsat.program.decision_variables import Variables, create_variables
from kvplan.solver.cpsat.program.domains import Domains, domains_of
from kvplan.solver.cpsat.program.given_needs import Given
from kvplan.solver.cpsat.program.goal_forms import goal_form, goal_scale
from kvplan.solver.cpsat.program.needs import Needs


class Program(NamedTuple):
    """A built model with its decisions and the objectives that CP-SAT decides."""

    model: Model
    instance: Instance
    variables: Variables
    raws: list[list[Linear]]  # blocks by batch and pool
    objectives: tuple[tuple[Linear, int], ...]  # form and scale, in order

    def point(self) -> Point:
        """The decisions at the model's current hint (the last solution)."""
        value, variables = self.model.value, self.variables
        return Point(
            capacities=tuple(map(value, variables.capacities)),
            counts=tuple(map(value, variables.counts)),
            chunk=variables.chunk.chosen(value),
            options=tuple(_chosen(self.model, literals) for literals in variables.options),
            experts=value(variables.experts),
            kept=value(variables.kept),
            usable=tuple(map(value, variables.usable)),
        )

    def raw_blocks(self) -> list[list[int]]:
        """Raw blocks by batch and pool at the model's current hint."""
        return [[self.model.value(form) for form in raw] for raw in self.raws]


def _chosen(model: Model, literals: list[Linear]) -> int:
    return next(index for index, literal in enumerate(literals) if model.value(literal))


def build_program(
    instance: Instance, point: Point | None = None, domains: Domains | None = None
) -> Program:
    """Build the model.

    Parameters
    ----------
    point : the hint; None: every decision at its smallest.
    domains : bounds of the variables; None: what the budgets leave.

    Raises
    ------
    ContradictionError : some row can never hold.
    TooLargeError : a row would leave CP-SAT's range.
    """
    given = Given(instance)
    domains = domains_of(instance, given) if domains is None else domains
    model = Model()
    variables = create_variables(model, instance, domains, point or least_point(instance))
    needs = Needs(model, instance, given, variables)
    raws = [needs.raw(batch) for batch in range(len(instance.batches))]
    add_floors(model, instance, variables, raws)
    add_lending(model, instance, variables)
    add_budgets(model, instance, variables)
    wanted = (
        instance.objectives
        if instance.blocks_are_coupled
        else instance.objectives[: instance.fill_from]
    )
    copies = copies_of_batches(model, instance, variables, raws, wanted)
    add_linear(model, instance, variables, copies)
    objectives = tuple(
        [(goal_form(model, instance, variables, copies, goal), goal_scale(goal)) for goal in wanted]
    )
    return Program(model, instance, variables, raws, objectives)


def least_point(instance: Instance) -> Point:
    """Every decision at its smallest: a hint without a search, feasible or not."""
    experts = instance.experts.least if instance.experts else 0
    return Point(
        capacities=tuple([f.capacity if f.is_count else f.least for f in instance.fitted]),
        counts=tuple([f.least if f.is_count else f.requests for f in instance.fitted]),
        chunk=0,
        options=tuple([0 for _ in instance.choices]),
        experts=experts,
        kept=experts,
        usable=tuple([pool.least for pool in instance.pools]),
    )
