"""Real engines, each in an environment of its own: where they are, and how a script runs in one.

`tests/managers/install_engines.py` makes the environments. kvplan is laid on the path of a script
as an installation would lay it: the package and the entry points.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "managers" / "engine"
LONGEST_SECONDS = 900


def engines_folder() -> Path:
    """KVPLAN_ENGINES; without it the engines' tests, which take minutes, are left to CI."""
    named = os.environ.get("KVPLAN_ENGINES")
    if not named:
        pytest.skip("KVPLAN_ENGINES names no folder of engines (install_engines.py fills one)")
    return Path(named)


def engine_python(name: str) -> Path:
    """Python of an engine's environment; skips where it is not installed."""
    python = engines_folder() / name / "bin" / "python"
    if not python.exists():
        pytest.skip(f"{name} is not installed in {engines_folder()} (install_engines.py does it)")
    return python


@cache
def kvplan_path() -> Path:
    """A folder that holds kvplan and its entry points, as site-packages would."""
    folder = Path(mkdtemp(prefix="kvplan-path-"))
    (folder / "kvplan").symlink_to(ROOT / ".typing" / "kvplan")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    info = folder / f"kvplan-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: kvplan\nVersion: {project['version']}\n"
    )
    lines = []
    for group, entries in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


@dataclass(frozen=True)
class Ran:
    """What a script came to."""

    code: int
    out: str
    err: str

    @property
    def log(self) -> str:
        """Everything that it printed."""
        return self.out + self.err

    @property
    def answer(self) -> Any:
        """The JSON of its last line that starts with a brace or a bracket."""
        assert self.code == 0, self.log[-6000:]
        lines = [line for line in self.out.splitlines() if line.startswith(("{", "["))]
        return json.loads(lines[-1])


def once(factory: pytest.TempPathFactory, name: str, run: Callable[[], Ran]) -> Ran:
    """Run something once for all the processes of a test session."""
    folder = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # what the workers of this session share
    path = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(asdict(run())))
    return Ran(**json.loads(path.read_text()))


def run_script(
    engine: str, script: str, *arguments: str, sources: str = "", **environment: str
) -> Ran:
    """Run a script of tests/managers/engine in an engine's environment.

    Parameters
    ----------
    sources : an engine's Python files that go before what is installed.
    """
    python = engine_python(engine)
    paths = [str(kvplan_path()), str(SCRIPTS)]
    if sources:
        folder = engines_folder() / sources
        if not folder.exists():
            pytest.skip(f"{sources} is not in {engines_folder()} (install_engines.py gets it)")
        paths.insert(0, str(folder))
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("KVPLAN", "PYTEST", "COV"))}
    done = subprocess.run(
        [str(python), str(SCRIPTS / script), *arguments],
        env={**kept, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=LONGEST_SECONDS,
    )
    return Ran(done.returncode, done.stdout, done.stderr)
