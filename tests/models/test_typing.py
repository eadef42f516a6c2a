"""What a type checker tells a user of an installed copy, and that signatures follow the fields."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kvplan.models import demands, elastic, goals, pools, problem, ranks, variants
from kvplan.models.base import Frozen
from support.documents import DOCUMENTS, code_of
from support.installed import Way, install

SNIPPET = """
from decimal import Decimal
from fractions import Fraction

import pandas

import kvplan
from kvplan import Planner, Problem, RankMemory, plan
from kvplan.models.demands import Batch, Request
from kvplan.models.elastic import Choice, Consumer, Experts, Lend, Option, Prefill, Staging
from kvplan.models.goals import Constraint, Fill, Goal
from kvplan.models.pools import Buffer, Cache, Pool, Scratch
from kvplan.models.ranks import Rank, Share
from kvplan.models.variants import Variant

memory = RankMemory(total="80GiB", utilization=0.9, safety=Share(fraction="1/50"), graphs=2**30)
window = Cache(name="w", pool="w", kind="window", window=128, keep="live",
               scratch=Scratch(fraction=Fraction(1, 4)))
question = Problem(
    ranks=[Rank(name="r0", quota="24GiB"), Rank(name="r1", memory=memory)],
    resume_utilization="97/100",
    pools=(Pool(name="p", bytes={0: "4KiB"}), Pool(name="w", buffers=[Buffer(bytes=4096)])),
    caches=[Cache(name="c", pool="p", kind="full"), window],
    batches=[Batch(name="b", requests=[Request(name="q", capacity=100, fit="capacity")])],
    prefill=Prefill(requested=8192, step=256, staging=[Staging(name="s", per_token="160KiB")]),
    experts=Experts(slot_bytes=[[8, "10MiB"]], lend=Lend(keep=1, fraction=0.5)),
    consumers=[Consumer(name="weights", bytes="5GiB", phases=["load"])],
    choices=[Choice(name="c", options=[Option(name="o", bytes={"r0": 5})])],
    constraints=[Constraint(terms={"prefill": 1}, max=10**6)],
    goals=["capacity:q", Goal(maximize={"prefill": 1}, curves={"prefill": [[256, 1.5]]})],
    fill=Fill(shares={"p": 0.8}),
    variants=[Variant(name="v", set=["prefill.requested=512"])],
)
answer: kvplan.Plan = plan(question)
blocks: int = answer.blocks["p"]
share: Fraction = question.resume_utilization
later: kvplan.Plan = Planner(question).plan(quota={"r0": "20GiB"}, shares={"p": Fraction(4, 5)})
resized: kvplan.Plan = answer.resize({"r0": 21.5e9, "r1": Decimal(60 * 10**9)})
table: pandas.DataFrame = kvplan.explore(question, {"ranks.r0.quota": ["24GB", "25GB"]})
limits: tuple[object, ...] = kvplan.explain(question).break_points
version: str = kvplan.__version__
"""
WRONG = """
import kvplan
from kvplan.models.pools import Pool
from kvplan.models.ranks import Rank

pool = Pool(name="p", bytes={"0": 1})
kvplan.rank  # error
pool.bytes["0"] = 2  # error
Rank(quota=1)  # error
Rank(name="r", quota=[1])  # error
"""


def mypy(python: Path, folder: Path, config: str = "") -> list[str]:
    """Errors of mypy --strict where kvplan is installed, as FILE:LINE; with that config."""
    (folder / "mypy.ini").write_text(f"[mypy]\n{config}")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "mypy.ini"]
    command += ["--python-executable", str(python), "."]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert not done.stderr
    return [line.split(": error")[0] for line in done.stdout.splitlines() if ": error: " in line]


def pyright(python: Path, folder: Path) -> list[str]:
    """Errors of pyright's strict mode where kvplan is installed, as FILE:LINE."""
    config = {"typeCheckingMode": "strict", "reportDuplicateImport": False}  # blocks joined
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", str(python), "--outputjson"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = (
        f"{Path(each['file']).name}:{each['range']['start']['line'] + 1}"
        for each in found
        if each["severity"] == "error"
    )
    return list(dict.fromkeys(lines))


def write_users_code(folder: Path) -> list[str]:
    """The READMEs' code and the snippets as files; the lines that are wrong, as FILE:LINE."""
    folder.mkdir()
    files = {f"readme_{number}.py": code_of(name) for number, name in enumerate(DOCUMENTS)}
    for name, code in (files | {"snippet.py": SNIPPET, "wrong.py": WRONG}).items():
        (folder / name).write_text(code)
    marked = (n for n, line in enumerate(WRONG.splitlines(), start=1) if "# error" in line)
    return [f"wrong.py:{n}" for n in marked]


PLUGIN = "plugins = pydantic.mypy\n"


@pytest.mark.parametrize(("way", "config"), [("wheel", ""), ("wheel", PLUGIN), ("editable", "")])
def test_mypy_accepts_users_code_on_an_installed_copy(
    way: Way, config: str, tmp_path: Path
) -> None:
    wrong = write_users_code(tmp_path / "user")
    assert mypy(install(way, tmp_path).python, tmp_path / "user", config) == wrong


@pytest.mark.parametrize("way", ["wheel", "editable"])
def test_pyright_accepts_users_code_on_an_installed_copy(way: Way, tmp_path: Path) -> None:
    pytest.importorskip("basedpyright", reason="pyright comes with pip install '.[test]'")
    wrong = write_users_code(tmp_path / "user")
    assert pyright(install(way, tmp_path).python, tmp_path / "user") == wrong


def test_the_snippet_is_legal_at_run_time() -> None:
    run: dict[str, object] = {}
    exec(SNIPPET, run)
    assert run["answer"] != run["later"]


MODULES = (demands, elastic, goals, pools, problem, ranks, variants)


def signatures() -> dict[str, tuple[type[Frozen], dict[str, bool]]]:
    """Signatures for type checkers, by class: whether each parameter must be given."""
    found = {}
    for module in MODULES:
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for kind in (node for node in tree.body if isinstance(node, ast.ClassDef)):
            for node in ast.walk(kind):
                if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                    arguments = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
                    needed = {one.arg: default is None for one, default in arguments}
                    found[kind.name] = getattr(module, kind.name), needed
    return found


def test_signatures_name_every_field_and_what_must_be_given() -> None:
    assert len(signatures()) == 20
    for name, (model, needed) in signatures().items():
        fields = {key: field.is_required() for key, field in model.model_fields.items()}
        assert needed == fields, name
