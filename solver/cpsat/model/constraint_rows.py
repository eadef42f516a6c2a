"""Variables and rows of a CP-SAT model: domains, a hint for every variable, no overflow.

Every form knows its range and its value at the hint, so that a rule sees when it is constant,
auxiliary variables get a full hint, and no row leaves CP-SAT's range.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from ortools.sat.python import cp_model

from kvplan.solver.cpsat.model.linear_forms import Linear, constant

LARGEST_ROW = 2**62  # sum of |coefficient| x largest |bound|; CP-SAT refuses more
_Expr = cp_model.LinearExpr


class TooLargeError(Exception):
    """A row of the model would leave CP-SAT's 64-bit range."""


class ContradictionError(Exception):
    """A row can never hold within the domains: the model is infeasible."""


class _CpModel(cp_model.CpModel):
    """CP-SAT's model without the camel-case aliases, which take as long to add as a solve."""

    def _add_pre_pep8_methods(self) -> None:
        """Add none."""


class Rows:
    """The CP-SAT model being built, with domains and hints by variable number.

    Attributes
    ----------
    hint_holds : whether the hint satisfies every row so far, by this module's own arithmetic.
    """

    def __init__(self) -> None:
        self.cp: cp_model.CpModel = _CpModel()
        self.variables: list[cp_model.IntVar] = []
        self.lows: list[int] = []
        self.highs: list[int] = []
        self.hints: list[int] = []
        self.hint_holds = True

    def integer(self, low: int, high: int, hint: int) -> Linear:
        """A new variable in [low, high]; a constant where that is one value."""
        if low > high:
            raise ContradictionError
        if low == high:
            return constant(low)
        if max(-low, high) >= LARGEST_ROW:
            raise TooLargeError
        self.variables.append(self.cp.new_int_var(low, high, ""))
        self.lows.append(low)
        self.highs.append(high)
        self.hints.append(min(max(hint, low), high))
        return Linear(((len(self.variables) - 1, 1),))

    def boolean(self, hint: bool) -> Linear:
        """A new 0/1 variable."""
        return self.integer(0, 1, int(hint))

    # --- what is known of a form ---------------------------------------------------------------

    def low(self, form: Linear) -> int:
        """Smallest value of a form within the domains."""
        return form.constant + sum(
            [c * (self.lows[v] if c > 0 else self.highs[v]) for v, c in form.terms]
        )

    def high(self, form: Linear) -> int:
        """Largest value of a form within the domains."""
        return form.constant + sum(
            [c * (self.highs[v] if c > 0 else self.lows[v]) for v, c in form.terms]
        )

    def value(self, form: Linear) -> int:
        """Value of a form at the hint."""
        return form.constant + sum([c * self.hints[v] for v, c in form.terms])

    def expr(self, form: Linear) -> cp_model.LinearExprT:
        """The form for CP-SAT."""
        variables = [self.variables[v] for v, _ in form.terms]
        return _Expr.weighted_sum(variables, [c for _, c in form.terms]) + form.constant

    def maximize(self, form: Linear) -> None:
        """Make a form the objective.

        Raises
        ------
        TooLargeError : it would leave CP-SAT's range.
        """
        self._fits(form.terms)
        self.cp.maximize(self.expr(form))

    # --- rows ----------------------------------------------------------------------------------

    def bound(
        self,
        form: Linear,
        least: int | None = None,
        most: int | None = None,
        *,
        when: Linear | None = None,
    ) -> None:
        """least <= form <= most, always or when a boolean holds; divided by the gcd.

        Rows that the domains imply are left out.
        """
        low, high = self.low(form), self.high(form)
        least = low if least is None or least <= low else least
        most = high if most is None or most >= high else most
        if least <= low and most >= high:
            return
        if when is None or self.value(when):
            self.hint_holds = self.hint_holds and least <= self.value(form) <= most
        if least > high or most < low:
            self._forbid(when)
            return
        divisor = gcd(*[c for _, c in form.terms])
        lower = -((form.constant - least) // divisor)
        upper = (most - form.constant) // divisor
        terms = [(v, c // divisor) for v, c in form.terms]
        self._fits(terms)
        if when is None:
            self._row(terms, lower, upper)
        elif self._is_multiplied_out(terms):
            low, high = (low - form.constant) // divisor, (high - form.constant) // divisor
            self._relaxed_row(terms, when, high - upper, most=high)
            self._relaxed_row(terms, when, low - lower, least=low)
        else:
            row = self._row(terms, lower, upper)
            row.only_enforce_if(self.variables[when.terms[0][0]])

    def _row(
        self, terms: list[tuple[int, int]], least: int | None, most: int | None
    ) -> cp_model.Constraint:
        expr = _Expr.weighted_sum([self.variables[v] for v, _ in terms], [c for _, c in terms])
        return self.cp.add_linear_constraint(
            expr,
            cp_model.INT_MIN if least is None else least,
            cp_model.INT_MAX if most is None else most,
        )

    def _relaxed_row(
        self,
        terms: list[tuple[int, int]],
        when: Linear,
        slack: int,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> None:
        """One bound of a conditional row, `slack` tighter where the boolean holds."""
        if slack:
            both = [*terms, (when.terms[0][0], slack)]
            self._fits(both)
            self._row(both, least, most)

    def _is_multiplied_out(self, terms: list[tuple[int, int]]) -> bool:
        """Whether CP-SAT multiplies beyond its range in a conditional row of two variables.

        It multiplies one's coefficient by the other's bound there, unchecked; what wraps around
        proves false optima (OR-Tools 9.15).
        """
        largest = max(max(abs(self.lows[v]), abs(self.highs[v])) for v, _ in terms)
        return len(terms) == 2 and max(abs(c) for _, c in terms) * largest >= LARGEST_ROW

    def _forbid(self, when: Linear | None) -> None:
        if when is None:
            raise ContradictionError
        self.bound(when, most=0)

    def _fits(self, terms: Iterable[tuple[int, int]]) -> None:
        size = sum([abs(c) * max(abs(self.lows[v]), abs(self.highs[v])) for v, c in terms])
        if size >= LARGEST_ROW:
            raise TooLargeError
