"""Models and settings side by side: each row is what `kvplan model` says of it."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver import plan
from kvplan.solver.matrix import matrix
from kvplan.solver.matrix.started import requests_held
from support.cases import CASES
from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]
CONFIGS = json.loads((Path(CASES["strata_765"]).parent / "model_configs.json").read_text())
GIB = 2**30


@pytest.fixture
def models(tmp_path: Path) -> dict[str, str]:
    """Config files of two models: all-attention, and attention with windows."""
    paths = {}
    for name in ("Qwen3-8B", "gpt-oss-120b"):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**CONFIGS[name], "torch_dtype": "bfloat16"}))
        paths[name] = str(path)
    return paths


def printed(capsys: Capture, model: str, *flags: str) -> dict[str, str]:
    done = run_kvplan(capsys, "model", model, *flags, "--json")
    figures: dict[str, str] = json.loads(done.out)["figures"]
    return figures


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_row_is_what_the_model_command_says(
    size: int, models: dict[str, str], capsys: Capture
) -> None:
    """vLLM's concurrency, cut to two digits, and the even share of the weights."""
    flags = ("--gpu", "H100-80GB", "--max-model-len", "16384")
    table = matrix(
        list(models.values()),
        {"gpu": "H100-80GB", "tensor-parallel-size": [size]},
        arguments=["--max-model-len", "16384"],
        weights_gib={models["Qwen3-8B"]: 16, models["gpt-oss-120b"]: 64},
    )
    assert table["status"].tolist() == ["starts", "starts"]
    for row, weights in zip(table.to_dict("records"), (16, 64), strict=True):
        share = f"--weights-gib={Fraction(weights, size)}" if size == 3 else str(weights / size)
        figures = printed(
            capsys,
            row["model"],
            *flags,
            "--weights-gib",
            share,
            "--tensor-parallel-size",
            str(size),
        )
        text = next(value for name, value in figures.items() if name.startswith("Maximum"))
        assert row["requests"] == int(float(text.removesuffix("x")))
        assert row["tokens"] / 16384 == pytest.approx(float(text.removesuffix("x")), abs=0.006)
        assert row["tokens_per_gpu"] == row["tokens"] // size
        assert row["gpus"] == size


def test_the_smallest_machine_for_users(models: dict[str, str]) -> None:
    """Qwen3-8B: 36 layers x 8 heads x 128 x 2 x 2 B = 147,456 B a token."""
    vary = {"gpu": "H100-80GB,L40S", "tensor-parallel-size": "1,2,4", "kv-cache-dtype": "auto,fp8"}
    every = matrix([models["Qwen3-8B"]], vary, weights_gib=16, tokens=32_768)
    table = matrix([models["Qwen3-8B"]], vary, weights_gib=16, tokens=32_768, users=50)
    assert len(every) == len(table) == 12
    assert table["machine_bytes"].is_monotonic_increasing
    names = ["gpu", "tensor-parallel-size", "kv-cache-dtype"]
    single = every.set_index(names)
    for row in table.to_dict("records"):
        one = single.loc[tuple(row[name] for name in names)]
        assert (row["replicas"] - 1) * one["requests"] < 50 <= row["replicas"] * one["requests"]
        assert row["requests"] == row["replicas"] * one["requests"]
        assert row["gpus"] == row["replicas"] * one["gpus"]
    for row in every.to_dict("records"):
        size, each = row["gpus"], 147_456 // (2 if row["kv-cache-dtype"] == "fp8" else 1)
        assert row["requests"] * 32_768 * each // size <= row["kv_bytes"]
        assert (row["requests"] + 1) * 32_768 * each // size > row["kv_bytes"]


def test_a_flag_that_admits_fewer_requests_caps_them(models: dict[str, str]) -> None:
    vary = {"gpu": "H100-80GB", "max-num-seqs": "2,4,1000"}
    table = matrix([models["Qwen3-8B"]], vary, weights_gib=16, tokens=32_768)
    assert table["requests"].tolist()[:2] == [2, 4]
    assert table["tokens"].tolist()[:2] == [65_536, 131_072]
    assert table["requests"][2] == 11


