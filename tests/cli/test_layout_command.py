"""kvplan layout: questions, specs and models in; a report, JSON, a question or a problem out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from kvplan.models import Problem
from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
from kvplan.models.layouts.pool_split import PoolSplit
from kvplan.solver import layout as called
from kvplan.solver import plan
from support.cli import run_kvplan
from support.vllm import cases
from support.vllm_server import CONFIGS

Capture = pytest.CaptureFixture[str]
SM70 = Path(__file__).parents[1] / "cases" / "layouts" / "sm70_draft.yaml"
FLAGS = ("--max-model-len", "65536", "--available", "10GiB", "--kv-cache-dtype", "fp8")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Qwen3.6-27B-NVFP4"]))
    return path


def test_the_report_compares_bucket_by_bucket(capsys: Capture) -> None:
    done = run_kvplan(capsys, "layout", SM70)
    assert (done.code, done.err) == (0, "")
    for text in (
        "6_442_450_944 B (6.00 GiB)",
        "saves 28.6 % of the engine's bytes",
        "The engine's rule and the optimum",
        "Buckets by vLLM 0.25.1 (patched)",
        "What fewer groups cost",
        "24,624 candidates",
        "a cached prefix is a multiple of 2,048 tokens",
    ):
        assert text in done.out


def test_json_is_the_answer_and_obeys_its_schema(capsys: Capture) -> None:
    done = run_kvplan(capsys, "layout", SM70, "--json")
    found = LayoutAnswer.model_validate_json(done.out)
    assert found == called(LayoutQuestion.load(SM70))
    schema = json.loads(run_kvplan(capsys, "schema", "--layout-answer").out)
    Draft202012Validator(schema).validate(json.loads(done.out))


def test_the_question_obeys_its_schema(capsys: Capture) -> None:
    schema = json.loads(run_kvplan(capsys, "schema", "--layout").out)
    question = LayoutQuestion.load(SM70).model_dump(mode="json", exclude_unset=True)
    Draft202012Validator(schema).validate(question)
    question["buckets"][0]["width"] = 3
    assert not Draft202012Validator(schema).is_valid(question)


def test_the_problem_of_the_layout_is_solved(tmp_path: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "layout", SM70, "--print", "problem")
    assert plan(Problem.parse(done.out)).blocks == {"paged": 140}


def test_a_model_under_vllm_flags_and_its_question(
    config: Path, tmp_path: Path, capsys: Capture
) -> None:
    asked = tmp_path / "question.yaml"
    done = run_kvplan(capsys, "layout", config, *FLAGS, "--print", "question")
    asked.write_text(done.out)
    model = run_kvplan(capsys, "layout", config, *FLAGS, "--json")
    again = run_kvplan(capsys, "layout", asked, "--json")
    first, second = (LayoutAnswer.model_validate_json(each.out) for each in (model, again))
    assert first.engine is not None
    assert first.engine.ratio > 1
    assert (first.layout, first.figures, first.proof) == (
        second.layout,
        second.figures,
        second.proof,
    )
    assert second.engine is None
    layers = sorted(at for group in first.layout.groups for at in group.layers)
    assert layers == list(range(64))


def test_specs_layer_by_layer(tmp_path: Path, capsys: Capture) -> None:
    case = cases()["windows-000 0.33.0"]
    path = tmp_path / "specs.json"
    path.write_text(json.dumps({**case.data, "layers": case.layers, "version": "0.33.0/BLHNC"}))
    done = run_kvplan(capsys, "layout", path, "--json", "--set", "max_groups=3")
    found = LayoutAnswer.model_validate_json(done.out)
    assert found.layout.pages == "packed"
    assert found.figures.groups <= 3
    assert found.engine is not None
    assert found.engine.figures.groups == 4


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("nowhere.yaml",), "nowhere.yaml: expected a readable file"),
        ((SM70, "--set", "max_groups=1"), "buckets: expected max_groups that leave a layout"),
        ((SM70, "--print", "page"), "--print: expected report, json, question or problem"),
        ((SM70, "--max-model-len", "9"), "FILE: expected a model's config beside"),
        ((SM70, "--set", "buckets.full.split=7"), "buckets[0].split: expected true or false"),
    ],
)
def test_bad_input_is_one_line(
    arguments: tuple[str | Path, ...], line: str, capsys: Capture
) -> None:
    done = run_kvplan(capsys, "layout", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


def test_another_engine_is_refused(config: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "layout", config, "--engine", "atom")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--engine: expected vllm or sglang")


SGLANG = ("--engine", "sglang", "--available", "20GiB", "--context-length", "131072")


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text("mix: [{capacity: 2000, share: 0.7}, {capacity: 12000, share: 0.3}]\n")
    return path


def test_sglangs_ratio_is_compared_with_the_best_split(
    config: Path, workload: Path, capsys: Capture
) -> None:
    done = run_kvplan(capsys, "layout", config, *SGLANG, "--workload", workload)
    assert (done.code, done.err) == (0, "")
    for text in (
        "set: --mamba-full-memory-ratio 2.21",
        "SGLang's own",
        "--mamba-full-memory-ratio 0.9",
        "no split of these bytes holds more than",
        "workload: 2,000 tokens (70.00 %), 12,000 tokens (30.00 %)",
    ):
        assert text in done.out
    as_json = run_kvplan(capsys, "layout", config, *SGLANG, "--workload", workload, "--json")
    found = PoolSplit.model_validate_json(as_json.out)
    assert found.engine is not None
    assert found.pasted is not None
    assert found.engine.requests < found.pasted.requests <= found.best.requests
    problem = run_kvplan(
        capsys, "layout", config, *SGLANG, "--workload", workload, "--print", "problem"
    )
    assert plan(Problem.parse(problem.out)).scale == found.best.requests


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--set", "max_groups=3"), "--set: expected no field to set"),
        (("--print", "question"), "--print: expected report, json or problem for SGLang"),
        (("--workload", "nowhere.yaml"), "nowhere.yaml: expected a readable file"),
        (("--swa-full-tokens-ratio", "x"), "--swa-full-tokens-ratio: expected"),
    ],
)
def test_what_sglangs_split_refuses(
    arguments: tuple[str, ...], line: str, config: Path, capsys: Capture
) -> None:
    done = run_kvplan(capsys, "layout", config, *SGLANG, *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(line)
    assert done.err.count("\n") == 1


def test_too_few_bytes_for_any_split_say_what_falls_short(config: Path, capsys: Capture) -> None:
    few = ("--engine", "sglang", "--available", "1GiB", "--context-length", "131072")
    done = run_kvplan(capsys, "layout", config, *few)
    assert (done.code, done.out) == (1, "")
    assert "is short by" in done.err


def test_a_workload_is_asked_of_vllm_too(config: Path, workload: Path, capsys: Capture) -> None:
    done = run_kvplan(
        capsys, "layout", config, *FLAGS, "--workload", workload, "--print", "question"
    )
    rows = yaml.safe_load(done.out)["requests"]
    assert [(row["capacity"], int(row["weight"])) for row in rows] == [(2000, 7), (12000, 3)]


def test_one_schema_at_a_time(capsys: Capture) -> None:
    done = run_kvplan(capsys, "schema", "--plan", "--layout")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "schema: expected one of --plan, --layout and --layout-answer, got several\n"
    )
