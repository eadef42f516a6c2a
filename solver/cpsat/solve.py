"""Goals one after the other with CP-SAT; deterministic time decides, wall time only guards."""

from __future__ import annotations

import time
from enum import Enum
from fractions import Fraction

from ortools.sat.python import cp_model

from kvplan.models import SolverError
from kvplan.solver.cpsat.model import Linear, total
from kvplan.solver.cpsat.program import Program

# Two configurations in turn, each slice longer (formulation measured both: level 2 without
# presolve proves most models in a millisecond, LP_SEARCH the knapsacks among the others).
SLICES = (0.5, 0.5, 2.0, 2.0, 8.0, 8.0, 30.0, 30.0)
_LP_SEARCH = cp_model.LP_SEARCH


class Verdict(Enum):
    """What a solve ended with."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Driver:
    """Solves the goals of one program; keeps the best solution as the model's hint."""

    def __init__(self, program: Program, deadline: float | None) -> None:
        self.program = program
        self.model = program.model
        self.deterministic_time = 0.0
        self._end = None if deadline is None else time.monotonic() + deadline
        self.bound: int | None = None  # of the last goal that stayed unproven
        self.has_point = False  # whether the hint is known to obey every row
        self.has_solution = False  # whether CP-SAT found it
        self._decided: list[tuple[Linear, int]] = []

    def time_left(self) -> float | None:
        """Wall seconds to the deadline; None without one."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def maximize(self, form: Linear, most: int | None = None) -> Verdict:
        """Solve for one form; on OPTIMAL its value is fixed, and the solution becomes the hint.

        Parameters
        ----------
        most : a proven upper bound, added as a row.
        """
        model = self.model
        if not form.terms:
            return Verdict.OPTIMAL
        if most is not None:
            model.bound(form, most=most)
        highest = self._highest(form) if most is None else min(most, self._highest(form))
        if self.has_point and model.value(form) >= highest:
            verdict = Verdict.OPTIMAL  # the last solution is at the end of the domain
        else:
            model.maximize(form)
            verdict = self._run()
        if verdict is Verdict.OPTIMAL:
            value = model.value(form)
            model.bound(form, value, value)
            model.settle(form, value)
            self._decided.append((form, value))
        return verdict

    def _highest(self, form: Linear) -> int:
        """An upper bound of a form: its domain, and for one variable the goals decided so far.

        A decided goal c x + rest = value leaves x at most (value - least rest) / c.
        """
        model = self.model
        high = model.highest(form)
        if len(form.terms) != 1 or form.terms[0][1] != 1:
            return high
        variable = form.terms[0][0]
        for decided, value in self._decided:
            coefficient = dict(decided.terms).get(variable, 0)
            if coefficient > 0:
                rest = model.low(decided) - coefficient * model.lows[variable]
                high = min(high, form.constant + (value - rest) // coefficient)
        return high

    def satisfy(self) -> Verdict:
        """Solve for any point."""
        self.model.cp.clear_objective()
        return self._run()

    def _run(self) -> Verdict:
        best = Verdict.UNKNOWN
        for number, slice_time in enumerate(SLICES):
            left = self.time_left()
            if left is not None and left <= 0:
                return best
            solver = _solver(slice_time, left, lp_search=number % 2 == 1)
            verdict = self._solve(solver)
            if verdict is Verdict.OPTIMAL:
                return verdict
            if verdict is Verdict.INFEASIBLE:
                # Confirmed by the other configuration before it is believed.
                other = self._solve(_solver(SLICES[-1], left, lp_search=number % 2 == 0))
                if other is not Verdict.UNKNOWN:
                    return other
                return best
            if verdict is Verdict.FEASIBLE:
                best = verdict
        return best

    def _solve(self, solver: cp_model.CpSolver) -> Verdict:
        model = self.model
        model.cp.clear_hints()
        for variable, hint in zip(model.variables, model.hints, strict=True):
            model.cp.add_hint(variable, hint)
        status = solver.solve(model.cp)
        self.deterministic_time += solver.response_proto.deterministic_time
        if status == cp_model.MODEL_INVALID:
            raise SolverError(f"CP-SAT refuses the model: {model.cp.validate()[:200]}")
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            # Values are garbage memory after any other status.
            model.hints = [solver.value(variable) for variable in model.variables]
            self.has_point = self.has_solution = True
            self.bound = _whole(solver.best_objective_bound)
            return Verdict.OPTIMAL if status == cp_model.OPTIMAL else Verdict.FEASIBLE
        return Verdict.INFEASIBLE if status == cp_model.INFEASIBLE else Verdict.UNKNOWN


def _whole(bound: float) -> int | None:
    """A bound that a double still holds exactly, rounded to the nearest whole number."""
    return int(bound + 0.5) if abs(bound) < 2**53 else None


def _solver(slice_time: float, left: float | None, *, lp_search: bool) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.num_workers = 1
    parameters.random_seed = 0
    parameters.cp_model_presolve = False
    parameters.linearization_level = 2
    parameters.absolute_gap_limit = 0  # compared as doubles: beyond 2^53 a gap would look closed
    parameters.catch_sigint_signal = False  # Ctrl-C is the caller's
    parameters.max_deterministic_time = slice_time
    if left is not None:
        parameters.max_time_in_seconds = left
    if lp_search:
        parameters.search_branching = _LP_SEARCH
    return solver


def scaled(bound: Fraction | int | None, scale: int) -> int | None:
    """A goal's bound in the units of its form."""
    return None if bound is None else int(bound * scale // 1)


def negated(form: Linear) -> Linear:
    """-form, to minimise."""
    return total([(-1, form)])
