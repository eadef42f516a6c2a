"""`import kvplan`: its names, what it loads, and that nothing is found that is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import kvplan
from kvplan import solver
from kvplan.models import AgreementFailed, Infeasible, InvalidProblem, KvplanError, Plan, Problem
from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
from kvplan.models.ranks import Rank, RankMemory
from kvplan.solver import explain, explore, layout
from kvplan.solver.agree import plan_together

NAMES = {
    "AgreementFailed": AgreementFailed,
    "Infeasible": Infeasible,
    "InvalidProblem": InvalidProblem,
    "KvplanError": KvplanError,
    "LayoutAnswer": LayoutAnswer,
    "LayoutQuestion": LayoutQuestion,
    "Plan": Plan,
    "Planner": solver.Planner,
    "Problem": Problem,
    "Rank": Rank,
    "RankMemory": RankMemory,
    "explain": explain.explain,
    "explore": explore.explore,
    "layout": layout.layout,
    "plan": solver.plan,
    "plan_together": plan_together,
}


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)


@pytest.mark.parametrize(("name", "value"), NAMES.items())
def test_each_name_is_that_of_its_home(name: str, value: object) -> None:
    assert getattr(kvplan, name) is value


def test_all_and_dir_list_every_name() -> None:
    assert set(kvplan.__all__) == NAMES.keys() | {"__version__"}
    assert dir(kvplan) == sorted({*kvplan.__all__, "kernels", "models", "solver"})
    assert kvplan.__version__.split(".")[0].isdigit()


def test_an_unknown_name_is_an_error_and_not_a_module() -> None:
    with pytest.raises(AttributeError, match="module 'kvplan' has no attribute 'nonsense'"):
        kvplan.nonsense  # type: ignore[attr-defined]  # noqa: B018 - what a typo does
    with pytest.raises(ImportError, match="cannot import name 'Pool'"):
        from kvplan import Pool  # type: ignore[attr-defined]  # noqa: F401


def test_the_import_alone_loads_nothing_else(tmp_path: Path) -> None:
    code = "import sys; old = {*sys.modules}; import kvplan; print(sorted({*sys.modules} - old))"
    assert python("-c", code, folder=tmp_path).stdout == "['kvplan']\n"


def test_no_name_needs_a_solver_or_a_table_before_its_first_use(tmp_path: Path) -> None:
    code = (
        "import sys; from kvplan import *; print([n for n in sys.modules if n in "
        "('ortools', 'torch', 'pandas', 'typer', 'rich', 'numpy', 'yaml')], plan.__name__)"
    )
    assert python("-c", code, folder=tmp_path).stdout == "[] plan\n"


def test_the_command_line_is_the_package_as_a_module(tmp_path: Path) -> None:
    done = python("-m", "kvplan", "--version", folder=tmp_path)
    assert done.stdout == f"kvplan {kvplan.__version__}\n"