def test_what_a_launch_does_not_serve_is_rejected(models: dict[str, str]) -> None:
    vary = {"gpu": "H100-80GB", "max-model-len": "16384,32768"}
    table = matrix([models["Qwen3-8B"]], vary, weights_gib=16, tokens=32_768)
    assert table["status"].tolist() == ["rejected", "starts"]
    reason = "--tokens: expected at most 16384, the longest request that this launch serves"
    assert table["reason"][0].startswith(reason)
    with pytest.raises(InvalidProblem, match="expected one replica a row"):
        matrix(
            [models["Qwen3-8B"]],
            {"gpu": "H100-80GB"},
            weights_gib=16,
            arguments=["--data-parallel-size", "2"],
        )
    with pytest.raises(InvalidProblem, match="--weights-gib of the whole model"):
        matrix([models["Qwen3-8B"]], {"gpu": "H100-80GB"})


def test_short_and_underscored_names_are_the_same_flag(models: dict[str, str]) -> None:
    tables = [
        matrix([models["Qwen3-8B"]], {"gpu": "H100-80GB", name: "1,2"}, weights_gib=16)
        for name in ("tensor-parallel-size", "tp", "-tp", "tensor_parallel_size")
    ]
    for table in tables:
        assert table["tokens"].tolist() == tables[0]["tokens"].tolist()


def test_the_best_first(models: dict[str, str]) -> None:
    vary = {"gpu": "L40S,H100-80GB", "kv-cache-dtype": "auto,fp8"}
    table = matrix([models["Qwen3-8B"]], vary, weights_gib=16, best="tokens per gpu")
    assert table["tokens_per_gpu"].is_monotonic_decreasing
    assert table.iloc[0]["kv-cache-dtype"] == "fp8"


def test_refusals_keep_their_reason(models: dict[str, str]) -> None:
    table = matrix([models["Qwen3-8B"]], {"gpu": "T4,H100-80GB"}, weights_gib=16)
    refused, started = table.to_dict("records")
    assert (refused["status"], started["status"]) == ("refused", "starts")
    assert re.match(r"No available memory for the cache blocks: -\d+\.\d\d GiB", refused["reason"])
    assert pd.isna(refused["requests"])


def test_what_an_engine_does_not_take_is_rejected(models: dict[str, str]) -> None:
    table = matrix(
        [models["Qwen3-8B"]], {"gpu": "L40S", "kv-cache-dtype": "auto,fp9"}, weights_gib=16
    )
    assert table["status"].tolist() == ["starts", "rejected"]
    assert "fp9" in table["reason"][1]


def test_every_engine_in_one_table(models: dict[str, str]) -> None:
    engines = "vllm,sglang,tensorrt-llm,llama.cpp,atom"
    table = matrix(
        [models["Qwen3-8B"]], {"engine": engines, "gpu": "H100-80GB"}, weights_gib=16, tokens=8192
    )
    assert table["status"].tolist() == ["starts"] * 5
    held = table["requests"] * 8192 * 147_456
    assert (held <= table["kv_bytes"]).all()


def test_switches_fields_and_variants(models: dict[str, str]) -> None:
    """Without graphs there is more room; so there is with a larger share of the card."""
    vary = {
        "gpu": "H100-80GB",
        "enforce-eager": "off,on",
        "ranks.*.memory.utilization": "0.8,0.9",
    }
    tokens = matrix([models["Qwen3-8B"]], vary, weights_gib=16)["tokens"].tolist()
    assert tokens[0] < tokens[1] < tokens[3]
    assert tokens[0] < tokens[2] < tokens[3]
    named = {"gpu": "H100-80GB", "variant": ["none", "--gpu-memory-utilization 0.95"]}
    table = matrix([models["Qwen3-8B"]], named, weights_gib=16)
    assert table["tokens"][1] > table["tokens"][0]


