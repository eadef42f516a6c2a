"""Finished parts of a sweep on disk, so that a killed sweep goes on where it was."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from glob import escape
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from kvplan.solver.explore.axes import Figure, Steps
from kvplan.solver.explore.decided import Figures, Numbers, Words, empty_figures
from kvplan.solver.explore.grid import Grid
from kvplan.solver.explore.sharing.parts import PartOfGrid

_ENDING = ".parts"


def are_kept(target: Path) -> bool:
    """Whether a stopped sweep left finished parts beside its target."""
    whole = target.resolve()
    return any(whole.parent.glob(f".{escape(whole.name)}.*{_ENDING}"))


class KeptParts:
    """A hidden folder beside the target; only the same sweep of the same version reads it.

    Parameters
    ----------
    target : the file that the whole table goes to.
    grid : the whole sweep.
    """

    def __init__(self, target: Path, grid: Grid) -> None:
        self._columns = empty_figures(grid.problem_at(0), 0)  # leaves the first row in its data
        whole = target.resolve()
        self.folder = whole.with_name(f".{whole.name}.{_key(grid)}{_ENDING}")

    def read(self, part: PartOfGrid) -> Figures | None:
        """The figures of a part that was finished before; None where there are none."""
        try:
            with self._path(part).open("rb") as file, np.load(file) as stored:
                figures = {name: _read(column, name, stored) for name, column in self._items()}
        except (OSError, KeyError, ValueError, BadZipFile):
            return None
        rows = {len(c.codes if isinstance(c, Words) else c.values) for c in figures.values()}
        return figures if rows == {len(part.grid)} else None

    def write(self, part: PartOfGrid, figures: Figures) -> None:
        """Keep the figures of a finished part, atomically."""
        self.folder.mkdir(exist_ok=True)
        path = self._path(part)
        unfinished = path.with_suffix(f".{os.getpid()}.tmp")
        arrays: dict[str, Any] = {}
        for name, column in figures.items():
            if isinstance(column, Words):
                arrays[f"{name}/codes"] = column.codes
            else:
                arrays[f"{name}/values"] = column.values
                arrays[f"{name}/missing"] = column.missing
        with unfinished.open("wb") as file:
            np.savez(file, **arrays)
        unfinished.replace(path)

    def remove(self) -> None:
        """The table is whole: forget its parts."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _path(self, part: PartOfGrid) -> Path:
        return self.folder / f"{part.start}-{part.start + len(part.grid)}.npz"

    def _items(self) -> list[tuple[str, Numbers | Words]]:
        return list(self._columns.items())


def _read(column: Numbers | Words, name: str, stored: np.lib.npyio.NpzFile) -> Numbers | Words:
    if isinstance(column, Words):
        return Words(stored[f"{name}/codes"], column.names)
    return Numbers(stored[f"{name}/values"], stored[f"{name}/missing"])


def _key(grid: Grid) -> str:
    """What decides every row: the problem at the first row, all values, this version."""
    axes = [[axis.path, *_values(axis.figures)] for axis in grid.axes]
    text = json.dumps([version("kvplan"), grid.data, axes], sort_keys=True, default=str)
    return sha256(text.encode()).hexdigest()[:16]


def _values(figures: Sequence[Figure]) -> list[str]:
    if isinstance(figures, Steps):
        return [str(figures.first), str(figures.step), str(len(figures)), str(figures.has_unit)]
    return [str(figure.as_written()) for figure in figures]
