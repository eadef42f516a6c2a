"""Logs of any size and content: nothing is misread, nothing fails, nothing is kept in memory."""

from __future__ import annotations

import io
import json
import os
import random
import re
import subprocess
import sys
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import BinaryIO

import pytest

from kvplan.solver.logs.reading.interval import GIB, Interval, least_of, printed
from kvplan.solver.logs.reading.lines import LONGEST, lines_with
from kvplan.solver.logs.reading.scan import scan
from support.cli import run_kvplan, spawn
from support.logs import (
    LLAMA_CPP,
    LMDEPLOY,
    OLLAMA,
    SGLANG_DRAFT,
    TRTLLM,
    VLLM_0,
    atom_lines,
    budget_line,
    write,
)

Capture = pytest.CaptureFixture[str]
LLAMA = [budget_line(line) for line in atom_lines("443b280", "Meta-Llama")]


def agreed(path: Path) -> int | None:
    (start,) = scan([str(path)])
    assert start.is_fine
    return start.agreed


def test_colours_carriage_returns_and_nul_bytes_are_looked_through(tmp_path: Path) -> None:
    path = tmp_path / "log"
    first, second = (line.encode() for line in LLAMA)
    first = first.replace(b"free=", b"\x1b[1;32mfree\x1b[0m=").replace(b"budget=", b"bud\0get=")
    path.write_bytes(b"  5%|#\r 10%|##\r" + first + b"\r\n\xff\xfe\x80" + second)
    assert agreed(path) == 107_703
    assert len(scan([str(path)])[0].shares) == 2


