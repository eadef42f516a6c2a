"""Bytes, whole numbers and exact fractions, as people write them.

Decimal and binary units are kept apart: GB is 10^9, GiB is 2^30. No binary float takes part: a
Python float stands for the decimal that prints it (0.97 is 97/100).
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator

LIMIT = 2**63
_DECIMAL = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
UNITS = {"": 1, "B": 1, **_DECIMAL, **_BINARY}
_QUANTITY = re.compile(r"\s*([+-]?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*")
_RATIO = re.compile(r"\s*([+-]?[0-9]+)\s*/\s*([0-9]+)\s*")
_LONGEST = 60  # characters of a number; longer ones are junk and slow to convert
_DIGITS = 40  # decimal exponent beyond which a number is out of range whatever its digits


def shown(value: object) -> str:
    """Render an input value for a message: short, on one line."""
    if isinstance(value, Decimal):
        return str(value)
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _decimal(value: object, expected: str) -> Decimal:
    """Read an int, float, Decimal or decimal text as the decimal that was written."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise ValueError(f"expected {expected}, got {shown(value)}")
    if isinstance(value, int):
        if abs(value) >= 10**_DIGITS:
            raise ValueError(f"expected {expected} below 2^63, got {shown(str(value)[:_LONGEST])}")
        return Decimal(value)
    text = repr(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text) if len(text) <= _LONGEST else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise ValueError(f"expected {expected}, got {shown(value)}")
    if abs(number.adjusted()) > _DIGITS:
        raise ValueError(f"expected {expected} of a sane size, got {shown(value)}")
    return number


def parse_integer(value: object, *, what: str = "a whole number", least: int = 0) -> int:
    """Read a whole number in [least, 2^63)."""
    expected = f"{what} of at least {least}"
    if isinstance(value, str):
        raise ValueError(f"expected {expected}, got {shown(value)}")
    number = _decimal(value, expected)
    if number != number.to_integral_value() or number < least:
        raise ValueError(f"expected {expected}, got {shown(value)}")
    if number >= LIMIT:
        raise ValueError(f"expected {what} below 2^63, got {shown(value)}")
    return int(number)


def parse_bytes(value: object, *, round_up: bool) -> int:
    """Read bytes: a whole number, or text with a unit.

    Parameters
    ----------
    value : 17179869184, "16GiB", "1.5 GB".
    round_up : what a unit leaves of a byte is rounded up for a demand, down for a supply.

    Raises
    ------
    ValueError : not a byte figure, negative, or 2^63 and beyond.
    """
    expected = 'bytes such as 17179869184 or "16GiB"'
    if not isinstance(value, str):
        return parse_integer(value, what="bytes")
    match = _QUANTITY.fullmatch(value) if len(value) <= _LONGEST else None
    if match is None or match[2] not in UNITS:
        raise ValueError(f"expected {expected} (units {', '.join(UNITS)[2:]}), got {shown(value)}")
    if match[2] == "":
        return parse_integer(_decimal(match[1], expected), what="bytes")
    exact = Fraction(_decimal(match[1], expected)) * UNITS[match[2]]
    whole = -(-exact.numerator // exact.denominator) if round_up else exact // 1
    if not 0 <= exact or whole >= LIMIT:
        raise ValueError(f"expected bytes from 0 to below 2^63, got {shown(value)}")
    return int(whole)


def parse_fraction(value: object) -> Fraction:
    """Read an exact number: 0.97 (97/100, as written), 3, "9/19"."""
    expected = 'a number such as 0.97 or "9/19"'
    if isinstance(value, Fraction):
        return value
    if isinstance(value, str):
        ratio = _RATIO.fullmatch(value) if len(value) <= _LONGEST else None
        if ratio is not None:
            if int(ratio[2]) == 0:
                raise ValueError(f"expected {expected} with a denominator above 0, got {value!r}")
            return Fraction(int(ratio[1]), int(ratio[2]))
        quantity = _QUANTITY.fullmatch(value) if len(value) <= _LONGEST else None
        if quantity is None or quantity[2]:
            raise ValueError(f"expected {expected}, got {shown(value)}")
        value = quantity[1]
    return Fraction(_decimal(value, expected))


def human_bytes(count: int) -> str:
    """Render bytes with two decimals of the largest fitting binary unit: "1.31 GiB"."""
    for unit, scale in reversed(_BINARY.items()):
        if abs(count) >= scale:
            return _fixed(count, scale, unit)
    return f"{count} B"


def _fixed(count: int, scale: int, unit: str) -> str:
    hundredths = (2 * 100 * abs(count) + scale) // (2 * scale)
    sign = "-" if count < 0 else ""
    return f"{sign}{hundredths // 100}.{hundredths % 100:02d} {unit}"


def exact_bytes(count: int) -> str:
    """Render bytes as integer and human form: "17_179_869_184 B (16.00 GiB)"."""
    return f"{count:_} B ({human_bytes(count)})" if abs(count) >= 1024 else f"{count} B"


def _integer(least: int, what: str) -> Any:
    return BeforeValidator(
        lambda value: parse_integer(value, what=what, least=least), json_schema_input_type=int
    )


def _bytes(round_up: bool) -> Any:
    return BeforeValidator(
        lambda value: parse_bytes(value, round_up=round_up), json_schema_input_type=int | str
    )


Supply = Annotated[int, _bytes(round_up=False)]
"""Bytes that are there to be used; a unit string rounds down."""
Demand = Annotated[int, _bytes(round_up=True)]
"""Bytes that something takes; a unit string rounds up."""
Whole = Annotated[int, _integer(0, "a whole number")]
Positive = Annotated[int, _integer(1, "a whole number")]
Signed = Annotated[int, _integer(-LIMIT + 1, "a whole number")]
Exact = Annotated[
    Fraction,
    PlainValidator(parse_fraction, json_schema_input_type=int | float | str),
    PlainSerializer(str, return_type=str),
]
"""An exact number; read as the decimal or the fraction that was written."""
