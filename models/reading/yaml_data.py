"""YAML to plain data: the core schema of YAML 1.2, no tags that build objects, bounded aliases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from kvplan.models.messages import Misfit, cut, shown
from kvplan.models.reading.plain import DEEPEST, MOST_NODES, parse_decimal, parse_whole, unique

_TAG = "tag:yaml.org,2002:"
_SEVERAL = re.compile(r"expected a single document in the stream, .* at (line \d+, column \d+)")
_BaseLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Loader(_BaseLoader):  # type: ignore[misc]
    """Resolves scalars by the core schema of YAML 1.2: `no` is text, and so is 12:30."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = self._nodes = 0

    def descend_resolver(self, current_node: yaml.Node | None, current_index: Any) -> None:
        """Count nodes and depth while composing, to stop early."""
        self._depth += 1
        self._nodes += 1
        if self._depth > DEEPEST:
            at = f" at line {_line(current_node)}" if current_node else ""
            raise Misfit(f"nesting of at most {DEEPEST}", f"more{at}")
        if self._nodes > MOST_NODES:
            raise Misfit(f"at most {MOST_NODES} values", "more")

    def ascend_resolver(self) -> None:
        self._depth -= 1


_FLOAT = (
    r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?\Z"
    r"|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
)
_PATTERNS = {
    "null": re.compile(r"(?:null|Null|NULL|~|)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "int": re.compile(r"[-+]?[0-9]+\Z"),
    "float": re.compile(_FLOAT),
    "merge": re.compile(r"<<\Z"),
}
_FIRST = {
    "null": "nN~",
    "bool": "tTfF",
    "int": "-+0123456789",
    "float": "-+.0123456789",
    "merge": "<",
}
for _kind, _pattern in _PATTERNS.items():
    _Loader.add_implicit_resolver(_TAG + _kind, _pattern, list(_FIRST[_kind]))
_Loader.add_implicit_resolver(_TAG + "null", _PATTERNS["null"], [""])


def parse_yaml(text: str) -> Any:
    """Read one YAML document.

    Raises
    ------
    Misfit : not YAML, nested too deep, aliases that expand without end, or not plain values.
    """
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.YAMLError as error:
        reason = _reason(error, text)
        several = _SEVERAL.fullmatch(reason)
        if several is not None:
            raise Misfit("one YAML document", f"another one at {several[1]}") from None
        raise Misfit("JSON or YAML", reason) from None
    if root is None:
        return None
    _Extent().check(root)
    return _construct(root)


_WAYS_OUT = {
    "mapping values are not allowed": "one 'key: value' a line; a value with ': ' needs quotes",
    "could not find expected ':'": "a key needs ': ' behind it, and keys of a mapping line up",
    "did not find expected '-' indicator": "items of a list line up, each with '- '",
    "did not find expected key": "keys of a mapping line up; check the indentation",
    "did not find expected ',' or ']'": "',' or ']' is missing",
    "did not find expected ',' or '}'": "',' or '}' is missing",
    "found character that cannot start any token": "a value that begins with it needs quotes",
    "found unexpected end of stream": "a quote or bracket is not closed",
    "found unknown escape character": "single quotes keep a backslash as it is",
    "found undefined alias": "a value that begins with * needs quotes",
}


def _reason(error: yaml.YAMLError, text: str) -> str:
    """Say on one line what YAML rejected, where, and what to write instead."""
    if isinstance(error, yaml.reader.ReaderError):
        return f"{error.reason} at offset {error.position}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return cut(" ".join(str(error).split()), 200)
    mark = error.problem_mark or error.context_mark
    at = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    line = "".join(text.splitlines()[mark.line : mark.line + 1]) if mark else ""
    if mark and "\t" in line[: mark.column + 1]:
        return f"a tab{at}; YAML indents with spaces"
    advice = next((way for said, way in _WAYS_OUT.items() if said in (error.problem or "")), None)
    if mark and advice is not None:
        came = shown(line[mark.column :].strip()) if line[mark.column :].strip() else "an end"
        since = error.context_mark
        begun = f" (begun at line {since.line + 1})" if since and since.line < mark.line else ""
        return f"{came}{at}: {advice}{begun}"
    return cut(", ".join(part for part in (error.context, error.problem) if part), 200) + at


class _Extent:
    """Nodes and depth of a document with its aliases expanded, each node visited once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int] | None] = {}

    def check(self, root: yaml.Node) -> None:
        """Refuse aliases that contain themselves, or expand too far."""
        nodes, depth = self._of(root)
        if nodes > MOST_NODES:
            raise Misfit(f"at most {MOST_NODES} values", f"{shown(nodes)} with aliases expanded")
        if depth > DEEPEST:
            raise Misfit(f"nesting of at most {DEEPEST}", f"{depth} with aliases expanded")

    def _of(self, node: yaml.Node) -> tuple[int, int]:
        if id(node) in self._known:
            known = self._known[id(node)]
            if known is None:
                raise Misfit("anchors without cycles", f"a cycle at line {_line(node)}")
            return known
        self._known[id(node)] = None
        nodes, depth = 1, 0
        for child in _children(node):
            below = self._of(child)
            nodes, depth = nodes + below[0], max(depth, below[1])
        self._known[id(node)] = nodes, depth + 1
        return nodes, depth + 1


def _children(node: yaml.Node) -> Iterable[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return (part for pair in node.value for part in pair)
    return node.value if isinstance(node, yaml.SequenceNode) else ()


def _line(marked: Any) -> int:
    return int(marked.start_mark.line) + 1


def _construct(node: yaml.Node) -> Any:
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.SequenceNode) and kind == "seq":
        return [_construct(child) for child in node.value]
    if isinstance(node, yaml.MappingNode) and kind == "map":
        return _mapping(node)
    if isinstance(node, yaml.ScalarNode) and kind in _SCALARS:
        if kind in _PATTERNS and not _PATTERNS[kind].match(node.value):  # an explicit tag
            raise Misfit(
                f"a value of the tag !!{kind} says", f"{shown(node.value)} at line {_line(node)}"
            )
        return _SCALARS[kind](node.value)
    raise Misfit("plain values", f"the tag {shown(node.tag)} at line {_line(node)}")


def _mapping(node: yaml.MappingNode) -> dict[Any, Any]:
    merged: dict[Any, Any] = {}
    items = []
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise Misfit("text as a key", f"a collection at line {_line(key)}")
        if key.tag == _TAG + "merge":
            for source in _sources(value):
                merged = {**_mapping(source), **merged}
        else:
            items.append((_construct(key), _construct(value)))
    return {**merged, **unique(items, f" in the mapping at line {_line(node)}")}


def _sources(node: yaml.Node) -> list[yaml.MappingNode]:
    """Mappings that << merges; for a key in several, the first wins."""
    nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
    sources = [source for source in nodes if isinstance(source, yaml.MappingNode)]
    if len(sources) < len(nodes):
        raise Misfit("a mapping to merge", f"something else at line {_line(node)}", "<<")
    return sources


_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "null": lambda text: None,
    "bool": lambda text: text.lower() == "true",
    "int": parse_whole,
    "float": lambda text: parse_decimal(text.lower().replace(".inf", "inf").replace(".nan", "nan")),
    "merge": str,
}
