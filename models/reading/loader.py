"""Files and text to plain data: JSON or YAML, numbers kept as the decimals that were written.

Guards against hostile or junk input: size, nesting, aliases that expand without end.
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import Misfit, path_of, shown
from kvplan.models.reading.mistaken import binary_kind, unreadable
from kvplan.models.reading.plain import DEEPEST, MOST_NODES, parse_decimal, parse_whole, unique

MOST_BYTES = 4 * 2**20


def load_data(source: str | Path) -> dict[Any, Any]:
    """Read a file ("-" is standard input) that holds one mapping.

    Raises
    ------
    InvalidProblem : it is missing, not text, too large, or neither JSON nor YAML.
    """
    if str(source) in ("", "."):
        raise InvalidProblem.at(
            "file", "the path of a file, or - for standard input", shown(source)
        )
    name = "standard input" if source == "-" else str(source)
    data = parse_text(_read(source, name), name=name)
    if not isinstance(data, dict):
        raise InvalidProblem.at(name, "a mapping", shown(data))
    return data


def _read(source: str | Path, name: str) -> str:
    try:
        if source == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidProblem.at(name, "a readable file", unreadable(source, error)) from None
    except ValueError as error:  # a path with a NUL byte
        raise InvalidProblem.at(shown(name), "the path of a file", str(error)) from None
    return _decode(raw, name)


def _decode(raw: bytes | bytearray, name: str) -> str:
    if len(raw) > MOST_BYTES:
        raise InvalidProblem.at(name, f"at most {MOST_BYTES} B", "more")
    kind = binary_kind(raw)
    if kind is not None:
        raise InvalidProblem.at(name, "text in UTF-8 (JSON or YAML)", kind)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        got = f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        raise InvalidProblem.at(name, "text in UTF-8", got) from None


def parse_text(text: str | bytes | bytearray, *, name: str = "") -> Any:
    """Read JSON (a text that begins with a brace and parses) or YAML into plain data.

    Parameters
    ----------
    name : where the text comes from, for messages.

    Raises
    ------
    InvalidProblem : with the line and column where reading stopped.
    """
    text = _decode(text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text, name)
    try:
        return _parse(text)
    except Misfit as error:
        place = ": ".join(filter(None, (name, path_of(error.at))))
        raise InvalidProblem.at(place, error.expected, error.got) from None


def _parse(text: str) -> Any:
    if text.lstrip()[:1] == "{":
        try:
            return _parse_json(text)
        except (json.JSONDecodeError, RecursionError):
            pass  # a YAML flow mapping may begin the same way
    from kvplan.models.reading.yaml_data import parse_yaml  # a caller with plain data needs no YAML

    return parse_yaml(text)


def _parse_json(text: str) -> Any:
    data = json.loads(
        text,
        parse_int=parse_whole,
        parse_float=parse_decimal,
        parse_constant=lambda constant: Decimal(constant.replace("Infinity", "inf")),
        object_pairs_hook=unique,
    )
    _check_extent(data)
    return data


def _check_extent(data: Any) -> None:
    """Hold JSON to the bounds of YAML; one level of containers after the other."""
    level, nodes = [data], 1
    for _ in range(DEEPEST):
        nodes += sum(len(node) * (2 if isinstance(node, dict) else 1) for node in level)
        if nodes > MOST_NODES:
            raise Misfit(f"at most {MOST_NODES} values", "more")
        parts = (node.values() if isinstance(node, dict) else node for node in level)
        level = [part for part in chain.from_iterable(parts) if isinstance(part, dict | list)]
        if not level:
            return
    raise Misfit(f"nesting of at most {DEEPEST}", "more")
