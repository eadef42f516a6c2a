"""kvplan as pip installs it, from a wheel and from a checkout; and what uninstalling leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.installed import PARTS, Way, install, pip

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
