"""Text to plain data: JSON or YAML, numbers kept as the decimals that were written.

Guards against input that is hostile or junk: size, nesting, aliases that expand without end.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from kvplan.models.errors import InvalidProblem
from kvplan.models.units import shown

MOST_BYTES = 4 * 2**20
MOST_NODES = 500_000
DEEPEST = 40
MOST_DIGITS = 60
_TAG = "tag:yaml.org,2002:"
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """Resolves scalars by the core schema of YAML 1.2: `no` is text, and so is 12:30."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


for _kind, _pattern, _first in (
    ("null", r"(?:null|~|)\Z", ["n", "~", ""]),
    ("bool", r"(?:true|false)\Z", ["t", "f"]),
    ("int", r"[-+]?[0-9]+\Z", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z",
     list("-+.0123456789")),
    ("float", r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z", list("-+.")),
    ("merge", r"<<\Z", ["<"]),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(_pattern), _first)


def load_data(source: str | Path) -> Any:
    """Read a file ("-" is standard input) into plain data.

    Raises
    ------
    InvalidProblem : it is not there, is no text, is too large, or is neither JSON nor YAML.
    """
    return parse_text(_read(source), name="standard input" if source == "-" else str(source))


def _read(source: str | Path) -> str:
    try:
        if source == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(source).open("rb") as file:
                raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidProblem.at(str(source), "a readable file", error.strerror or "an error") from None
    except ValueError as error:  # a path with a NUL byte
        raise InvalidProblem.at(shown(source), "the path of a file", str(error)) from None
    if len(raw) > MOST_BYTES:
        raise InvalidProblem.at(str(source), f"a file of at most {MOST_BYTES} B", "more")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidProblem.at(
            str(source), "text in UTF-8", f"byte 0x{raw[error.start]:02x} at offset {error.start}"
        ) from None


def parse_text(text: str, *, name: str = "") -> Any:
    """Read JSON (a text that begins with a brace and parses) or YAML into plain data."""
    if text.lstrip()[:1] == "{":
        try:
            return _parse_json(text)
        except (json.JSONDecodeError, RecursionError):
            pass  # a YAML flow mapping may begin alike
    try:
        return _parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InvalidProblem.at(name, "JSON or YAML", f"{error.problem or error.context}{at}") from None
    except yaml.YAMLError as error:
        raise InvalidProblem.at(name, "JSON or YAML", " ".join(str(error).split())[:120]) from None


def _parse_json(text: str) -> Any:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return _mapping(items, lambda key: "")

    def not_finite(constant: str) -> Any:
        return Decimal(constant.replace("Infinity", "inf"))

    return json.loads(
        text,
        parse_int=_whole,
        parse_float=_decimal,
        parse_constant=not_finite,
        object_pairs_hook=pairs,
    )


def _whole(text: str) -> int | str:
    return int(text) if len(text) <= MOST_DIGITS else text


def _decimal(text: str) -> Decimal | str:
    return Decimal(text) if len(text) <= MOST_DIGITS else text


def _mapping(items: list[tuple[Any, Any]], where: Callable[[Any], str]) -> dict[Any, Any]:
    mapping: dict[Any, Any] = {}
    for key, value in items:
        if key in mapping:
            raise InvalidProblem.at(str(key), "each key once", f"it twice{where(key)}")
        mapping[key] = value
    return mapping


def _parse_yaml(text: str) -> Any:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            line = event.start_mark.line + 1
            raise InvalidProblem.at("", f"nesting of at most {DEEPEST}", f"more at line {line}")
    root = yaml.compose(text, Loader=_Loader)
    if root is None:
        return None
    _check_expansion(root)
    return _construct(root)


def _check_expansion(root: yaml.Node) -> None:
    """Refuse aliases that contain themselves or expand to more than `MOST_NODES` nodes."""
    expanded: dict[int, int | None] = {}

    def count(node: yaml.Node) -> int:
        if id(node) in expanded:
            known = expanded[id(node)]
            if known is None:
                line = node.start_mark.line + 1
                raise InvalidProblem.at("", "anchors that end", f"a cycle at line {line}")
            return known
        expanded[id(node)] = None
        total = 1
        if isinstance(node, yaml.SequenceNode):
            total += sum(map(count, node.value))
        elif isinstance(node, yaml.MappingNode):
            total += sum(count(key) + count(value) for key, value in node.value)
        expanded[id(node)] = total
        return total

    total = count(root)
    if total > MOST_NODES:
        raise InvalidProblem.at("", f"at most {MOST_NODES} values", f"{total}, aliases expanded")


def _construct(node: yaml.Node) -> Any:
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_construct(child) for child in node.value]
    if isinstance(node, yaml.MappingNode) and kind == "map":
        return _construct_mapping(node)
    if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
        return _SCALARS[kind](node.value)
    line = node.start_mark.line + 1
    raise InvalidProblem.at("", "plain values", f"the tag {shown(node.tag)} at line {line}")


def _construct_mapping(node: yaml.MappingNode) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    items = []
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            raise InvalidProblem.at("", "text as a key", f"a collection at line {line}")
        if key_node.tag == _TAG + "merge":
            for source in _merge_sources(value_node):
                merged = {**source, **merged}
        else:
            items.append((_construct(key_node), _construct(value_node)))
    at = node.start_mark.line + 1
    return {**merged, **_mapping(items, lambda key: f" in the mapping at line {at}")}


def _merge_sources(node: yaml.Node) -> list[dict[Any, Any]]:
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    if not all(isinstance(source, yaml.MappingNode) for source in nodes):
        line = node.start_mark.line + 1
        raise InvalidProblem.at("<<", "a mapping to merge", f"something else at line {line}")
    return [_construct_mapping(source) for source in nodes]


def _special(text: str) -> Decimal | str:
    digits = text.lower().replace(".inf", "inf").replace(".nan", "nan")
    return _decimal(digits)


_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: text == "true",
    "int": _whole,
    "float": _special,
}
