"""Integer linear forms over numbered variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


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


def negated(form: Linear) -> Linear:
    """-form."""
    return total([(-1, form)])
