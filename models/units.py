"""Bytes, whole numbers and exact fractions, as people write them.

Decimal and binary units are kept apart: GB is 10^9, GiB is 2^30. No binary float takes part: a
Python float stands for the decimal that prints it (0.97 is 97/100).
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from math import isfinite
from numbers import Integral
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, PlainValidator

from kvplan.models.json_schema import EXACT, PORTION, RATE, RATIO, bytes_input, whole
from kvplan.models.json_schema import LIMIT as LIMIT
from kvplan.models.messages import LONGEST, Misfit, shown

_DECIMAL = {"kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "PB": 10**15}
_BINARY = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "PiB": 2**50}
UNITS = {"": 1, "B": 1, **_DECIMAL, **_BINARY}
_QUANTITY = re.compile(
    r"\s*([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)\s*([A-Za-z]*)\s*"
)
_RATIO = re.compile(r"\s*([+-]?[0-9]+)\s*/\s*([0-9]+)\s*")
_COMPUTED = re.compile(r"-?[0-9]+(?:/[1-9][0-9]*)?")
_LONGEST_COMPUTED = 1000  # characters
_DIGITS = 40  # decimal exponent beyond which a number is out of range whatever its digits
_BYTES = 'bytes such as 17179869184 or "16GiB"'
_WHOLE_BYTES = "whole bytes, or a unit"
_NUMBER = 'a number such as 0.97 or "9/19"'


def _decimal(value: object, expected: str) -> Decimal:
    """Read an int, float, Decimal or decimal text as the decimal that was written."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        if abs(int(value)) >= 10**_DIGITS:
            raise Misfit(f"{expected} below 2^63", shown(value))
        return Decimal(int(value))
    if isinstance(value, bool) or not isinstance(value, float | Decimal | str):
        raise Misfit(expected, shown(value))
    text = float.__repr__(value) if isinstance(value, float) else str(value)
    try:
        number = Decimal(text) if len(text) <= LONGEST else Decimal("nan")
    except InvalidOperation:
        number = Decimal("nan")
    if not number.is_finite():
        raise Misfit(expected, shown(value))
    if abs(number.adjusted()) > _DIGITS:
        raise Misfit(f"{expected} of a reasonable size", shown(value))
    return number


def bare_bytes(text: str, read: int) -> str | None:
    """What came, where a positive number without a unit is below 1 MiB: GiB were meant."""
    if not 0 < read < _BINARY["MiB"] or any(letter.isalpha() for letter in text):
        return None
    number = text.strip()
    return f"{number}, which is {read} bytes without a unit"


def parse_integer(value: object, *, what: str = "a whole number", least: int = 0) -> int:
    """Read a whole number in [least, 2^63)."""
    if type(value) is int and least <= value < LIMIT:
        return value
    expected = f"{what} of at least {least}"
    if isinstance(value, str):
        raise Misfit(expected, shown(value))
    number = _decimal(value, expected)
    if number != number.to_integral_value() or number < least:
        raise Misfit(expected, shown(value))
    if number >= LIMIT:
        raise Misfit(f"{what} below 2^63", shown(value))
    return int(number)


def parse_quantity(text: str) -> Fraction:
    """Read text with or without a unit as exact bytes: "1.5 GB", "0.3KiB", "17179869184"."""
    if len(text) > LONGEST:
        raise Misfit(f"{_BYTES}, in at most {LONGEST} characters", shown(text))
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in UNITS:
        near = "" if match is None else _nearest_units(match[1], match[2])
        raise Misfit(near or f"{_BYTES} (units {', '.join(UNITS)[2:]})", shown(text))
    return Fraction(_decimal(match[1], _BYTES)) * UNITS[match[2]]


def _nearest_units(number: str, unit: str) -> str:
    """The legal forms that a figure with another spelling of its unit can stand for."""
    binary = unit[1:2].lower() == "i"
    legal = [
        name
        for name in ("kB" if unit[:1] in "kK" else f"{unit[:1].upper()}B", f"{unit[:1].upper()}iB")
        if name in UNITS and (name in _BINARY or not binary)
    ]
    if unit[1:].lower() not in ("", "b", "i", "ib", "byte", "bytes") or not legal:
        return ""
    if unit[1:].lower() == "b":
        legal = legal[:1]  # GB was meant, in other letters
    powers = {name: f"10^{3 * 'kMGTP'.index(name[0]) + 3}" for name in legal if name in _DECIMAL}
    powers |= {name: f"2^{10 * 'KMGTP'.index(name[0]) + 10}" for name in legal if name in _BINARY}
    forms = " or ".join(f'"{number}{name}" ({power} B)' for name, power in powers.items())
    return f"bytes as {forms}"


