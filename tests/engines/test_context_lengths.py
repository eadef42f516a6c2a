"""The longest request that a config allows, by each engine's own rule.

Right values: ModelConfig._get_and_verify_max_len of vLLM 0.29.0 and 0.33.0 and get_context_length
of SGLang 0.5.23, run on the same configs with transformers 5.19 (also on its 713 default configs).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import sglang, vllm
from kvplan.models.engines.architecture import load_model
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.config.config_overrides import Overrides
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.sglang.launch.context import model_context
from kvplan.models.engines.trtllm.lengths import model_length as trtllm_length
from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.models.engines.vllm.max_model_len import length_tokens, model_length
from support.cli import run_kvplan
from support.vllm_server import CONFIGS

QWEN = CONFIGS["Qwen3-32B"]  # 40,960 positions
NAMELESS = {  # with a class of its own, whose defaults are not at hand
    **{key: value for key, value in QWEN.items() if key != "max_position_embeddings"},
    "model_type": "internlm3",
    "architectures": ["InternLM3ForCausalLM"],
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
PHI = {
    "model_type": "phi3",
    "architectures": ["Phi3ForCausalLM"],
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "hidden_size": 3072,
    "max_position_embeddings": 131_072,
    "original_max_position_embeddings": 4096,
    "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]},
}
BLOOM = {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "torch_dtype": "float16"}
BLOOM |= {"n_layer": 2, "n_head": 32, "hidden_size": 4096}
GEMMA = {
    **CONFIGS["gemma-3-4b-it"]["text_config"],
    "sliding_window_pattern": 6,
    "max_position_embeddings": 131_072,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
BY_KIND = {
    "full_attention": {"rope_type": "linear", "factor": 8.0},
    "sliding_attention": {"rope_type": "default"},
}


class Length(NamedTuple):
    """Default and largest of vLLM 0.29 and 0.33 (0: any), and SGLang's context."""

    config: dict[str, Any]
    old: tuple[int, int]
    new: tuple[int, int]
    sglang: int


def both(length: int) -> tuple[int, int]:
    return length, length


