"""The integer program as one short list: variables, needs, floors, rows, goals."""

from __future__ import annotations

from typing import NamedTuple

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance, Objective
from kvplan.kernels.values import Point, copies_held
from kvplan.solver.cpsat.box import Box
from kvplan.solver.cpsat.constraints import (
    add_copies,
    add_floors,
    add_lending,
    add_linear,
    add_rows,
)
from kvplan.solver.cpsat.goals import goal_form, goal_scale
from kvplan.solver.cpsat.model import Linear, Model
from kvplan.solver.cpsat.needs import Needs
from kvplan.solver.cpsat.variables import Variables, create_variables


class Program(NamedTuple):
    """A built model with its decisions and the goals that CP-SAT decides."""

    model: Model
    instance: Instance
    variables: Variables
    goals: tuple[tuple[Linear, int], ...]  # form and scale, in order

    def copy(self) -> Program:
        """The same program on an independent model."""
        return self._replace(model=self.model.copy())

    def suggest(self, point: Point) -> None:
        """Make a point's blocks and kept experts the hint; auxiliaries are left to CP-SAT."""
        forms = (*self.variables.usable, self.variables.kept)
        for form, value in zip(forms, (*point.usable, point.kept), strict=True):
            for variable, coefficient in form.terms:
                self.model.hints[variable] = (value - form.constant) // coefficient

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


def _chosen(model: Model, literals: list[Linear]) -> int:
    return next(index for index, literal in enumerate(literals) if model.value(literal))


def build_program(instance: Instance, demand: Demand, box: Box, point: Point) -> Program:
    """Build the model; `point` is the hint.

    Raises
    ------
    ContradictionError : some row can never hold in the box.
    TooLargeError : a row would leave CP-SAT's range.
    """
    model = Model()
    variables = create_variables(model, instance, box, point)
    needs = Needs(model, demand, variables)
    raws = [needs.raw(batch) for batch in range(len(instance.batches))]
    add_floors(model, instance, variables, raws)
    add_lending(model, instance, variables)
    add_rows(model, instance, variables)
    wanted = instance.goals if instance.blocks_are_coupled else instance.goals[: instance.fill_from]
    copies = {
        batch: add_copies(
            model, instance, variables, raws[batch], copies_held(instance, demand, point, batch)
        )
        for batch in _copied_batches(instance, wanted)
    }
    add_linear(model, instance, variables, copies)
    goals = tuple(
        (goal_form(model, instance, variables, copies, goal), goal_scale(goal)) for goal in wanted
    )
    return Program(model, instance, variables, goals)


def _copied_batches(instance: Instance, goals: tuple[Objective, ...]) -> list[int]:
    """Batches whose copies the model needs: in the goals it decides, or in a constraint."""
    used = [term.variable for goal in goals for term in goal.members]
    used += [
        variable for constraint in instance.constraints for _, variable, _ in constraint.members
    ]
    return sorted({variable.position for variable in used if variable.kind == "copies"})