def parse_bytes(value: object, *, round_up: bool) -> int:
    """Read bytes: a whole number, or text with a unit.

    Parameters
    ----------
    value : 17179869184, "16GiB", "1.5 GB".
    round_up : round a fraction of a byte up (for a demand), not down (for a supply).

    Raises
    ------
    ValueError : not a byte figure, negative, or 2^63 and beyond.
    """
    if not isinstance(value, str):
        if isinstance(value, float | Decimal) and isfinite(value) and value != int(value):
            raise Misfit(_WHOLE_BYTES, shown(value))
        return parse_integer(value, what="bytes")
    exact = parse_quantity(value)
    if exact.denominator != 1 and not value.rstrip()[-1].isalpha():
        raise Misfit(_WHOLE_BYTES, shown(value))
    whole = -(-exact.numerator // exact.denominator) if round_up else exact // 1
    if exact < 0 or whole >= LIMIT:
        raise Misfit("bytes from 0 to below 2^63", shown(value))
    return int(whole)


def parse_fraction(value: object) -> Fraction:
    """Read an exact number: 0.97 (97/100, as written), 3, "9/19"."""
    exact = value if isinstance(value, Fraction) else _fraction(value)
    if max(abs(exact.numerator), exact.denominator) >= LIMIT:
        raise Misfit(f"{_NUMBER}, as a fraction of whole numbers below 2^63", shown(value))
    return exact


def parse_computed(value: object) -> Fraction:
    """Read an exact number that was computed: a sum of products has no bound of its own."""
    if isinstance(value, str) and len(value) <= _LONGEST_COMPUTED and _COMPUTED.fullmatch(value):
        return Fraction(value)
    return value if isinstance(value, Fraction) else _fraction(value)


def _fraction(value: object) -> Fraction:
    if not isinstance(value, str):
        return Fraction(_decimal(value, _NUMBER))
    ratio = _RATIO.fullmatch(value) if len(value) <= LONGEST else None
    if ratio is not None:
        if int(ratio[2]) == 0:
            raise Misfit(f"{_NUMBER} with a denominator above 0", shown(value))
        return Fraction(int(ratio[1]), int(ratio[2]))
    quantity = _QUANTITY.fullmatch(value) if len(value) <= LONGEST else None
    if quantity is None or quantity[2]:
        raise Misfit(_NUMBER, shown(value))
    return Fraction(_decimal(quantity[1], _NUMBER))


def parse_portion(value: object) -> Fraction:
    """Read an exact share from 0 to 1."""
    exact = parse_fraction(value)
    if not 0 <= exact <= 1:
        raise Misfit("a share from 0 to 1", shown(value))
    return exact


def parse_ratio(value: object) -> Fraction:
    """Read an exact share above 0, to 1."""
    exact = parse_fraction(value)
    if not 0 < exact <= 1:
        raise Misfit("a share above 0 and at most 1", shown(value))
    return exact


def parse_rate(value: object) -> Fraction:
    """Read exact bytes a token: a number of at least 0, or text with a unit ("0.3KiB")."""
    with_unit = isinstance(value, str) and value.rstrip()[-1:].isalpha()
    exact = parse_fraction(parse_quantity(value) if with_unit else value)  # type: ignore[arg-type]
    if exact < 0:
        raise Misfit("bytes of at least 0", shown(value))
    return exact


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


def _integer(least: int) -> Any:
    def read(value: object) -> int:
        if type(value) is int and least <= value < LIMIT:
            return value
        return parse_integer(value, least=least)

    return BeforeValidator(read, json_schema_input_type=whole(least))


def _bytes(*, round_up: bool, least: int = 0) -> Any:
    def read(value: object) -> int:
        count = parse_bytes(value, round_up=round_up)
        if count < least:
            raise Misfit(f"bytes of at least {least}", shown(value))
        return count

    return BeforeValidator(read, json_schema_input_type=bytes_input(least))


Supply = Annotated[int, _bytes(round_up=False)]
"""Bytes available; a unit string rounds down."""
Demand = Annotated[int, _bytes(round_up=True)]
"""Bytes in demand; a unit string rounds up."""
Granule = Annotated[int, _bytes(round_up=True, least=1)]
"""Bytes that an allocation is rounded up to a multiple of."""
Whole = Annotated[int, _integer(0)]
Positive = Annotated[int, _integer(1)]

_AS_TEXT = PlainSerializer(str, return_type=str)
Exact = Annotated[Fraction, PlainValidator(parse_fraction, json_schema_input_type=EXACT), _AS_TEXT]
"""An exact number; read as the decimal or the fraction that was written."""
Computed = Annotated[
    Fraction, PlainValidator(parse_computed, json_schema_input_type=int | float | str), _AS_TEXT
]
"""An exact number in an answer, however large."""
Portion = Annotated[
    Fraction, PlainValidator(parse_portion, json_schema_input_type=PORTION), _AS_TEXT
]
"""An exact share from 0 to 1."""
Ratio = Annotated[Fraction, PlainValidator(parse_ratio, json_schema_input_type=RATIO), _AS_TEXT]
"""An exact share above 0, to 1."""
Rate = Annotated[
    Fraction,
    PlainValidator(parse_rate, json_schema_input_type=RATE),
    _AS_TEXT,
]
"""Exact bytes a token; a unit may leave a fraction of a byte."""
