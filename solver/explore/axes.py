"""One varied field and its values: "10GiB:80GiB:256MiB", "4096,8192", or what an iterable gives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact
from fractions import Fraction

from kvplan.models import InvalidProblem
from kvplan.models.messages import Misfit, shown
from kvplan.models.units import parse_fraction, parse_quantity

MOST_ROWS = 10_000_000
_FORM = "A:B:STEP or A,B,C"
_EXACT = Context(prec=60, traps=[Inexact])

Values = str | Iterable[int | float | str | Decimal | Fraction]
"""How values are given: text, or an iterable of numbers and of texts with a unit."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it was written; in bytes where it had a unit."""

    exact: Fraction
    has_unit: bool

    def as_written(self) -> int | Decimal | str:
        """The number for a problem's data; bytes keep a unit, so that only byte fields take them.

        The field rounds fractions of a byte: supply down, demand up.
        """
        whole = self.exact.denominator == 1
        number = self.exact.numerator if whole else _decimal(self.exact)
        return f"{number} B" if self.has_unit else number


def _decimal(exact: Fraction) -> Decimal | str:
    try:
        return _EXACT.divide(Decimal(exact.numerator), Decimal(exact.denominator))
    except Inexact:
        return f"{exact.numerator}/{exact.denominator}"


def parse_figure(value: object) -> Figure:
    """Read a number or a text such as "10GiB", "0.97", "9/19"."""
    has_unit = isinstance(value, str) and value.rstrip()[-1:].isalpha()
    if not has_unit:
        return Figure(parse_fraction(value), has_unit)
    try:
        return Figure(parse_quantity(str(value)), has_unit)
    except Misfit as error:
        raise Misfit(f"a number, or {error.expected}", error.got) from None


@dataclass(frozen=True, slots=True)
class Steps(Sequence[Figure]):
    """first, first + step, ...: nothing is stored, however many there are."""

    first: Fraction
    step: Fraction
    length: int
    has_unit: bool

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Figure:  # type: ignore[override]
        if not 0 <= index < self.length:
            raise IndexError(index)
        return Figure(self.first + index * self.step, self.has_unit)


@dataclass(frozen=True, slots=True)
class Axis:
    """A varied field: its path, and its values in order."""

    path: str
    figures: Sequence[Figure]


def parse_axis(path: str, values: Values) -> Axis:
    """Read the values of one field.

    Raises
    ------
    InvalidProblem : no such form, units that do not match, no value, or far too many.
    """
    try:
        figures = _text(values) if isinstance(values, str) else _listed(values)
    except Misfit as error:
        raise InvalidProblem.at(path, error.expected, error.got) from None
    if not figures:
        raise InvalidProblem.at(path, "at least one value", "none")
    return Axis(path, figures)


def _text(text: str) -> Sequence[Figure]:
    parts = text.split(":")
    if len(parts) == 1:
        return _listed(text.split(","))
    if len(parts) != 3 or not all(part.strip() for part in parts):
        raise Misfit(_FORM, shown(text))
    first, last, step = map(parse_figure, parts)
    units = {figure.has_unit for figure in (first, last, step) if figure.exact}
    if len(units) > 1:
        raise Misfit("a unit on each of A, B and STEP, or on none", shown(text))
    if step.exact <= 0:
        raise Misfit("a STEP above 0", shown(text))
    if last.exact < first.exact:
        raise Misfit("an A of at most B", shown(text))
    count = (last.exact - first.exact) // step.exact + 1
    return Steps(first.exact, step.exact, _bounded(count), True in units)


def _listed(values: Iterable[object]) -> Sequence[Figure]:
    if not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise Misfit(f"{_FORM}, or an iterable of numbers", shown(values))
    if isinstance(values, Sized):
        _bounded(len(values))
    if isinstance(values, range):
        return Steps(Fraction(values.start), Fraction(values.step), len(values), has_unit=False)
    figures: list[Figure] = []
    for value in values:
        if isinstance(value, str) and not value.strip():
            raise Misfit(_FORM, shown(value))
        figures.append(parse_figure(value))
        _bounded(len(figures))
    if len({figure.has_unit for figure in figures if figure.exact}) > 1:
        raise Misfit("a unit on each value, or on none", "both")
    if len({figure.exact for figure in figures}) < len(figures):
        raise Misfit("each value once", "one twice")
    has_unit = any(figure.has_unit for figure in figures)
    return tuple(Figure(figure.exact, has_unit) for figure in figures)


def _bounded(count: int) -> int:
    if count > MOST_ROWS:
        raise Misfit(f"at most {MOST_ROWS:_} rows", f"{count:_}")
    return count
