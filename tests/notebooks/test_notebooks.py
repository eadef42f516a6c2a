"""Every notebook runs, and what is stored in it is what its source says and prints today."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest

from support.notebooks import FOLDER, SOURCES, execute, outputs, read_source

REFRESH = "run: python tests/support/notebooks.py"
each_source = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def test_every_notebook_has_its_source() -> None:
    assert [path.stem for path in SOURCES] == sorted(path.stem for path in FOLDER.glob("*.ipynb"))
    assert SOURCES


@each_source
def test_source_and_notebook_have_the_same_cells(source: Path) -> None:
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert stored.cells[-1].cell_type == "markdown"
    cells = [[(c.cell_type, c.source) for c in nb.cells] for nb in (stored, read_source(source))]
    assert cells[0] == cells[1], REFRESH


@each_source
def test_a_notebook_runs_and_prints_what_is_stored(source: Path) -> None:
    if "\nimport torch\n" in source.read_text() and find_spec("torch") is None:
        pytest.skip("no tensors without torch")
    stored = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
    assert outputs(stored) == outputs(execute(source)), REFRESH
    shown = [kind for _, kinds in outputs(stored) for kind in kinds]
    assert shown.count("image/png") >= (3 if source.stem == "explore_quotas" else 1)


@each_source
def test_a_notebook_ends_with_what_to_do(source: Path) -> None:
    last = read_source(source).cells[-1]
    assert last.cell_type == "markdown"
    assert last.source.startswith("**")
    titles = [cell.source for cell in read_source(source).cells if "## " in cell.source]
    assert "## Recommendation" in titles[-1]
