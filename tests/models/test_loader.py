"""Files and text to plain data, and what is refused on the way."""

from __future__ import annotations

import io
import json
import re
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kvplan.models import Fault, InvalidProblem, Problem
from kvplan.models.reading.loader import MOST_BYTES, load_data, parse_text
from kvplan.models.reading.plain import DEEPEST, MOST_NODES

SMALL = {"ranks": [{"name": "r0", "quota": "1GiB"}]}


def fault_of(read: Callable[[], Any]) -> str:
    """The one line that reading ends with."""
    with pytest.raises(InvalidProblem) as caught:
        read()
    assert len(caught.value.faults) == 1
    line = str(caught.value)
    assert line.isprintable()
    assert len(line) < 400
    return line


def test_json_and_yaml_read_alike() -> None:
    data: Any = {"a": [1, -2, 0.97, 1e-3, True, False, None, "text", {}, []], "b": {"c": "1.5 GB"}}
    expected = {
        "a": [1, -2, Decimal("0.97"), Decimal("0.001"), True, False, None, "text", {}, []],
        "b": {"c": "1.5 GB"},
    }
    assert parse_text(json.dumps(data)) == expected
    assert parse_text(json.dumps(data, indent=2)) == expected
    assert parse_text(
        "a: [1, -2, 0.97, 1e-3, true, false, null, text, {}, []]\nb: {c: 1.5 GB}"
    ) == (expected)


@pytest.mark.parametrize("written", ["0.97", "0.970", "97e-2", "9.7E-1", "+.97"])
@pytest.mark.parametrize("form", ["resume_utilization: {}", '{{"resume_utilization": {}}}'])
def test_numbers_are_the_decimals_that_were_written(written: str, form: str) -> None:
    if form.startswith("{{") and written == "+.97":
        form = "{{resume_utilization: {}}}"  # no JSON number: a YAML flow mapping
    data = parse_text(form.format(written))
    problem = Problem.model_validate({**SMALL, **data})
    assert problem.resume_utilization == Fraction(97, 100)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("2026-07-01", "2026-07-01"),
        ("007", 7),
        ("+5", 5),
        ("1.", Decimal("1")),
        ("True", True),
        ("NULL", None),
        ("~", None),
        ("", None),
        ("nan", "nan"),
        ("'5'", "5"),
        ("!!str 5", "5"),
        ("-", [None]),
        ("<<", "<<"),
        ("9" * 100, "9" * 100),
        ("1e99999999999999999999", "1e99999999999999999999"),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: Any) -> None:
    read = parse_text(text)
    assert read == value
    assert type(read) is type(value)


def test_merges_and_aliases_are_plain_copies() -> None:
    data = parse_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\nc: {<<: [{y: 9}, *a]}\nd: [*a, *a]")
    assert data["b"] == {"x": 1, "y": 3}
    assert data["c"] == {"x": 1, "y": 9}
    assert data["d"] == [{"x": 1, "y": 2}] * 2
    assert data["d"][0] is not data["d"][1]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{below}'] * 10)}]\n"
    for below, name in zip("abcdefghi", "bcdefghij", strict=True)
)
CHAIN = "- &a0 [1]\n" + "".join(f"- &a{i + 1} [*a{i}]\n" for i in range(600))


@pytest.mark.parametrize(
    ("text", "expected", "got"),
    [
        (BOMB, f"at most {MOST_NODES} values", "with aliases expanded"),
        (CHAIN, f"nesting of at most {DEEPEST}", "603 with aliases expanded"),
        ("a: &a [*a]", "anchors without cycles", "a cycle at line 1"),
        ("a: &a {b: {c: *a}}", "anchors without cycles", "a cycle at line 1"),
        (
            "a: *nowhere",
            "JSON or YAML",
            "'*nowhere' at line 1, column 4: a value that",
        ),
        (
            "x: !!python/object/apply:os.system [ls]",
            "plain values",
            "python/object/apply:os.system",
        ),
        ("x: !!binary aGk=", "plain values", "the tag"),
        ("x: !custom 1", "plain values", "'!custom' at line 1"),
        ("x: !!int abc", "a value of the tag !!int says", "'abc' at line 1"),
        ("x: !!float abc", "a value of the tag !!float says", "'abc' at line 1"),
        ("x: !!bool abc", "a value of the tag !!bool says", "'abc' at line 1"),
        ("x: !!seq {}", "plain values", "the tag"),
        ("a: 1\nb: 2\na: 3", "a: expected each key once", "it twice in the mapping at line 1"),
        ('{"a": {"b": 1, "b": 2}}', "b: expected each key once", "it twice"),
        ("? [1]\n: 2", "text as a key", "a collection at line 1"),
        ("<<: 1", "<<: expected a mapping to merge", "something else at line 1"),
        ("a: 1\n---\nb: 2", "one YAML document", "another one at line 2, column 1"),
        (
            "a: [1, 2",
            "JSON or YAML",
            "an end at line 2, column 1: ',' or ']' is missing (begun at line 1)",
        ),
        (
            '{"a": 1',
            "JSON or YAML",
            "an end at line 2, column 1: ',' or '}' is missing (begun at line 1)",
        ),
        ("a: 1\n\tb: 2", "JSON or YAML", "at line 2, column 1"),
        ("a: '", "JSON or YAML", "an end at line 1, column 5: a quote or bracket is not closed"),
        ("a: \x07", "JSON or YAML", "control characters are not allowed at offset"),
        ("a: \x00", "JSON or YAML", "control characters are not allowed at offset"),
        ("a: \ud800", "text in UTF-8", "byte 0xed at offset 3"),
        ("[" * 100_000, "JSON or YAML", "nesting depth"),
        ("- " * 100_000, f"nesting of at most {DEEPEST}", "more at line 1"),
        ('{"a":' * 100 + "1" + "}" * 100, f"nesting of at most {DEEPEST}", "more"),
        ('{"a":' * 100_000, f"nesting of at most {DEEPEST}", "more at line 1"),
        ("[" + "1," * MOST_NODES + "]", f"at most {MOST_NODES} values", "more"),
        ('{"a": [' + "1," * MOST_NODES + "1]}", f"at most {MOST_NODES} values", "more"),
    ],
)
def test_hostile_text_is_refused_in_one_line(text: str, expected: str, got: str) -> None:
    line = fault_of(lambda: parse_text(text, name="file.yaml"))
    assert re.match("file.yaml: ((a|b|<<): )?expected ", line)
    assert expected in line
    assert got in line.partition(", got ")[2]


