"""Goals one after the other with CP-SAT; deterministic time decides, wall time only guards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import Enum

from ortools.sat.python import cp_model

from kvplan.models import SolverError
from kvplan.solver.cpsat.configurations import Configuration, configured
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear

# Deterministic time of an answer without a deadline, about four times as many wall seconds: the
# same on every rank, so that all of them stop at the same plan.
ALLOWANCE = 0.35
AFTER_UNPROVEN = 0.1  # for all goals after one that stays unproven
RESERVED = 0.1  # share of a deadline that is kept for them
WALL_GUARD_S = 10.0  # of an answer without a deadline
# Every round of configurations gets longer slices.
_FIRST_SLICE, _GROWTH, _LONGEST_SLICE = 0.01, 3, 30.0


class Verdict(Enum):
    """What a solve ended with."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


class Driver:
    """Solves the goals of one model; keeps the best solution as the model's hint.

    Parameters
    ----------
    deadline : wall seconds for everything; None: `ALLOWANCE` of deterministic time.
    trusts_hint : whether a hint that holds counts as a solution that CP-SAT need not find again.

    Attributes
    ----------
    bound : upper bound of the last goal, where it stayed unproven.
    has_solution : whether the hint is a solution: found by CP-SAT, or proven optimal.
    """

    def __init__(
        self, model: Model, deadline: float | None = None, *, trusts_hint: bool = False
    ) -> None:
        self.model = model
        self.deterministic_time = 0.0
        self.bound: int | None = None
        self.has_solution = False
        self._trusts_hint = trusts_hint
        self._allowance = ALLOWANCE if deadline is None else float("inf")
        whole = WALL_GUARD_S if deadline is None else deadline
        self._end = time.monotonic() + whole * (1 - RESERVED)
        self._reserve_s = whole * RESERVED
        self._is_late = False  # after a goal that stayed unproven
        self._decided: list[tuple[Linear, int]] = []

    def time_left(self) -> float:
        """Wall seconds to the end."""
        return max(0.0, self._end - time.monotonic())

    def maximize(self, form: Linear, most: int | None = None) -> Verdict:
        """Solve for one form; what it reaches is held from then on.

        On OPTIMAL the value is fixed, on FEASIBLE it is a lower bound, and `bound` the upper one.

        Parameters
        ----------
        most : a proven upper bound, added as a row.
        """
        model = self.model
        if not form.terms:
            return Verdict.OPTIMAL
        if most is not None:
            model.bound(form, most=most)
        verdict = self._maximum(form, self._highest(form, most))
        if verdict is Verdict.OPTIMAL:
            value = model.value(form)
            model.bound(form, value, value)
            model.settle(form, value)
            self.has_solution = True
            self._decided.append((form, value))
        elif verdict is Verdict.FEASIBLE:
            model.bound(form, least=model.value(form))
            self._run_late()
        return verdict

    def _run_late(self) -> None:
        """Give the goals after an unproven one a little time of their own."""
        if not self._is_late:
            self._is_late = True
            self._allowance = self.deterministic_time + AFTER_UNPROVEN
            self._end = min(self._end, time.monotonic()) + self._reserve_s

    def extreme(self, form: Linear, *, keep: bool = False) -> tuple[int, Verdict]:
        """The largest value of a form, which is not held; without a proof the best one found.

        Parameters
        ----------
        keep : leave the solution as hint; else the earlier one is restored.
        """
        model = self.model
        before = [*model.hints], model.hint_holds
        verdict = self._maximum(form, self._highest(form, None)) if form.terms else Verdict.OPTIMAL
        value = model.value(form)
        if not keep:
            model.hints, model.hint_holds = before
        return value, verdict

    def satisfy(self) -> Verdict:
        """Solve for any point."""
        self.model.cp.clear_objective()
        return self._run(None)

    def _maximum(self, form: Linear, highest: int) -> Verdict:
        """Solve for one form, unless the hint holds and is at the end of the domain."""
        model = self.model
        known = self.has_solution or self._trusts_hint
        if known and model.hint_holds and model.value(form) >= highest:
            return Verdict.OPTIMAL
        model.maximize(form)
        verdict = self._run(form)
        self.bound = highest if self.bound is None else min(self.bound, highest)
        return verdict

    def _highest(self, form: Linear, most: int | None) -> int:
        """An upper bound of a form: its domain, and for one variable the goals decided so far.

        A decided goal c x + rest = value leaves x at most (value - least rest) / c.
        """
        model = self.model
        high = model.highest(form) if most is None else min(most, model.highest(form))
        if len(form.terms) != 1 or form.terms[0][1] != 1:
            return high
        variable = form.terms[0][0]
        for decided, value in self._decided:
            coefficient = dict(decided.terms).get(variable, 0)
            if coefficient > 0:
                rest = model.low(decided) - coefficient * model.lows[variable]
                high = min(high, form.constant + (value - rest) // coefficient)
        return high

    def _run(self, form: Linear | None) -> Verdict:
        """Slices in turn until one proves something, or the time is over."""
        self.bound = None
        best = Verdict.UNKNOWN
        for slice_time, wall_s, configuration in self._slices():
            verdict = self._solve(form, configured(slice_time, wall_s, configuration))
            if verdict is Verdict.INFEASIBLE:
                if self.model.hint_holds:  # which refutes the verdict
                    continue
                return self._confirmed(form, configuration)
            if verdict is Verdict.OPTIMAL or (form is None and verdict is Verdict.FEASIBLE):
                return verdict
            if verdict is Verdict.FEASIBLE:
                best = verdict
        if best is Verdict.UNKNOWN and self.has_solution and self.model.hint_holds:
            return Verdict.FEASIBLE  # the last goal's solution stands
        return best

    def _slices(self) -> Iterator[tuple[float, float, Configuration]]:
        """(deterministic time, wall seconds, configuration) of every solve for one goal."""
        most = self._allowance
        if self._is_late:
            most = (most + self.deterministic_time) / 2  # the next goals want some of it too
        length = _FIRST_SLICE
        while True:
            for configuration in Configuration:
                left, wall_s = most - self.deterministic_time, self.time_left()
                if left <= 0 or wall_s <= 0:
                    return
                yield min(length, left), wall_s, configuration
            length = min(length * _GROWTH, _LONGEST_SLICE)

    def _confirmed(self, form: Linear | None, first: Configuration) -> Verdict:
        """INFEASIBLE if another configuration agrees (OR-Tools #5295, #5274)."""
        for configuration in Configuration:
            wall_s = self.time_left()
            if configuration is first or wall_s <= 0:
                continue
            verdict = self._solve(form, configured(ALLOWANCE, wall_s, configuration))
            if verdict is not Verdict.UNKNOWN:
                return verdict
        return Verdict.UNKNOWN

    def _solve(self, form: Linear | None, solver: cp_model.CpSolver) -> Verdict:
        model = self.model
        model.cp.clear_hints()
        hint = model.cp.proto.solution_hint  # at once: add_hint takes seconds for 10^5 variables
        hint.vars.extend(range(len(model.variables)))
        hint.values.extend(model.hints)
        try:
            status = solver.solve(model.cp)
        except MemoryError:
            raise SolverError("it ran out of memory") from None
        self.deterministic_time += solver.response_proto.deterministic_time
        if status == cp_model.MODEL_INVALID:
            raise SolverError(f"CP-SAT refuses the model: {model.cp.validate()[:200]}")
        if status == cp_model.INFEASIBLE:
            return Verdict.INFEASIBLE
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Verdict.UNKNOWN  # values are garbage memory
        found = [solver.value(variable) for variable in model.variables]
        is_optimal = status == cp_model.OPTIMAL
        if form is not None and not is_optimal:
            bound = _whole(solver.best_objective_bound)
            if bound is not None:
                self.bound = bound if self.bound is None else min(bound, self.bound)
        return self._taken(form, found, is_optimal=is_optimal)

    def _taken(self, form: Linear | None, found: list[int], *, is_optimal: bool) -> Verdict:
        """The better of a solution and a hint that holds stays; no optimum is worse (#5293)."""
        model, before = self.model, self.model.hints
        least = model.value(form) if form is not None and model.hint_holds else None
        self.has_solution = True
        model.hints = found
        if form is not None and least is not None and model.value(form) < least:
            model.hints = before
            return Verdict.FEASIBLE
        model.hint_holds = True
        is_proven = form is not None and model.value(form) == self.bound
        return Verdict.OPTIMAL if is_optimal or is_proven else Verdict.FEASIBLE


def _whole(bound: float) -> int | None:
    """A bound that a double still holds exactly, rounded to the nearest whole number."""
    return int(bound + 0.5) if abs(bound) < 2**53 else None
