"""The READMEs, read and played: their files are written, their commands and code are run.

A fenced block is what its first word says. A word behind it names the file that the block is
(```yaml card.yaml). A `console` block holds commands behind "$ " and what they print; a `text`
block right behind a `python` block is what that prints. A line "..." stands for lines left out.

`python tests/support/documents.py` rewrites the outputs, except those with a line "...".
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENTS = (
    "README.md",
    "kernels/README.md",
    "models/README.md",
    "models/engines/README.md",
    "solver/README.md",
    "solver/agree/README.md",
    "solver/managers/README.md",
)
CONFIGS = {"README.md": "Qwen3-8B", "models/engines/README.md": "Qwen3.6-27B-NVFP4"}
"""Whose config.json a document speaks of; all others lie beside it under their own names."""
_BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"^\$ ", re.MULTILINE)
_LEFT_OUT = re.compile(r"^\.\.\.\n", re.MULTILINE)


class Block(NamedTuple):
    """A fenced block, and the line that its text begins on."""

    language: str
    file: str | None
    text: str
    line: int


class Shown(NamedTuple):
    """An output that a document shows behind its `head`, and what came when it was run."""

    where: str
    head: str
    expected: str
    printed: str

    @property
    def is_right(self) -> bool:
        """Whether the lines between the "..." come, in order, and no others but where one stands.

        Where nothing is shown, nothing may come.
        """
        runs = _LEFT_OUT.split(self.expected)
        return re.fullmatch("(?:.*\n)*?".join(map(re.escape, runs)), self.printed) is not None


def text_of(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks_of(document: str) -> list[Block]:
    text = text_of(document)
    return [
        Block(match[1], match[2], match[3], text.count("\n", 0, match.start()) + 2)
        for match in _BLOCK.finditer(text)
    ]


def code_of(document: str) -> str:
    """Its Python blocks as one program: a later one may use what an earlier one defined."""
    return "".join(block.text for block in blocks_of(document) if block.language == "python")


def write_files(document: str, folder: Path) -> None:
    """Write every block that is a file, the front page's too, and the configs of real models."""
    configs = json.loads((ROOT / "tests" / "cases" / "model_configs.json").read_text())
    for name, config in configs.items():
        (folder / f"{name}.json").write_text(json.dumps(config))
    if document in CONFIGS:
        (folder / "config.json").write_text(json.dumps(configs[CONFIGS[document]]))
    for block in [*blocks_of(DOCUMENTS[0]), *blocks_of(document)]:
        if block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def played(document: str, folder: Path) -> Iterator[Shown]:
    """Run commands and code from the first to the last; the folder is the working directory."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    blocks = blocks_of(document)
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        where = f"{document}:{block.line}"
        if block.language == "console":
            yield from _console(block.text, where, folder)
        elif block.language == "python":
            printed = _python(block.text, where, namespace)
            is_shown = after is not None and after.language == "text" and after.file is None
            expected = after.text if after is not None and is_shown else ""
            yield Shown(where, f"{block.text}```\n\n```text\n", expected, printed)


def _console(text: str, where: str, folder: Path) -> Iterator[Shown]:
    before, *commands = _COMMAND.split(text)
    assert not before, f"{where}: a console block begins with a command"
    for entry in commands:
        command, _, expected = entry.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = f"{command}\n{more}"
        yield Shown(f"{where}: {command}", f"$ {command}\n", expected, _shell(command, folder))


def _shell(command: str, folder: Path) -> str:
    """What a command prints where `kvplan` and `python` are this environment's."""
    python = f'"{sys.executable}"'
    shell = f'kvplan() {{ {python} -m kvplan.solver.cli "$@"; }}\npython() {{ {python} "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", shell + command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"COLUMNS": "100"},
        timeout=100,
        check=False,
    )
    return done.stdout.decode()


def _python(text: str, where: str, namespace: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(text, where, "exec"), namespace)
    return printed.getvalue()


def links_of(document: str) -> list[str]:
    """Targets of its links."""
    prose = _BLOCK.sub("", text_of(document))
    return re.findall(r"\]\(([^)\s]+)\)", prose)


def anchors_of(document: str) -> set[str]:
    """Headings as a code host names them."""
    prose = _BLOCK.sub("", text_of(document))
    titles = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def refreshed(document: str, folder: Path) -> str:
    """The text of a document with its outputs as they come today."""
    text, at = text_of(document), 0
    for shown in played(document, folder):
        if not shown.is_right and not _LEFT_OUT.search(shown.expected):
            at = text.index(shown.head + shown.expected, at) + len(shown.head)
            text = text[:at] + shown.printed + text[at + len(shown.expected) :]
    return text


if __name__ == "__main__":
    for name in sys.argv[1:] or DOCUMENTS:
        with tempfile.TemporaryDirectory() as made, contextlib.chdir(made):
            write_files(name, Path(made))
            changed = refreshed(name, Path(made))
            (ROOT / name).write_text(changed, encoding="utf-8")
