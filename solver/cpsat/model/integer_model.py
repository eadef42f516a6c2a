"""Ceil, floor, max, min, products and tables on top of the rows of a CP-SAT model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import gcd

from kvplan.solver.cpsat.model.constraint_rows import ContradictionError, Rows, TooLargeError
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, negated, total

__all__ = ["ContradictionError", "Linear", "Model", "TooLargeError", "constant", "total"]


class Model(Rows):
    """A model whose derived forms are built once and shared."""

    def __init__(self) -> None:
        super().__init__()
        self._shared: dict[tuple[object, ...], Linear] = {}
        self._groups: list[list[int]] = []  # literals of which exactly one holds

    def shared(self, key: tuple[object, ...], build: Callable[[], Linear]) -> Linear:
        """A form that is built once for a key."""
        if key not in self._shared:
            self._shared[key] = build()
        return self._shared[key]

    # --- ceil, floor, max, min, product --------------------------------------------------------

    def ceil_div(self, form: Linear, divisor: int) -> Linear:
        """ceil(form / divisor) = floor((form + divisor - 1) / divisor)."""
        return self.floor_div(Linear(form.terms, form.constant + divisor - 1), divisor)

    def floor_div(self, form: Linear, divisor: int) -> Linear:
        """floor(form / divisor), below zero too (CP-SAT's own division truncates).

        A pair of inequalities: divisor v <= form <= divisor v + divisor - 1. What divides every
        coefficient is cancelled and whole multiples in the constant move out, so that windows of
        one block size share a variable, and pools of one ratio of block to page.
        """
        common = gcd(divisor, *[coefficient for _, coefficient in form.terms])
        divisor //= common
        terms = tuple([(variable, c // common) for variable, c in form.terms])
        whole, rest = divmod(form.constant // common, divisor)
        if divisor == 1:
            return Linear(terms, whole)
        reduced = Linear(terms, rest)
        quotient = self.shared(("floor", reduced, divisor), lambda: self._floor(reduced, divisor))
        return Linear(quotient.terms, quotient.constant + whole)

    def _floor(self, form: Linear, divisor: int) -> Linear:
        low, high = self.low(form) // divisor, self.high(form) // divisor
        quotient = self.integer(low, high, self.value(form) // divisor)
        remainder = total([(1, form), (-divisor, quotient)])
        self.bound(remainder, least=0, most=divisor - 1)
        return quotient

    def largest(self, *forms: Linear) -> Linear:
        """max(forms); no variable where the domains decide."""
        floor = max(self.low(form) for form in forms)
        left = [form for form in dict.fromkeys(forms) if self.high(form) >= floor]
        if len(left) == 1:
            return left[0]
        return self.shared(("max", *left), lambda: self._largest(left, floor))

    def _largest(self, left: list[Linear], floor: int) -> Linear:
        high = max(self.high(form) for form in left)
        result = self.integer(floor, high, max(self.value(form) for form in left))
        if result.terms:
            self.cp.add_max_equality(self.expr(result), [self.expr(form) for form in left])
        return result

    def smallest(self, *forms: Linear) -> Linear:
        """min(forms) = -max(-forms)."""
        return negated(self.largest(*map(negated, forms)))

    def product(self, left: Linear, right: Linear) -> Linear:
        """left x right; linear where one of them is constant."""
        if not left.terms or not right.terms:
            factor, form = (left.constant, right) if not left.terms else (right.constant, left)
            return total([(factor, form)])
        return self.shared(("product", left, right), lambda: self._product(left, right))

    def _product(self, left: Linear, right: Linear) -> Linear:
        ends = [
            a * b
            for a in (self.low(left), self.high(left))
            for b in (self.low(right), self.high(right))
        ]
        result = self.integer(min(ends), max(ends), self.value(left) * self.value(right))
        self.cp.add_multiplication_equality(self.expr(result), [self.expr(left), self.expr(right)])
        return result

    # --- one of several ------------------------------------------------------------------------

    def one_of(self, count: int, hint: int) -> list[Linear]:
        """`count` booleans of which exactly one holds."""
        if count == 1:
            return [constant(1)]
        hint = min(max(hint, 0), count - 1)
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

    # --- what a decided goal implies -----------------------------------------------------------

    def highest(self, form: Linear) -> int:
        """`high`, and for a table over literals of which one holds its largest entry."""
        mine = {variable for variable, _ in form.terms}
        for literals in self._groups:
            if mine and mine <= set(literals):
                worth = dict(form.terms)
                return form.constant + max(worth.get(v, 0) for v in literals if self.highs[v])
        return self.high(form)

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