DECLARED = {
    "plain": Length(QWEN, both(40_960), both(40_960), 40_960),
    "YaRN": Length({**QWEN, "rope_scaling": YARN}, both(131_072), both(40_960), 40_960),
    "YaRN without its original": Length(
        {**QWEN, "rope_scaling": {"type": "yarn", "factor": 4.0}},
        *(both(163_840), both(40_960), 40_960),
    ),
    "left to its class": Length(
        {key: value for key, value in QWEN.items() if key != "max_position_embeddings"},
        *(both(32_768), both(32_768), 32_768),
    ),
    "linear": Length(
        {**QWEN, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
        *(both(163_840), both(163_840), 163_840),
    ),
    "linear with an original": Length(
        {**QWEN, "rope_scaling": {**YARN, "type": "linear", "rope_type": "linear"}},
        *(both(163_840), both(163_840), 40_960),
    ),
    "dynamic": Length(
        {**QWEN, "rope_scaling": {"type": "dynamic", "factor": 2.5}},
        *(both(102_400), both(102_400), 102_400),
    ),
    "by kind of layer": Length(
        {**QWEN, "rope_parameters": BY_KIND}, both(327_680), both(327_680), 40_960
    ),
    "longrope": Length(PHI, (4096, 131_072), (4096, 131_072), 131_072),
    "Gemma 3": Length(GEMMA, both(131_072), both(131_072), 131_072),
    "DeepSeek": Length(CONFIGS["DeepSeek-R1"], both(163_840), both(163_840), 163_840),
    "model_max_length above": Length(
        {**QWEN, "model_max_length": 262_144}, both(262_144), both(262_144), 262_144
    ),
    "model_max_length below": Length(
        {**QWEN, "model_max_length": 8192}, both(8192), both(8192), 8192
    ),
    "seq_length": Length({**QWEN, "seq_length": 8192}, both(8192), both(8192), 8192),
    "max_seq_len": Length({**QWEN, "max_seq_len": 999_999}, both(40_960), both(40_960), 999_999),
    "n_positions": Length(CONFIGS["gpt2"], both(1024), both(1024), 1024),
    "a family without one": Length(BLOOM, (2048, 0), (2048, 0), 2048),
}


def architecture(folder: Path, config: dict[str, Any], over: Overrides | None) -> Architecture:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return load_model(path, over)[0]


def vllm_length(known: Architecture, version: str, flag: str | None = None) -> tuple[int, int]:
    length = model_length(known, {"rope_scaling": flag}, version_of(version))
    return length.default, length.largest


@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_length_is_the_engines(name: str, tmp_path: Path) -> None:
    case = DECLARED[name]
    known = architecture(tmp_path, case.config, None)
    assert [vllm_length(known, version) for version in ("0.19.0", "0.29.0")] == [case.old] * 2
    assert [vllm_length(known, version) for version in ("0.30.0", "0.33.0")] == [case.new] * 2
    assert model_context(known) == case.sglang


NESTED = CONFIGS["Qwen3.5-27B"]  # 262,144 positions in its text_config
LONG = {**YARN, "original_max_position_embeddings": 262_144}


@pytest.mark.parametrize(
    ("config", "fields", "old", "new", "context"),
    [
        (QWEN, {"rope_parameters": YARN}, 131_072, 40_960, 40_960),
        (QWEN, {"rope_scaling": YARN}, 131_072, 40_960, 40_960),
        (QWEN, {"rope_scaling": YARN, "max_position_embeddings": 131_072}, *[131_072] * 3),
        (QWEN, {"max_position_embeddings": 131_072}, 131_072, 131_072, 131_072),
        (QWEN, {"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, 0, 40_960, 163_840),
        (QWEN, {"rope_scaling": {**YARN, "rope_type": None, "type": "yarn"}}, 0, 0, 40_960),
        (QWEN, {"rope_parameters": {"rope_type": "linear", "factor": 3.0}}, *[122_880] * 3),
        (NESTED, {"text_config": {"rope_parameters": LONG}}, 1_048_576, 262_144, 262_144),
        (NESTED, {"rope_parameters": LONG}, 262_144, 262_144, 262_144),
        (NESTED, {"text_config": {"max_position_embeddings": 1_010_000}}, *[1_010_000] * 3),
        (NESTED, {"max_position_embeddings": 1_010_000}, *[262_144] * 3),
    ],
)
def test_overrides_change_the_length_as_each_engine_lays_them(
    config: dict[str, Any], fields: dict[str, Any], old: int, new: int, context: int, tmp_path: Path
) -> None:
    """A length of 0: vLLM fails on the override."""
    known = architecture(tmp_path, config, Overrides("--hf-overrides", fields))
    for version, expected in (("0.29.0", old), ("0.33.0", new)):
        if expected:
            assert vllm_length(known, version) == (expected, expected)
        else:
            with pytest.raises(InvalidProblem, match=r"^--hf-overrides: expected "):
                vllm_length(known, version)
    flag = "--json-model-override-args"
    merged = architecture(tmp_path, config, Overrides(flag, fields, "top"))
    assert model_context(merged) == context


def test_a_config_without_a_length_is_asked_for_one(tmp_path: Path) -> None:
    known = architecture(tmp_path, NAMELESS, None)
    given = read_settings(vllm.FLAGS, ["--available", "40GiB"], {})
    with pytest.raises(InvalidProblem, match=r"--max-model-len: expected tokens \(the config"):
        vllm.build(known, given)
    longer = read_settings(vllm.FLAGS, ["--available", "90GiB", "--max-model-len", "200000"], {})
    assert vllm.build(known, longer).batches[0].requests[0].capacity == 200_000


def test_a_length_that_a_config_leaves_to_its_class_is_not_refused(tmp_path: Path) -> None:
    bare = {key: value for key, value in QWEN.items() if key != "max_position_embeddings"}
    known = architecture(tmp_path, bare, None)
    given = read_settings(vllm.FLAGS, ["--available", "90GiB", "--max-model-len", "40960"], {})
    assert vllm.build(known, given).batches[0].requests[0].capacity == 40_960
    line = "--max-model-len: 40960 (above 32768 (its class's default): VLLM_ALLOW_LONG"
    assert any(one.startswith(line) for one in vllm.assumptions(known, given))
    longer = read_settings(sglang.FLAGS, ["--available", "9GiB", "--context-length", "40960"], {})
    assert sglang.build(known, longer)


def model(
    capsys: pytest.CaptureFixture[str], folder: Path, line: str, config: dict[str, Any] = QWEN
) -> Any:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    words = ["--available", "60GiB", "--json", "--", *line.split()]
    return run_kvplan(capsys, "model", path, *words)


REFUSED = {
    "vllm serve m --max-model-len 131072": (
        "--max-model-len: expected at most 40960 (the config's max_position_embeddings), or "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 before vllm serve, got 131072"
    ),
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=0 vllm serve m --max-model-len 40961": "at most 40960",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN=yes vllm serve m --max-model-len 40961": "0 or 1, got 'yes'",
    'vllm serve m --max-model-len 128k --hf-overrides {"rope_parameters":{"rope_type":"yarn",'
    '"factor":4.0,"original_max_position_embeddings":32768}}': "must say YaRN's scaled length",
    "python -m sglang.launch_server --model m --context-length 131072": (
        "--context-length: expected at most 40960, or SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 "
        "before the command, got 131072"
    ),
}


@pytest.mark.parametrize("line", REFUSED)
def test_a_length_above_it_is_refused_with_the_largest_that_starts(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = model(capsys, tmp_path, line)
    assert (done.code, done.out) == (2, "")
    assert REFUSED[line] in done.err


@pytest.mark.parametrize(
    ("line", "length"),
    [
        ("VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve m --max-model-len 128K", 131_072),
        ("env VLLM_ALLOW_LONG_MAX_MODEL_LEN=true vllm serve m --max-model-len 131072", 131_072),
        ("vllm serve m --max-model-len 40960", 40_960),
        ("vllm serve m --max-model-len auto", 40_960),
        ("vllm serve m --max-model-len -1", 40_960),
        ("vllm serve m", 40_960),
        (
            'vllm serve m --max-model-len 131072 --rope-scaling {"rope_type":"yarn",'
            '"factor":4.0,"original_max_position_embeddings":32768}',
            131_072,
        ),
        ('vllm serve m --rope-scaling {"type":"dynamic","factor":2.0}', 81_920),
    ],
)
def test_the_environment_or_the_config_allows_a_length(
    line: str, length: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    done = model(capsys, tmp_path, line)
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    assert f"Maximum concurrency for {length:,} tokens per request" in document["figures"]
    said = [one for one in document["assumed"] if one.startswith("--max-model-len")]
    assert bool(said) == ((length == 131_072 and "ALLOW" in line) or "--max-model-len" not in line)


def test_a_longer_context_of_sglang_needs_its_variable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "python -m sglang.launch_server --model m --context-length 131072"
    done = model(capsys, tmp_path, f"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=yes {line}")
    assert done.code == 0
    fields = '{"max_position_embeddings":131072}'
    done = model(capsys, tmp_path, f"{line} --json-model-override-args {fields}")
    assert done.code == 0


def test_a_draft_runs_at_the_targets_context(tmp_path: Path) -> None:
    """SGLang gives the draft the target's context; vLLM 0.33 cuts the target to a draft model."""
    draft = tmp_path / "draft"
    draft.mkdir()
    (draft / "config.json").write_text(json.dumps({**QWEN, "max_position_embeddings": 2048}))
    known = architecture(tmp_path, QWEN, None)
    words = ["--available", "40GiB", "--speculative-algorithm", "STANDALONE"]
    words += ["--speculative-draft-model-path", str(draft)]
    with pytest.raises(InvalidProblem, match="at most 2048, the draft's own length, or SGLANG_"):
        sglang.build(known, read_settings(sglang.FLAGS, words, {}))
    assert sglang.build(known, read_settings(sglang.FLAGS, [*words, "--allow-longer-context"], {}))

    data = json.dumps({"method": "draft_model", "model": str(draft), "num_speculative_tokens": 3})
    lengths = {}
    for version in ("0.32.0", "0.33.0"):
        words = ["--engine-version", version, "--speculative-config", data]
        given = read_settings(vllm.FLAGS, words, {})
        lengths[version] = length_tokens(known, given)[0]
    assert lengths == {"0.32.0": 40_960, "0.33.0": 2048}


def test_engines_that_cut_a_length_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """TensorRT-LLM warns and cuts, ATOM cuts, llama.cpp warns and allocates."""
    line = "trtllm-serve m --max_batch_size 4 --max_seq_len 131072"
    document = json.loads(model(capsys, tmp_path, line).out)
    assert document["problem"]["batches"][0]["requests"][0]["capacity"] == 40_960
    said = "--max_seq_len: 131072 -> 40960 (the model's; with TLLM_ALLOW_LONG_MAX_MODEL_LEN=1 "
    assert any(one.startswith(said) for one in document["assumed"])
    allowed = json.loads(model(capsys, tmp_path, f"TLLM_ALLOW_LONG_MAX_MODEL_LEN=1 {line}").out)
    assert allowed["problem"]["batches"][0]["requests"][0]["capacity"] == 131_072

    served = model(capsys, tmp_path, "llama-server -m m -c 131072 -np 1")
    document = json.loads(served.out)
    assert document["figures"]["n_ctx"] == "131072"
    assert any("trained with 40960: llama.cpp warns" in one for one in document["assumed"])

    line = "python -m atom.entrypoints.openai_server --model m --max-model-len 131072"
    document = json.loads(model(capsys, tmp_path, line, {**QWEN, "model_type": "qwen3"}).out)
    assert "--max-model-len: 131072 -> 40960 (the model's)" in document["assumed"]


@pytest.mark.parametrize(
    ("config", "length"),
    [
        (QWEN, 40_960),
        ({**QWEN, "rope_scaling": YARN}, 40_960),
        ({**QWEN, "rope_scaling": {"type": "linear", "factor": 1.5}}, 61_440),
        (BLOOM, 2048),
        (NAMELESS, 0),
    ],
)
def test_tensorrt_llm_infers_its_length(
    config: dict[str, Any], length: int, tmp_path: Path
) -> None:
    assert trtllm_length(architecture(tmp_path, config, None)) == length


def test_a_log_is_never_refused_for_its_length(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "INFO 07-01 10:00:00 [core.py:9] Initializing a V1 LLM engine (v0.25.1) with config: x\n"
        "INFO 07-01 10:00:09 [gpu_worker.py:9] Available KV cache memory: 60.0 GiB\n"
        "INFO 07-01 10:00:09 [kv_cache_utils.py:9] GPU KV cache size: 245,760 tokens\n"
        "INFO 07-01 10:00:09 [kv_cache_utils.py:9] Maximum concurrency for 131,072 tokens per "
        "request: 1.88x\n"
    )
    config = tmp_path / "config.json"
    config.write_text(json.dumps(QWEN))
    done = run_kvplan(capsys, "model", config, "--from-log", log, "--json")
    assert (done.code, done.err) == (0, "")
    assert "for 131,072 tokens per request" in " ".join(json.loads(done.out)["figures"])
    typed = run_kvplan(capsys, "model", config, "--from-log", log, "--max-model-len", "131072")
    assert (typed.code, "at most 40960" in typed.err) == (2, True)