def test_requests_of_several_pools_are_the_least_of_them() -> None:
    """100 blocks of 16 tokens at 97 %, 7 of 10 states: by hand."""
    problem = Problem.model_validate(
        {
            "ranks": [{"name": "r", "quota": 107_000}],
            "resume_utilization": "0.97",
            "pools": [
                {"name": "kv", "bytes": 1000, "max_blocks": 100},
                {"name": "state", "bytes": 1000, "resume_headroom": False, "min_blocks": 7},
            ],
            "caches": [
                {"name": "full", "pool": "kv", "kind": "full"},
                {"name": "ssm", "pool": "state", "kind": "state"},
            ],
        }
    )
    answer = plan(problem)
    assert dict(answer.blocks) == {"kv": 100, "state": 7}
    assert requests_held(problem, answer, 161) == 7
    assert requests_held(problem, answer, 305) == Fraction(97, 20)
    assert requests_held(problem, answer, 16 * 98) == Fraction(97, 98)


@pytest.mark.parametrize(
    ("vary", "options", "message"),
    [
        ({"gpu": "X100"}, {}, "--gpu: expected one of"),
        ({"kv-cach-dtype": "fp8"}, {}, "--vary: expected a flag of vllm, or 'kv-cache-dtype'"),
        ({"gpu": ""}, {}, "--vary gpu: expected values, as A,B,C"),
        ({"gpu": "L40S,L40S"}, {}, "--vary gpu: expected each value once"),
        ({"engine": "vlm"}, {}, "--engine: expected"),
        ({"gpu": "L40S"}, {"best": "speed"}, "--best: expected one of tokens_per_gpu"),
        ({"gpu": "L40S"}, {"weights_gib": "much"}, "--weights-gib: expected a number of GiB"),
        ({"gpu": "L40S"}, {"weights_gib": {"x": 1}}, "--weights-gib: expected"),
    ],
)
def test_bad_input(
    vary: dict[str, str], options: dict[str, Any], message: str, models: dict[str, str]
) -> None:
    with pytest.raises(InvalidProblem) as caught:
        matrix([models["Qwen3-8B"]], vary, **{"weights_gib": 16, **options})
    assert str(caught.value.faults[0]).startswith(message)


def test_the_command(models: dict[str, str], capsys: Capture, tmp_path: Path) -> None:
    arguments = (
        *("matrix", models["Qwen3-8B"], models["gpt-oss-120b"], "--max-model-len", "16384"),
        *("--weights-gib", "16", "--weights-gib", "gpt-oss-120b.json=64"),
        *("--vary", "gpu=H100-80GB", "--vary", "tensor-parallel-size=1,2"),
    )
    done = run_kvplan(capsys, *arguments, "--json")
    rows = json.loads(done.out)
    assert done.code == 0
    assert [row["gpus"] for row in rows] == [1, 2, 1, 2]
    assert [row["request_tokens"] for row in rows] == [16384] * 4
    out = tmp_path / "m.csv"
    assert run_kvplan(capsys, *arguments, "--out", out).code == 0
    assert pd.read_csv(out)["requests"].tolist() == [row["requests"] for row in rows]
    many = run_kvplan(capsys, *arguments, "--users", "1000", "--tokens", "16K", "--json")
    assert all(row["requests"] >= 1000 for row in json.loads(many.out))
    none = run_kvplan(capsys, *arguments, "--users", "5", "--vary", "gpu-memory-utilization=0.01")
    assert (none.code, none.out) == (1, "")
    assert none.err == "no row holds a request; without --users each says why\n"
    bad = run_kvplan(capsys, *arguments, "--tokens", "32kk")
    assert bad.err.startswith("--tokens: expected a length in tokens, such as 32768 or 32K")


def test_one_card_for_every_row(models: dict[str, str], capsys: Capture) -> None:
    arguments = ("matrix", models["Qwen3-8B"], "--weights-gib", "16", "--json")
    several = run_kvplan(capsys, *arguments, "--vary", "gpu=L40S")
    assert run_kvplan(capsys, *arguments, "--gpu", "L40S") == several
    assert several.code == 0
    both = run_kvplan(capsys, *arguments, "--gpu", "L40S", "--vary", "gpu=L40S,L4")
    assert both == (2, "", "--gpu: expected one of --gpu and --vary gpu=, got both\n")
