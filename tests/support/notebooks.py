"""Notebooks: the percent-format source beside the executed notebook.

`python tests/support/notebooks.py` executes every source and writes its notebook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
SOURCES = sorted(FOLDER.glob("*.py"))


def read_source(source: Path) -> Any:
    """The cells of a percent-format file as a notebook without outputs."""
    notebook = nbformat.v4.new_notebook(cells=jupytext.read(source).cells)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    name = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = {"kernelspec": name, "language_info": {"name": "python"}}
    return notebook


def execute(source: Path) -> Any:
    """A source as an executed notebook; a cell that fails raises."""
    notebook = read_source(source)
    language = notebook.metadata["language_info"]
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # or the parts of an output differ from run to run
    )
    client.execute(cwd=str(source.parent))
    notebook.metadata["language_info"] = language  # without the version that happened to run it
    return notebook


def outputs(notebook: Any) -> list[tuple[str, list[str]]]:
    """What each code cell printed, and the kinds of everything else that it shows."""
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            text = "".join(each.text for each in cell.outputs if each.output_type == "stream")
            shown = [kind for each in cell.outputs for kind in sorted(each.get("data", {}))]
            found.append((text, shown))
    return found


if __name__ == "__main__":
    for path in SOURCES:
        nbformat.write(execute(path), path.with_suffix(".ipynb"))
