"""kvplan in an environment of its own, as pip installs a wheel or a checkout."""

from __future__ import annotations

import shutil
import site
import subprocess
import sys
import venv
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Literal, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("face", "kernels", "models", "solver")
FILES = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
OLDEST_SETUPTOOLS = 77  # the first that reads `license` as pyproject.toml writes it
BUILD = "import sys, setuptools.build_meta as b; print(getattr(b, sys.argv[1])(sys.argv[2]))"

Way = Literal["wheel", "editable"]


class Installed(NamedTuple):
    """An environment that has kvplan, and what this environment has besides."""

    python: Path
    packages: Path

    def run(self, *arguments: str, folder: Path) -> str:
        """What its Python prints; only what is installed is seen."""
        return run([str(self.python), "-I", "-W", "error", *arguments], folder)


def run(command: list[str], folder: Path) -> str:
    """Standard output of a command that must succeed, its last end of line apart."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.rstrip("\n")


def install(way: Way, folder: Path, *, links: bool = True) -> Installed:
    """Build kvplan from a copy of its source and install it, without a download.

    Without `links` the source is as git leaves it where it may not make symbolic links.
    """
    source = folder / "source"
    copy_source(source)
    if not links:
        shutil.rmtree(source / ".typing")
    file = build("build_wheel" if way == "wheel" else "build_editable", source)
    venv.create(folder / "environment", with_pip=False, symlinks=True)
    (packages,) = folder.glob("environment/lib/python*/site-packages")
    installed = Installed(folder / "environment" / "bin" / "python", packages)
    pip(installed, "install", "--no-deps", "--no-index", str(file))
    others = _other_packages() if links else (_without_kvplan(folder / "others"),)
    (packages / "others.pth").write_text("\n".join(others) + "\n")
    return installed


def _without_kvplan(folder: Path) -> str:
    """Links to this environment's packages: a kvplan among them would be found before a map."""
    folder.mkdir()
    for packages in _other_packages():
        for entry in Path(packages).iterdir():
            link = folder / entry.name
            if "kvplan" not in entry.name and not link.exists():
                link.symlink_to(entry)
    return str(folder)


def build(hook: str, source: Path) -> Path:
    """Call a hook of the build backend; the file that it made."""
    if int(version("setuptools").split(".")[0]) < OLDEST_SETUPTOOLS:
        pytest.skip(f"building needs setuptools {OLDEST_SETUPTOOLS} or newer")
    target = source.parent / hook
    target.mkdir()
    name = run([sys.executable, "-c", BUILD, hook, str(target)], source).splitlines()[-1]
    return target / name


def pip(installed: Installed, *arguments: str) -> None:
    """Run this environment's pip on another one."""
    command = [sys.executable, "-m", "pip", "--python", str(installed.python), "-q", *arguments]
    run([*command, "--disable-pip-version-check"], installed.python.parent)


def copy_source(folder: Path) -> None:
    """What an install reads of a checkout."""
    folder.mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__")
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    shutil.copytree(ROOT / ".typing", folder / ".typing", symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, folder)


@cache
def _other_packages() -> tuple[str, ...]:
    """Where this environment's packages lie; none of them is an editable kvplan."""
    found = (path for path in (*site.getsitepackages(), *sys.path) if "site-packages" in path)
    return tuple(dict.fromkeys(found))
