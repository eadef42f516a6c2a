"""A thin layer over CP-SAT's model: integer linear forms with bounds and hint values.

Every form knows its range and its value at the bracket's point, so that a rule can see when it is
constant, auxiliary variables get a full hint, and no row can overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd
from typing import NamedTuple

from ortools.sat.python import cp_model

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


class Linear(NamedTuple):
    """constant + sum(coefficient x variable), variables by number."""

    terms: tuple[tuple[int, int], ...]  # (variable, coefficient)
    constant: int = 0


def constant(value: int) -> Linear:
    """A form without variables."""
    return Linear((), value)


def total(forms: Iterable[tuple[int, Linear]]) -> Linear:
    """sum(factor x form)."""
    terms: dict[int, int] = {}
    value = 0
    for factor, form in forms:
        value += factor * form.constant
        for variable, coefficient in form.terms:
            terms[variable] = terms.get(variable, 0) + factor * coefficient
    return Linear(tuple((v, c) for v, c in terms.items() if c), value)


class Model:
    """The CP-SAT model being built, with domains and hints by variable number."""

    def __init__(self) -> None:
        self.cp: cp_model.CpModel = _CpModel()
        self.variables: list[cp_model.IntVar] = []
        self.lows: list[int] = []
        self.highs: list[int] = []
        self.hints: list[int] = []
        self._shared: dict[tuple[object, ...], Linear] = {}
        self._groups: list[list[int]] = []  # literals of which exactly one holds

    def copy(self) -> Model:
        """An independent model with the same variables, domains and hints."""
        twin = Model()
        twin.cp = self.cp.clone()
        twin.variables = [twin.cp.get_int_var_from_proto_index(v.index) for v in self.variables]
        twin.lows, twin.highs, twin.hints = [*self.lows], [*self.highs], [*self.hints]
        twin._shared = dict(self._shared)
        twin._groups = self._groups
        return twin

    # --- forms ---------------------------------------------------------------------------------

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

    def low(self, form: Linear) -> int:
        """Smallest value of a form within the domains."""
        return form.constant + sum(
            c * (self.lows[v] if c > 0 else self.highs[v]) for v, c in form.terms
        )

    def high(self, form: Linear) -> int:
        """Largest value of a form within the domains."""
        return form.constant + sum(
            c * (self.highs[v] if c > 0 else self.lows[v]) for v, c in form.terms
        )

    def highest(self, form: Linear) -> int:
        """`high`, and for a table over literals of which one holds its largest entry."""
        mine = {variable for variable, _ in form.terms}
        for literals in self._groups:
            if mine and mine <= set(literals):
                worth = dict(form.terms)
                return form.constant + max(worth.get(v, 0) for v in literals if self.highs[v])
        return self.high(form)

    def value(self, form: Linear) -> int:
        """Value of a form at the hint."""
        return form.constant + sum(c * self.hints[v] for v, c in form.terms)

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

    def shared(self, key: tuple[object, ...], build: Callable[[], Linear]) -> Linear:
        """A form that is built once for a key."""
        if key not in self._shared:
            self._shared[key] = build()
        return self._shared[key]

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
        if least > high or most < low:
            self._forbid(when)
            return
        divisor = gcd(*(c for _, c in form.terms))
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
        size = sum(abs(c) * max(abs(self.lows[v]), abs(self.highs[v])) for v, c in terms)
        if size >= LARGEST_ROW:
            raise TooLargeError

    def settle(self, form: Linear, value: int) -> None:
        """Narrow the known domains after a form got its final value.

        Of one variable the value follows; of literals of which one holds, where no other literal
        gives the same value, which one it is.
        """
        if len(form.terms) == 1:
            (variable, coefficient) = form.terms[0]
            fixed = (value - form.constant) // coefficient
            self.lows[variable] = self.highs[variable] = fixed
            return
        for literals in self._groups:
            worth = {v: form.constant + dict(form.terms).get(v, 0) for v in literals}
            if {v for v, _ in form.terms} <= set(literals):
                holding = [v for v, given in worth.items() if given == value]
                if len(holding) == 1:
                    for v in literals:
                        self.lows[v] = self.highs[v] = int(v == holding[0])

    # --- ceil, floor, max, min -----------------------------------------------------------------

    def ceil_div(self, form: Linear, divisor: int) -> Linear:
        """ceil(form / divisor) as a pair of inequalities: b v >= a and b v <= a + b - 1."""
        return self._divided(form, divisor, divisor - 1, "ceil")

    def floor_div(self, form: Linear, divisor: int) -> Linear:
        """floor(form / divisor), below zero too (CP-SAT's own division truncates)."""
        return self._divided(form, divisor, 0, "floor")

    def _divided(self, form: Linear, divisor: int, up: int, name: str) -> Linear:
        if divisor == 1:
            return form
        key = (name, form, divisor)
        if key not in self._shared:
            low, high = (self.low(form) + up) // divisor, (self.high(form) + up) // divisor
            quotient = self.integer(low, high, (self.value(form) + up) // divisor)
            remainder = total([(1, form), (-divisor, quotient)])
            self.bound(remainder, least=-up, most=divisor - 1 - up)
            self._shared[key] = quotient
        return self._shared[key]

    def largest(self, *forms: Linear) -> Linear:
        """max(forms); no variable where the domains decide."""
        floor = max(self.low(form) for form in forms)
        left = [form for form in dict.fromkeys(forms) if self.high(form) >= floor]
        if len(left) == 1:
            return left[0]
        key = ("max", *left)
        if key not in self._shared:
            high = max(self.high(form) for form in left)
            result = self.integer(floor, high, max(self.value(form) for form in left))
            if result.terms:
                self.cp.add_max_equality(self.expr(result), [self.expr(form) for form in left])
            self._shared[key] = result
        return self._shared[key]

    def smallest(self, *forms: Linear) -> Linear:
        """min(forms) = -max(-forms)."""
        return total([(-1, self.largest(*(total([(-1, form)]) for form in forms)))])

    def product(self, left: Linear, right: Linear) -> Linear:
        """left x right; linear where one of them is constant."""
        if not left.terms or not right.terms:
            factor, form = (left.constant, right) if not left.terms else (right.constant, left)
            return total([(factor, form)])
        key = ("product", left, right)
        if key not in self._shared:
            corners = [
                a * b
                for a in (self.low(left), self.high(left))
                for b in (self.low(right), self.high(right))
            ]
            hint = self.value(left) * self.value(right)
            result = self.integer(min(corners), max(corners), hint)
            self.cp.add_multiplication_equality(
                self.expr(result), [self.expr(left), self.expr(right)]
            )
            self._shared[key] = result
        return self._shared[key]

    # --- one of several ------------------------------------------------------------------------

    def one_of(self, count: int, hint: int) -> list[Linear]:
        """`count` booleans of which exactly one holds."""
        if count == 1:
            return [constant(1)]
        literals = [self.boolean(index == hint) for index in range(count)]
        self.cp.add_exactly_one(self.variables[form.terms[0][0]] for form in literals)
        self._groups.append([form.terms[0][0] for form in literals])
        return literals

    def table(self, literals: list[Linear], values: Iterable[int]) -> Linear:
        """The value beside the literal that holds: base + sum((value - base) x literal)."""
        listed = list(values)
        base = listed[0]
        forms = [(value - base, form) for value, form in zip(listed, literals, strict=True)]
        return total([(1, constant(base)), *forms])

    def tabled(self, literals: list[Linear], values: Iterable[int]) -> Linear:
        """The same as a variable of its own, so that its range is tight."""
        listed = list(values)
        form = self.table(literals, listed)
        if not form.terms:
            return form
        variable = self.integer(min(listed), max(listed), self.value(form))
        if variable.terms:
            self.bound(total([(1, variable), (-1, form)]), 0, 0)
        return variable
