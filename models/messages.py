"""How messages show values: short, on one line, as written in a file."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import TypeVar

LONGEST = 60  # characters of a shown value
_LONGEST_LIST = 200  # characters of a list of names
_MOST_NAMES = 1000  # names compared for similarity

Input = TypeVar("Input")
Output = TypeVar("Output")


class Misfit(ValueError):
    """A value that does not fit.

    Attributes
    ----------
    expected, got : the two halves of the message.
    at : the steps from the value to the part of it that is wrong; empty for the whole value.
    """

    def __init__(self, expected: str, got: str, *at: int | str) -> None:
        self.expected, self.got, self.at = expected, got, at
        super().__init__(expected, got, *at)

    def __str__(self) -> str:
        return f"expected {self.expected}, got {self.got}"


def within(step: int | str, parse: Callable[[Input], Output], value: Input) -> Output:
    """Parse a part of a value; a misfit names the step that leads to it."""
    try:
        return parse(value)
    except Misfit as error:
        raise Misfit(error.expected, error.got, step, *error.at) from None


class _Short(reprlib.Repr):
    """Bounded in depth and width, so that hostile input is cheap to show."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel, self.maxstring, self.maxother = 3, LONGEST, LONGEST

    def repr_int(self, x: int, level: int) -> str:
        digits = x.bit_length() * 30103 // 100_000
        return repr(x) if digits < LONGEST else f"a number of about {digits} digits"

    def repr_bool(self, x: bool, level: int) -> str:
        return "true" if x else "false"

    def repr_NoneType(self, x: None, level: int) -> str:  # noqa: N802
        return "null"

    def repr_Decimal(self, x: Decimal, level: int) -> str:  # noqa: N802
        return str(x)

    def repr_Fraction(self, x: Fraction, level: int) -> str:  # noqa: N802
        return f"{self.repr_int(x.numerator, level)}/{self.repr_int(x.denominator, level)}"


_SHORT = _Short()


def shown(value: object) -> str:
    """Render an input value: at most `LONGEST` characters, on one line."""
    return cut(one_line(_SHORT.repr(value)), LONGEST)


def one_line(text: str) -> str:
    """Escape what does not print, line breaks and lone surrogates included."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")
        for letter in text
    )


def cut(text: str, longest: int) -> str:
    """Shorten a text to `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def path_of(location: Iterable[int | str]) -> str:
    """Write a location as it is read in the file: ranks[0].quota."""
    path = ""
    for step in location:
        path = path_to(path, step)
    return path


def path_to(path: str, step: int | str) -> str:
    """Append an index or a key to a path; quote a key that would be misread."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if not _is_plain(step):
        return f"{path}[{shown(step)}]"
    return f"{path}.{step}" if path else step


def _is_plain(key: str) -> bool:
    return 0 < len(key) <= LONGEST and key.isprintable() and not set(key) & set(".[]")


def one_of(names: Iterable[str], name: str = "") -> str:
    """Suggest the nearest known name, or list all of them."""
    known = list(names)[:_MOST_NAMES]
    nearest = get_close_matches(name[:LONGEST], known, n=1)
    if nearest:
        return shown(nearest[0])
    if not known:
        return "a known name (there is none)"
    return f"one of {cut(one_line(', '.join(known)), _LONGEST_LIST)}"
