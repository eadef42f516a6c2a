"""Every solution of a small CP-SAT model."""

from __future__ import annotations

from ortools.sat.python import cp_model

from kvplan.solver.cpsat.model.integer_model import Linear, Model


class Every(cp_model.CpSolverSolutionCallback):
    """Collects the values of all variables at every solution."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model
        self.found: set[tuple[int, ...]] = set()

    def on_solution_callback(self) -> None:
        self.found.add(tuple(self.value(variable) for variable in self.model.variables))


def solutions(model: Model) -> set[tuple[int, ...]]:
    """Every solution, as values of all variables in the order created."""
    solver, every = cp_model.CpSolver(), Every(model)
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    assert not model.cp.validate()
    solver.solve(model.cp, every)
    return every.found


def at(form: Linear, values: tuple[int, ...]) -> int:
    return form.constant + sum(c * values[v] for v, c in form.terms)
