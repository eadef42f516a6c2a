"""Bad problem files: one line per fault with path, expected and got; exit 2; nothing printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]

RANKS = "ranks: [{name: r0, quota: 1GiB}]\n"
POOL = RANKS + "pools: [{name: kv, bytes: 1KiB}]\n"
BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)

BAD = {
    "unknown key": (RANKS + "pool: []\n", "pool: expected 'pools', got"),
    "unknown key within": (
        "ranks: [{name: r0, quotas: 1GiB, quota: 1}]",
        "ranks[0].quotas: expected 'quota', got",
    ),
    "unknown pool": (POOL + "caches: [{name: a, kind: full, pool: kw}]", "caches[0].pool:"),
    "unknown kind": (POOL + "caches: [{name: a, kind: fool}]", "caches[0].kind:"),
    "negative bytes": (RANKS + "consumers: [{name: a, bytes: -1}]", "consumers[0].bytes:"),
    "no bytes anywhere": (RANKS + "pools: [{name: kv, bytes: 0}]", "pools[0].bytes:"),
    "no quota": ("ranks: [{name: r0}]", "ranks[0]:"),
    "two quotas": ("ranks: [{name: r0, quota: 1, memory: {free: 1}}]", "ranks[0]:"),
    "history above capacity": (
        POOL + "batches: [{name: b, requests: [{capacity: 5, history: 6}]}]",
        "batches[0].requests[0]",
    ),
    "min above requested": (RANKS + "prefill: {requested: 5, min: 6}", "prefill"),
    "no such unit": ("ranks: [{name: r0, quota: 10 XB}]", "ranks[0].quota:"),
    "nan": ("ranks: [{name: r0, quota: .nan}]", "ranks[0].quota:"),
    "inf": ("ranks: [{name: r0, quota: .inf}]", "ranks[0].quota:"),
    "infinite json": ('{"ranks": [{"name": "r0", "quota": Infinity}]}', "ranks[0].quota:"),
    "2^63": ("ranks: [{name: r0, quota: 9223372036854775808}]", "ranks[0].quota:"),
    "far beyond 2^63": (f"ranks: [{{name: r0, quota: 1{'0' * 5000}}}]", "ranks[0].quota:"),
    "two alike names": (
        "ranks: [{name: r0, quota: 1}, {name: r0, quota: 1}]",
        "ranks[1].name: expected",
    ),
    "unknown goal": (POOL + "goals: ['blocks:kw']", "goals[0]"),
    "goal twice": (POOL + "goals: ['blocks:kv', 'blocks:kv']", "goals[1]:"),
    "curve not sorted": (
        RANKS
        + "prefill: {requested: 8}\n"
        + "goals: [{maximize: {prefill: 1}, curves: {prefill: [[2, 1], [1, 1]]}}]",
        "goals[0].curves",
    ),
    "no ranks": ("ranks: []", "ranks: expected at least one rank, got"),
    "nothing": ("", "{file}: expected a mapping, got"),
    "a list": ("- 1\n- 2\n", "{file}: expected a mapping, got"),
    "a word": ("hello", "{file}: expected a mapping, got"),
    "no YAML": ("ranks: [", "{file}: expected JSON or YAML, got"),
    "a tag": ("ranks: !!python/object:os.system []", "{file}: expected plain values, got"),
    "a key twice": (RANKS + RANKS, "{file}: ranks: expected each key once, got"),
    "anchor bomb": (BOMB + "ranks: *i\n", "{file}: expected at most"),
    "anchor cycle": ("ranks: &a [*a]\n", "{file}: expected anchors without cycles, got"),
    "deep nesting": ("[" * 100_000, "{file}: expected JSON or YAML, got"),
    "10 MB of junk": ("j" * 10_000_000, "{file}: expected at most"),
    "version 2": ("version: 2\n" + RANKS, "version: expected 1, got 2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name: str, tmp_path: Path, capsys: Capture) -> None:
    text, start = BAD[name]
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    done = run_kvplan(capsys, "solve", path)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith(start.format(file=path)), line
    assert "expected " in line
    assert ", got " in line
    assert len(line) < 400


def test_every_fault_has_its_line(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text("ranks: [{name: a, quota: 1XB}, {name: '', quota: 1}]\npools: 3\n")
    done = run_kvplan(capsys, "solve", path)
    assert done.code == 2
    starts = [line.split(":")[0] for line in done.err.splitlines()]
    assert starts == ["ranks[0].quota", "ranks[1].name", "pools"]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff\xfe\x00", "{file}: expected text in UTF-8, got byte 0xff at offset 0"),
        (b"ranks: \x00", "{file}: expected"),
    ],
)
def test_bytes_that_are_no_text(content: bytes, line: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    done = run_kvplan(capsys, "solve", path)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(line.format(file=path))
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("name", ["missing.yaml", "", ".", "\0", "x" * 300])
def test_a_file_that_cannot_be_read(name: str, tmp_path: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", tmp_path / name if name == "." else name)
    assert (done.code, done.out) == (2, "")
    assert "expected " in done.err
    assert done.err.count("\n") == 1
    assert done.err.isprintable() or done.err[:-1].isprintable()


def test_bad_input_as_json_leaves_standard_output_empty(tmp_path: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "solve", tmp_path / "missing.yaml", "--json", "--advise")
    assert (done.code, done.out) == (2, "")
