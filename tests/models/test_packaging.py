"""The folders install under one package, kvplan, and as nothing else."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("kernels", "models", "solver")
FOLDERS = {"kvplan": "face"} | {f"kvplan.{part}": part for part in PARTS}
PROVIDERS = {"yaml": "pyyaml", "pydantic_core": "pydantic"}  # of a package by another name


def run_python(code: str, folder: Path) -> str:
    """Run code in a fresh interpreter that sees what is installed, and no checkout."""
    command = [sys.executable, "-I", "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def setuptools_table() -> dict[str, object]:
    table: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"][
        "setuptools"
    ]
    return table


def test_every_folder_with_code_is_a_listed_package() -> None:
    folders = {
        ".".join((package, *path.parent.relative_to(ROOT / folder).parts))
        for package, folder in FOLDERS.items()
        for path in (ROOT / folder).rglob("*.py")
    }
    assert sorted(folders) == sorted(setuptools_table()["packages"])  # type: ignore[call-overload]


def test_every_listed_package_has_an_init_and_every_folder_a_map() -> None:
    table = setuptools_table()
    assert table["package-dir"] == FOLDERS
    for package in table["packages"]:  # type: ignore[attr-defined]
        _, _, inner = package.partition(".")
        folder = ROOT.joinpath(*inner.split(".")) if inner else ROOT / "face"
        assert (folder / "__init__.py").is_file(), package
    assert all((ROOT / folder / "py.typed").is_file() for folder in FOLDERS.values())


def test_the_links_show_what_an_install_has() -> None:
    """An editable install and the type checkers go through them."""
    links = {link.name: link for link in (ROOT / ".typing" / "kvplan").iterdir()}
    links.pop("__pycache__", None)
    faces = {path.name: f"face/{path.name}" for path in (ROOT / "face").glob("*.*")}
    assert {"__init__.py", "__main__.py", "py.typed"} == faces.keys()
    targets = faces | {part: part for part in PARTS}
    assert links.keys() == targets.keys()
    for name, link in links.items():
        assert link.is_symlink()
        assert str(link.readlink()) == f"../../{targets[name]}"
        assert link.resolve() == ROOT / targets[name]


@pytest.mark.parametrize("name", FOLDERS.values())
def test_no_bare_top_level_package(name: str, tmp_path: Path) -> None:
    code = "from importlib.util import find_spec as f; print(f({!r}), f({!r}) is None)"
    package = "kvplan" if name == "face" else f"kvplan.{name}"
    assert run_python(code.format(name, package), tmp_path) == "None False"


def test_the_models_import_no_solver_and_no_arrays(tmp_path: Path) -> None:
    heavy = (
        "ortools",
        "yaml",
        "numpy",
        "pandas",
        "torch",
        "triton",
        "typer",
        "rich",
        "array_api_compat",
    )
    code = (
        "import sys, kvplan.models\n"
        f"print([name for name in sys.modules if name.split('.')[0] in {heavy}\n"
        "       or name.startswith(('kvplan.kernels', 'kvplan.solver'))])"
    )
    assert run_python(code, tmp_path) == "[]"


def imported(folders: tuple[str, ...]) -> Iterator[str]:
    """Packages that some module imports, beside the standard library and kvplan itself."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom):
                    names = [node.module or ""]
                for name in names:
                    top = name.split(".")[0]
                    if top not in sys.stdlib_module_names and top != "kvplan":
                        yield PROVIDERS.get(top, top.replace("_", "-"))


def test_what_is_imported_is_declared_and_what_is_declared_is_used() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = {*project["dependencies"]}
    for name in extras.keys() - {"test", "dev"}:
        needed |= {*extras[name]}
    declared = {re.split("[<>=]", each)[0] for each in needed}
    unimported = {"pyarrow"}  # pandas imports it to write .parquet files
    folders = tuple(FOLDERS.values())
    assert {*imported(folders)} <= declared
    assert declared - {*imported((*folders, "notebooks"))} == unimported
