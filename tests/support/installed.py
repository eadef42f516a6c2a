"""kvplan as a wheel installs it: copies of the packages in an environment of their own."""

from __future__ import annotations

import shutil
import site
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("kernels", "models", "solver")


def installed_copy(folder: Path) -> Path:
    """Make an environment with a copy of kvplan, and what this one has besides; its python."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for part in PARTS:
        shutil.copytree(
            ROOT / part,
            packages / "kvplan" / part,
            ignore=shutil.ignore_patterns("__pycache__", "*.md"),
        )
    others = [path for path in (*site.getsitepackages(), *sys.path) if "site-packages" in path]
    (packages / "others.pth").write_text("\n".join(dict.fromkeys(others)) + "\n")
    return folder / "bin" / "python"