@pytest.mark.parametrize(
    ("content", "expected", "got"),
    [
        (b"", "a mapping", "null"),
        (b"# nothing\n", "a mapping", "null"),
        (b"- 1\n- 2\n", "a mapping", "[1, 2]"),
        (b"just text", "a mapping", "'just text'"),
        (b"\xff\xfea\x00:\x00", "text in UTF-8", "byte 0xff at offset 0"),
        (b"a: \xc3\x28", "text in UTF-8", "byte 0xc3 at offset 3"),
        (b"x" * (10 * 2**20), f"at most {MOST_BYTES} B", "more"),
        (b"\x00" * 1000, "JSON or YAML", "control characters are not allowed at offset 0"),
    ],
)
def test_junk_files_are_refused_in_one_line(
    tmp_path: Path, content: bytes, expected: str, got: str
) -> None:
    path = tmp_path / "junk.yaml"
    path.write_bytes(content)
    for read in (load_data, Problem.load):
        line = fault_of(lambda read=read: read(path))  # type: ignore[misc]
        assert line.endswith(f"junk.yaml: expected {expected}, got {got}")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    line = fault_of(lambda: load_data(tmp_path / "absent.yaml"))
    assert line.endswith("absent.yaml: expected a readable file, got no such file")
    assert "a readable file, got is a directory" in fault_of(lambda: load_data(tmp_path))
    assert "the path of a file" in fault_of(lambda: load_data("a\0b"))
    assert "a readable file" in fault_of(lambda: load_data("x" * 5000))
    assert "a readable file" in fault_of(lambda: load_data("new\nline\udcff"))


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "marked.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(SMALL).encode())
    assert load_data(str(path)) == SMALL


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"ranks: []")))
    assert load_data("-") == {"ranks": []}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[")))
    assert fault_of(lambda: load_data("-")).startswith("standard input: expected JSON or YAML")


def test_three_megabytes_of_yaml_take_seconds() -> None:
    comment = "x" * 60
    text = "ranks:\n" + "".join(
        f"- {{name: rank-{index}, quota: 124.57GiB}} # {comment}\n" for index in range(30_000)
    )
    assert 3_000_000 < len(text) < MOST_BYTES
    start = time.process_time()
    assert len(parse_text(text)["ranks"]) == 30_000
    assert time.process_time() - start < 10


def read_or_refused(read: Callable[[Any], Any], source: Any) -> tuple[Any, tuple[Fault, ...]]:
    """What was read, or the faults; any other exception is a test failure."""
    try:
        return read(source), ()
    except InvalidProblem as error:
        return None, error.faults


STRUCTURE = st.text(alphabet="{}[]:,-?&*!|>'\"%@#<~. \n\tabe01\\", max_size=60)


@settings(deadline=None, max_examples=300, derandomize=True)
@given(st.one_of(STRUCTURE, st.text(max_size=60)))
@example("!!int 1e5")
@example("{? a}")
@example("!<tag:yaml.org,2002:int> +")
@example("&a : *a")
def test_any_text_reads_or_is_refused(text: str) -> None:
    data, faults = read_or_refused(parse_text, text)
    assert [str(fault).isprintable() for fault in faults] in ([], [True])
    assert not (data is not None and faults)


@settings(deadline=None, max_examples=200, derandomize=True)
@given(st.binary(max_size=80))
def test_any_bytes_read_or_are_refused(raw: bytes) -> None:
    problem, faults = read_or_refused(Problem.model_validate_json, raw)
    assert (problem is None) == bool(faults)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(deadline=None, derandomize=True)
@given(st.dictionaries(st.text(max_size=6), PLAIN, max_size=5))
def test_json_comes_back_as_it_was(data: dict[str, Any]) -> None:
    assert parse_text(json.dumps(data)) == data
