"""The READMEs keep their word: files, commands, outputs, code, links, and what tables list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from typer.main import get_command

from kvplan.models import KvplanError, Plan, Problem
from kvplan.models.engines.architecture import load_architecture
from kvplan.models.engines.command_line.typed import Budget, typed_settings
from kvplan.models.engines.families import READERS
from kvplan.models.engines.registry import ENGINES, engine_named
from kvplan.solver.cli.app import app
from support.cli import run_kvplan
from support.documents import (
    DOCUMENTS,
    ROOT,
    anchors_of,
    blocks_of,
    links_of,
    played,
    text_of,
    write_files,
)

FRONT, _, PROBLEM, ENGINE, SOLVER, AGREE, _ = DOCUMENTS
FOLDERS = DOCUMENTS[1:]
REFRESH = "python tests/support/documents.py rewrites the outputs"


@pytest.fixture(params=DOCUMENTS)
def document(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def table(document: str, head: str) -> list[list[str]]:
    """Cells of the rows below the one that begins with `head`."""
    rows = text_of(document).split(f"\n| {head} |")[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_every_readme_is_tested() -> None:
    found = (
        path for part in ("kernels", "models", "solver") for path in (ROOT / part).rglob("*.md")
    )
    assert {str(path.relative_to(ROOT)) for path in found} == set(FOLDERS)


def test_what_it_shows_is_what_comes(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(document, tmp_path)
    outputs = list(played(document, tmp_path))
    assert outputs
    for shown in outputs:
        if not shown.is_right:  # compared as text, so that the report shows where
            assert shown.printed == shown.expected, f"{shown.where}; {REFRESH}"


@pytest.mark.parametrize("document", FOLDERS)
def test_links_lead_somewhere(document: str) -> None:
    links = [link for link in links_of(document) if not link.startswith("https://")]
    assert links
    for link in links:
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        assert target.exists(), link
        if anchor:
            assert anchor in anchors_of(str(target.resolve().relative_to(ROOT))), link


def test_the_front_page_works_without_the_files_beside_it() -> None:
    """A package index shows it alone: it names paths in words, and links to the public web only."""
    assert all(link.startswith("https://github.com/") for link in links_of(FRONT))
    named = re.findall(r"`([\w/]+(?:\.md|/))`", text_of(FRONT))
    assert {*FOLDERS} <= {*named, FRONT}
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_front_page_is_short() -> None:
    assert len(text_of(FRONT).splitlines()) <= 150
    first = blocks_of(FRONT)[0]
    assert (first.language, first.file) == ("yaml", "card.yaml")
    assert len(first.text.splitlines()) <= 10


def models_of(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and every model in its fields."""
    yield model
    for field in model.model_fields.values():
        yield from _models_in(field.annotation)


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from models_of(annotation)
    for inner in getattr(annotation, "__args__", ()):
        yield from _models_in(inner)


def reference() -> str:
    return next(block.text for block in blocks_of(PROBLEM) if block.file == "every_field.yaml")


def test_the_reference_is_a_valid_problem_that_shows_every_field() -> None:
    text = reference()
    Problem.parse(text)
    fields = {name for model in models_of(Problem) for name in model.model_fields}
    assert len(fields) > 60
    absent = {name for name in fields if not re.search(rf"\b{name}:|\b{name} \(", text)}
    assert absent == {"none"}, "fill: none is a word, not a key"
    assert re.search(r"\bor none\b", text)


def test_the_reference_problem_has_a_plan_that_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, plan = tmp_path / "problem.yaml", tmp_path / "plan.json"
    problem.write_text(reference())
    done = run_kvplan(capsys, "solve", problem, "--json")
    assert done.code == 0
    plan.write_text(done.out)
    assert run_kvplan(capsys, "verify", problem, plan).code == 0


def test_every_command_and_option_is_described() -> None:
    text = text_of(SOLVER) + text_of(ENGINE)
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(commands) >= 8
    for name, command in commands.items():
        assert f"| `kvplan {name}" in text
        options = [opt for param in command.params for opt in param.opts if opt.startswith("--")]
        assert [option for option in options if f"`{option}" not in text] == []


def test_every_field_of_a_plan_is_described() -> None:
    rows = table(AGREE, "field")
    named = {row[0].strip("`*") for row in rows}
    assert {*Plan.model_fields} == {name for name in named if "[" not in name}
    for name, _, _, says in rows:
        late = name.strip("`*").split("[")[0] in Plan.deferred_fields
        assert name.startswith("*") == late, name
        assert says
    text = " ".join(" ".join(row) for row in rows)
    inner = {field for model in models_of(Plan) for field in model.model_fields} - {"count"}
    assert [field for field in sorted(inner) if f"`{field}`" not in text] == ["goal", "value"]


def test_the_engines_and_their_families_are_all_there() -> None:
    assert [row[0].strip("`") for row in table(ENGINE, "`--engine`")] == list(ENGINES)
    listed = text_of(ENGINE).split("By `model_type`")[1]
    assert sorted(re.findall(r"`([\w-]+)`", listed)) == sorted(READERS)


FAMILIES = [
    (row[1], engine, cell)
    for row in table(ENGINE, "layers")
    for engine, cell in zip(ENGINES, row[2:], strict=True)
]


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    write_files(ENGINE, folder)
    return folder


@pytest.mark.parametrize(("model", "engine", "cell"), FAMILIES)
def test_a_cell_says_whether_the_engine_has_a_problem(
    model: str, engine: str, cell: str, configs: Path
) -> None:
    adapter: Any = engine_named(engine)
    settings = typed_settings(adapter, ["--available", "400GiB"], Budget(None, None, None))
    try:
        adapter.build(load_architecture(configs / f"{model}.json"), settings)
    except KvplanError:
        assert cell == "refused"
    else:
        assert cell == "yes"
