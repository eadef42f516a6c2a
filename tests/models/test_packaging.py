"""The three folders install under the namespace kvplan, and as nothing else."""

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
        ".".join(("kvplan", *path.parent.relative_to(ROOT).parts))
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
    }
    assert sorted(folders) == sorted(setuptools_table()["packages"])  # type: ignore[call-overload]


def test_every_listed_package_has_an_init_and_every_part_a_map() -> None:
    table = setuptools_table()
    assert table["package-dir"] == {f"kvplan.{part}": part for part in PARTS}
    for package in table["packages"]:  # type: ignore[attr-defined]
        folder = ROOT.joinpath(*package.split(".")[1:])
        assert (folder / "__init__.py").is_file(), package
    assert all((ROOT / part / "py.typed").is_file() for part in PARTS)


def test_the_type_checkers_see_the_folders_through_links() -> None:
    links = sorted((ROOT / ".typing" / "kvplan").iterdir())
    assert [link.name for link in links] == list(PARTS)
    for link in links:
        assert link.is_symlink()
        assert str(link.readlink()) == f"../../{link.name}"
        assert link.resolve() == ROOT / link.name


@pytest.mark.parametrize("name", PARTS)
def test_no_bare_top_level_package(name: str, tmp_path: Path) -> None:
    code = "from importlib.util import find_spec as f; print(f({!r}), f({!r}) is None)"
    assert run_python(code.format(name, f"kvplan.{name}"), tmp_path) == "None False"


def test_the_namespace_has_no_init(tmp_path: Path) -> None:
    assert run_python("import kvplan; print(kvplan.__file__)", tmp_path) == "None"


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


def test_the_public_face(tmp_path: Path) -> None:
    code = "from kvplan.models import InvalidProblem, Plan, Problem; print(Problem.__name__)"
    assert run_python(code, tmp_path) == "Problem"


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
    assert {*imported(PARTS)} <= declared
    assert declared - {*imported((*PARTS, "notebooks"))} == unimported