def test_a_line_without_end_is_read_as_far_as_it_matters(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(LLAMA[0].encode() + b" " + b"x" * 10 * LONGEST + LLAMA[1].encode())
    (start,) = scan([str(path)])
    assert len(start.shares) == 1  # what stands behind so much is not read


@pytest.mark.parametrize("end", range(5, len(LLAMA[0]), 7))
def test_half_a_line_is_no_figure_that_was_not_printed(end: int, tmp_path: Path) -> None:
    path = write(tmp_path, [*LLAMA, LLAMA[0][:end]])
    shares = scan([str(path)])[0].shares
    whole = shares[0].rank.figures
    for share in shares[2:]:
        cut = share.rank.figures
        assert cut.keys() <= whole.keys()
        for name in list(cut)[:-1]:  # the last one may have lost digits
            assert cut[name] == whole[name]


def test_junk_between_the_lines_changes_nothing(tmp_path: Path) -> None:
    draw = random.Random(1)
    path = tmp_path / "log"
    with path.open("wb") as file:
        for line in LLAMA:
            file.write(draw.randbytes(100_000).replace(b"\r", b"") + b"\n")
            file.write(line.encode() + b"\n")
    assert agreed(path) == 107_703


@pytest.mark.parametrize("seed", range(30))
def test_mangled_lines_never_raise(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    lines = bytearray("\n".join([*LLAMA, *VLLM_0, *SGLANG_DRAFT, *TRTLLM]).encode())
    for _ in range(draw.randint(1, 60)):
        at = draw.randrange(len(lines))
        what = draw.randrange(3)
        if what == 0:
            lines[at] = draw.randrange(256)
        elif what == 1:
            lines[at:at] = draw.choice([b"9" * 40, b"-", b".", b"=", b",", b"0", b"e9", b"\n"])
        else:
            del lines[at : at + draw.randint(1, 40)]
    path = tmp_path / "log"
    path.write_bytes(bytes(lines))
    assert scan([str(path)])


@pytest.mark.parametrize("digits", [1000, 1001, 6000])
@pytest.mark.parametrize(
    "lines", [LLAMA, VLLM_0, SGLANG_DRAFT, TRTLLM, LLAMA_CPP, OLLAMA, LMDEPLOY]
)
def test_a_figure_of_too_many_digits_is_passed_over(
    lines: list[str], digits: int, capsys: Capture, tmp_path: Path
) -> None:
    text = "\n".join(lines)
    for figure in re.finditer(r"\d+", text):
        longer = text[: figure.start()] + "9" * digits + text[figure.end() :]
        done = run_kvplan(capsys, "check-log", write(tmp_path, [longer]))
        assert done.code in (0, 1), (figure, done.err)


class Endless(io.RawIOBase):
    """So many bytes of one line and another, without holding them."""

    def __init__(self, line: bytes, times: int) -> None:
        self._line, self._times = line, times

    def readline(self, size: int | None = -1) -> bytes:
        self._times -= 1
        return self._line if self._times >= 0 else b""


def test_a_huge_log_is_streamed() -> None:
    line = b"a line of no interest " * 500 + b"\n"
    seen = []
    tracemalloc.start()
    file: BinaryIO = Endless(line, 20_000)  # type: ignore[assignment]
    found = list(lines_with(file, [b"Memory budget:"], seen.append))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found == []
    assert peak < 2**20
    assert len(seen) > 100
    assert sum(seen) == pytest.approx(20_000 * len(line), rel=0.01)


def test_endless_repetition_is_kept_to_a_bound(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes((LLAMA[0] + "\n").encode() * 6000)
    (start,) = scan([str(path)])
    assert len(start.shares) == 4096


def test_standard_input_and_several_engines_at_once(tmp_path: Path) -> None:
    text = "\n".join([*LLAMA, *VLLM_0, *SGLANG_DRAFT, *TRTLLM])
    done = spawn("check-log", "-", text=text)
    assert (done.code, done.err) == (0, "")
    for engine in ("ATOM", "vLLM", "SGLang", "TensorRT-LLM"):
        assert f"{engine} (standard input): bytes in GiB" in done.out


@pytest.mark.parametrize("content", [b"", b"hello\n", b"Memory budget: nothing\n", b"\xff" * 999])
def test_a_log_without_figures_is_bad_input(
    content: bytes, capsys: Capture, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    done = run_kvplan(capsys, "check-log", path)
    engines = "ATOM, vLLM, SGLang, TensorRT-LLM, llama.cpp, ollama or LMDeploy"
    expected = f"expected memory lines of {engines}, got none"
    assert done == (2, "", f"{path}: {expected}\n")


@pytest.mark.parametrize(
    ("name", "reason"), [("none.log", "no such file"), (".", "is a directory")]
)
def test_a_log_that_cannot_be_read_is_one_line(
    name: str, reason: str, capsys: Capture, tmp_path: Path
) -> None:
    done = run_kvplan(capsys, "check-log", tmp_path / name)
    assert (done.code, done.out) == (2, "")
    assert f"expected a readable file, got {reason}" in done.err
    assert done.err.count("\n") == 1


def test_json_is_one_document(capsys: Capture, tmp_path: Path) -> None:
    done = run_kvplan(capsys, "check-log", "--json", write(tmp_path, LLAMA))
    (start,) = json.loads(done.out)
    assert start["ranks"][0]["figures"]["blocks"] == 107_703
    assert start["ranks"][0]["figures"]["utilization"] == 0.3
    assert (done.code, done.err) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals")
@pytest.mark.parametrize(("megabytes", "shown"), [(11, True), (1, False)])
def test_a_bar_is_drawn_over_ten_megabytes(megabytes: int, shown: bool, tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    path = tmp_path / "log"
    path.write_bytes(
        (LLAMA[0] + "\n").encode() + (99 * b"x" + b"\n") * (megabytes * 10**4 * 11 // 10)
    )
    leader, follower = pty.openpty()
    code = f"from kvplan.solver.cli import run; raise SystemExit(run(['check-log', {str(path)!r}]))"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=follower,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "PYTHONUTF8": "1"},
    ) as process:
        os.close(follower)
        drawn = b""
        while True:
            try:
                part = os.read(leader, 65_536)
            except OSError:  # the other end was closed
                break
            drawn += part
            if not part:
                break
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
    os.close(leader)
    assert (b"MB" in drawn) is shown
    assert out.startswith(b"ATOM (")


def test_a_printed_figure_is_all_that_prints_so() -> None:
    half = Fraction(GIB, 200)
    assert printed("160.40", "GB") == Interval(
        Fraction("160.4") * GIB - half, Fraction("160.4") * GIB + half
    )
    assert printed("1,234") == Interval.exactly(1234)
    assert printed("23.3", "GiB", 2).high == Fraction("23.3") * GIB + half  # 23.30 to vLLM
    assert printed("23", "GiB").low == Fraction(45, 2) * GIB
    assert printed("40.69").low == Fraction("40.685")


def test_figures_are_compared_by_what_rounding_allows() -> None:
    wide, narrow = Interval(Fraction(1), Fraction(4)), Interval(Fraction(3), Fraction(5))
    assert wide.meets(narrow)
    assert wide.within(narrow) == Interval(Fraction(3), Fraction(4))
    assert not wide.meets(Interval.exactly(5))
    assert wide - narrow == Interval(Fraction(-4), Fraction(1))
    assert least_of(wide, narrow) == wide
    assert least_of(narrow, Interval.exactly(4)) == Interval(Fraction(3), Fraction(4))
