"""kvplan as pip installs it, from a wheel and from a checkout; and what uninstalling leaves."""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path

import pytest

from support.installed import PARTS, ROOT, Way, build, copy_source, install, pip, run

WHERE = "import kvplan.kernels, kvplan.models; print(kvplan.__file__, kvplan.models.__file__)"
BARE = "from importlib.util import find_spec; print([n for n in {} if find_spec(n)])"


@pytest.mark.parametrize("way", ["wheel", "editable"])
def test_an_install_runs_and_leaves_nothing_when_it_goes(way: Way, tmp_path: Path) -> None:
    kvplan = install(way, tmp_path)
    home = kvplan.packages if way == "wheel" else tmp_path / "source" / ".typing"
    files = f"{home}/kvplan/__init__.py {home}/kvplan/models/__init__.py"
    assert kvplan.run("-c", WHERE, folder=tmp_path) == files
    assert kvplan.run("-c", BARE.format(PARTS), folder=tmp_path) == "[]"
    assert "optimal" in kvplan.run("-m", "kvplan", "demo", folder=tmp_path)
    before = {path.name for path in kvplan.packages.iterdir()}
    assert before > {"others.pth"}
    pip(kvplan, "uninstall", "-y", "kvplan")
    assert {path.name for path in kvplan.packages.iterdir()} == {"others.pth"}
    assert not (kvplan.python.parent / "kvplan").exists()


def test_an_editable_install_sees_a_new_file_at_once(tmp_path: Path) -> None:
    kvplan = install("editable", tmp_path)
    (tmp_path / "source" / "models" / "new_file.py").write_text("VALUE = 7\n")
    code = "from kvplan.models.new_file import VALUE; print(VALUE)"
    assert kvplan.run("-c", code, folder=tmp_path) == "7"


def test_a_checkout_without_links_is_installed_through_the_map(tmp_path: Path) -> None:
    kvplan = install("editable", tmp_path, links=False)
    home = tmp_path / "source"
    files = f"{home}/face/__init__.py {home}/models/__init__.py"
    assert kvplan.run("-c", WHERE, folder=tmp_path) == files
    assert kvplan.run("-c", BARE.format(PARTS), folder=tmp_path) == "[]"


def test_a_source_distribution_holds_the_tests_and_builds_a_wheel(tmp_path: Path) -> None:
    source = tmp_path / "source"
    copy_source(source)
    for name in ("tests", "MANIFEST.in", "CONTRIBUTING.md", "CHANGELOG.md"):
        found = ROOT / name
        if found.is_dir():
            shutil.copytree(found, source / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(found, source)
    with tarfile.open(build("build_sdist", source)) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.glob("kvplan-*")
    written = {path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py")}
    held = {path.relative_to(unpacked) for path in (unpacked / "tests").rglob("*.py")}
    assert held == written
    assert build("build_wheel", unpacked).is_file()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: str, tmp_path: Path) -> None:
    detected = "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1"  # a detached process has no shell
    command = ["env", detected, sys.executable, "-m", "kvplan", "--show-completion", shell]
    script = run(command, tmp_path)
    assert "_KVPLAN_COMPLETE" in script


def test_completion_finds_a_command(tmp_path: Path) -> None:
    words = "env COMP_WORDS='kvplan so' COMP_CWORD=1 _KVPLAN_COMPLETE=complete_bash"
    line = f"{words} {sys.executable} -m kvplan"
    assert run(["sh", "-c", line], tmp_path) == "solve"
