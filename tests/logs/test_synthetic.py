"""Of logs of every wording and prefix: one altered figure is noticed, an unaltered log never."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kvplan.solver.logs.reading.scan import scan
from support.synthetic_logs import (
    COLLECTORS,
    altered,
    bare,
    every_log,
    figures_in,
    interleaved,
    launched_logs,
)
from support.synthetic_memory import memory_logs


def is_fine(folder: Path, lines: Sequence[str]) -> bool:
    path = folder / "server.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return all(start.is_fine for start in scan([str(path)]))


@pytest.mark.parametrize("collector", COLLECTORS)
def test_an_unaltered_log_is_one_fine_start(collector: str, tmp_path: Path) -> None:
    draw = random.Random(collector)
    for name, processes in (*every_log(draw), *launched_logs(draw), *memory_logs(draw)):
        log = [COLLECTORS[collector](line) for line in bare(interleaved(processes, draw))]
        path = tmp_path / "server.log"
        path.write_text("\n".join(log) + "\n", encoding="utf-8")
        starts = scan([str(path)])
        wrong = [one for start in starts for one in start.wrong]
        assert len(starts) == 1, name
        assert (wrong, all(start.is_fine for start in starts)) == ([], True), name


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("factor", [1.3, 0.77])
def test_one_altered_figure_is_noticed(seed: int, factor: float, tmp_path: Path) -> None:
    draw = random.Random(f"{seed} {factor}")
    collectors = list(COLLECTORS.values())
    for name, processes in (*every_log(draw), *memory_logs(draw)):
        collect = draw.choice(collectors)
        log = [collect(line) for line in interleaved(processes, draw)]
        assert is_fine(tmp_path, bare(log)), name
        places = figures_in(log)
        for place in draw.sample(places, min(len(places), 12)):
            changed = altered(log, place, factor)
            assert not is_fine(tmp_path, changed), (name, log[place[0]], changed[place[0]])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("factor", [2, 0.5, 1.3])
def test_where_the_launch_is_named_a_doubled_figure_is_noticed(
    seed: int, factor: float, tmp_path: Path
) -> None:
    """The length, the tokens of a block, kinds of layers, cells and widths are in the log."""
    draw = random.Random(f"{seed} {factor} launched")
    collectors = list(COLLECTORS.values())
    for name, processes in launched_logs(draw):
        collect = draw.choice(collectors)
        log = [collect(line) for line in interleaved(processes, draw)]
        assert is_fine(tmp_path, bare(log)), name
        for place in figures_in(log):
            if draw.random() < 0.4:
                changed = altered(log, place, factor)
                assert not is_fine(tmp_path, changed), (name, log[place[0]], changed[place[0]])


@pytest.mark.parametrize("width", [80, 120, 160])
def test_a_terminal_that_cuts_lines_changes_nothing(width: int, tmp_path: Path) -> None:
    draw = random.Random(width)
    for name, processes in (*every_log(draw), *launched_logs(draw), *memory_logs(draw)):
        log = bare(interleaved(processes, draw))
        whole, cut = tmp_path / "whole.log", tmp_path / "cut.log"
        whole.write_text("\n".join(log) + "\n", encoding="utf-8")
        parts = (line[at : at + width] for line in log for at in range(0, len(line), width))
        cut.write_text("\n".join(parts) + "\n", encoding="utf-8")
        starts = [scan([str(path)]) for path in (whole, cut)]
        told = [[(len(s.shares), s.counts, s.is_fine) for s in found] for found in starts]
        assert told[0] == told[1], name
