"""The three folders install under the namespace kvplan, and as nothing else."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("kernels", "models", "solver")


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
