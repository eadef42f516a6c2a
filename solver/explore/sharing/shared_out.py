"""The parts of a sweep, one after the other or shared out to an executor, and kept on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from copy import deepcopy

from kvplan.models import InvalidProblem
from kvplan.solver.explore.decided import Figures
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.sharing.kept_parts import KeptParts
from kvplan.solver.explore.sharing.parts import BATCHED_ROWS, PartOfGrid, joined, parts_of
from kvplan.solver.explore.sweep import Progress, Told, solve_grid

_PARTS, _LEAST_ROWS = 64, 64
"""With an executor: so many parts, so that no worker idles long, but none too small to send."""


def solve_parts(
    grid: Grid,
    progress: Progress | None = None,
    executor: Executor | None = None,
    kept: KeptParts | None = None,
) -> Figures:
    """The figures of every row; parts that are kept are not solved again.

    A part whose worker is lost is solved here instead.
    """
    rows = None if executor is None else _rows_to_send(len(grid))
    parts = parts_of(grid, rows)
    if len(parts) == 1 and executor is None:
        return solve_grid(grid, progress)
    told = Told(progress, len(grid))
    found = _read(parts, kept, told)
    missing = [part for part in parts if part.start not in found]
    for part, figures in _solved(missing, executor):
        found[part.start] = figures
        if kept is not None:
            kept.write(part, figures)
        told.add(len(part.grid))
    return joined([found[part.start] for part in parts])


def _rows_to_send(rows: int) -> int:
    return max(_LEAST_ROWS, min(BATCHED_ROWS, -(-rows // _PARTS)))


def _read(parts: Sequence[PartOfGrid], kept: KeptParts | None, told: Told) -> dict[int, Figures]:
    found: dict[int, Figures] = {}
    for part in parts if kept is not None else ():
        figures = kept.read(part) if kept is not None else None
        if figures is not None:
            found[part.start] = figures
            told.add(len(part.grid))
    return found


def _solved(
    parts: Sequence[PartOfGrid], executor: Executor | None
) -> Iterator[tuple[PartOfGrid, Figures]]:
    if executor is None:
        yield from ((part, solve_grid(part.grid)) for part in parts)
        return
    sent: dict[Future[Figures], PartOfGrid] = {}
    lost: list[PartOfGrid] = []
    for part in parts:
        try:
            sent[executor.submit(solve_part, deepcopy(part))] = part  # solving writes into its data
        except BrokenExecutor:
            lost.append(part)
    failed: dict[int, InvalidProblem] = {}
    try:
        for future in as_completed(sent):
            part = sent[future]
            try:
                yield part, future.result()
            except BrokenExecutor:
                lost.append(part)
            except InvalidProblem as error:
                failed[part.start] = error
    finally:
        for future in sent:
            future.cancel()
    for part in lost:
        yield part, solve_grid(part.grid)
    if failed:  # of several faults the first row's, whichever worker was quickest
        raise failed[min(failed)]


def solve_part(part: PartOfGrid) -> Figures:
    """Solve one part; what a worker does."""
    return solve_grid(part.grid)
