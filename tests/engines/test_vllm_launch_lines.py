"""Public vLLM launch lines, pasted as they were written; each with its source."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import load_model, read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.command_line.typed import config_overrides
from kvplan.solver import plan
from support.cli import run_kvplan
from support.vllm_server import CONFIGS

RECIPES = "vllm-project/recipes (8959cf6) "


class Pasted(NamedTuple):
    """One line: where it was written, the config it is for, and what must be read from it."""

    source: str
    model: str
    line: str
    read: dict[str, Any]
    notes: int


LINES = [
    Pasted(
        RECIPES + "OpenAI/GPT-OSS.md",
        "gpt-oss-120b",
        "vllm serve openai/gpt-oss-120b --tensor_parallel_size 8 --max-model-len 131072 "
        "--max-num-batched-tokens 10240 --max-num-seqs 128 --gpu-memory-utilization 0.85 "
        "--no-enable-prefix-caching",
        {"tensor_parallel_size": 8, "max_num_seqs": 128, "enable_prefix_caching": False},
        0,
    ),
    Pasted(
        RECIPES + "OpenAI/GPT-OSS.md, ROCm",
        "gpt-oss-120b",
        "vllm serve openai/gpt-oss-120b --tensor-parallel-size=8 "
        "--attention-backend ROCM_AITER_UNIFIED_ATTN -cc.pass_config.fuse_rope_kvcache=True "
        "-cc.use_inductor_graph_partition=True --gpu-memory-utilization 0.95 --block-size=64",
        {"block_size": 64, "attention_backend": "ROCM_AITER_UNIFIED_ATTN"},
        0,
    ),
    Pasted(
        RECIPES + "models/openai/gpt-oss-120b.yaml",
        "gpt-oss-120b",
        "vllm serve openai/gpt-oss-120b --host 0.0.0.0 --port 8000 --seed 42 "
        "--tensor-parallel-size 2 --data-parallel-size 4 --max-model-len 9216 "
        "--max-num-batched-tokens 16384 --max-num-seqs 2048 --gpu-memory-utilization 0.86 "
        "--kv-cache-dtype fp8 --load-format runai_streamer --no-enable-prefix-caching "
        "--async-scheduling",
        {"kv_cache_dtype": "fp8", "async_scheduling": True, "max_num_batched_tokens": 16384},
        2,
    ),
    Pasted(
        RECIPES + "Qwen/Qwen3.md",
        "Qwen3-235B-A22B",
        "vllm serve Qwen/Qwen3-235B-A22B --trust-remote-code -tp 4 --disable-log-requests "
        "--swap-space 32 --distributed-executor-backend mp --max-num-batched-tokens 32768 "
        "--max-model-len 32768 --no-enable-prefix-caching --gpu-memory-utilization 0.8",
        {"tensor_parallel_size": 4, "max_model_len": "32768"},
        1,
    ),
    Pasted(
        RECIPES + "Qwen/Qwen3-Next.md",
        "Qwen3-Next-80B-A3B-Thinking",
        "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct --tokenizer-mode auto "
        "--gpu-memory-utilization 0.8 --speculative-config "
        '\'{"method": "qwen3_next_mtp", "num_speculative_tokens": 2}\' --tensor-parallel-size 4 '
        "--no-enable-chunked-prefill --no-enable-prefix-caching",
        {"enable_chunked_prefill": False},
        1,
    ),
    Pasted(
        RECIPES + "Qwen/Qwen3.5.md",
        "Qwen3.5-397B-A17B",
        "vllm serve Qwen/Qwen3.5-397B-A17B-FP8 -tp 2 --enable-expert-parallel "
        "--language-model-only --reasoning-parser qwen3 --enable-prefix-caching",
        {"tensor_parallel_size": 2, "enable_prefix_caching": True},
        2,
    ),
    Pasted(
        RECIPES + "DeepSeek/DeepSeek-V3_2.md",
        "DeepSeek-V3.2",
        "vllm serve deepseek-ai/DeepSeek-V3.2 --tensor-parallel-size 8 "
        "--tokenizer-mode deepseek_v32 --tool-call-parser deepseek_v32 "
        "--enable-auto-tool-choice --reasoning-parser deepseek_v3",
        {"tensor_parallel_size": 8},
        1,
    ),
    Pasted(
        RECIPES + "models/zai-org/GLM-5.2.yaml",
        "GLM-5.2",
        "VLLM_DEEP_GEMM_WARMUP=skip vllm serve zai-org/GLM-5.2-FP8 --kv-cache-dtype fp8_e4m3 "
        "--tensor-parallel-size 8 --speculative-config.method mtp "
        "--speculative-config.num_speculative_tokens 5 --max-num-seqs 32 "
        "--tool-call-parser glm47 --reasoning-parser glm45 --enable-auto-tool-choice "
        "--served-model-name glm-5.2-fp8",
        {"speculative_config": '{"method": "mtp", "num_speculative_tokens": 5}'},
        1,
    ),
    Pasted(
        RECIPES + "MiniMax/MiniMax-M2.md",
        "MiniMax-M2.5",
        "vllm serve MiniMaxAI/MiniMax-M2.7 --tensor-parallel-size 4 --enable-expert-parallel "
        "--tool-call-parser minimax_m2 --reasoning-parser minimax_m2 --compilation-config "
        '\'{"mode":3,"pass_config":{"fuse_minimax_qk_norm":true}}\' --enable-auto-tool-choice',
        {"compilation_config": '{"mode":3,"pass_config":{"fuse_minimax_qk_norm":true}}'},
        2,
    ),
    Pasted(
        RECIPES + "NVIDIA/Nemotron-3-Nano-30B-A3B.md",
        "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        "vllm serve nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 --max-num-seqs 8 "
        "--tensor-parallel-size 1 --max-model-len 262144 --port 8000 --trust-remote-code "
        "--enable-auto-tool-choice --tool-call-parser qwen3_coder "
        "--reasoning-parser-plugin nano_v3_reasoning_parser.py --reasoning-parser nano_v3",
        {"max_num_seqs": 8, "max_model_len": "262144"},
        1,
    ),
    Pasted(
        RECIPES + "moonshotai/Kimi-K2.5.md",
        "Kimi-K2-Instruct",
        "vllm serve nvidia/Kimi-K2.5-NVFP4 -tp 4 --mm-encoder-tp-mode data "
        "--compilation_config.pass_config.fuse_allreduce_rms true --tool-call-parser kimi_k2 "
        "--reasoning-parser kimi_k2 --enable-auto-tool-choice --trust-remote-code",
        {"compilation_config": '{"pass_config": {"fuse_allreduce_rms": true}}'},
        2,
    ),
    Pasted(
        RECIPES + "Google/Gemma4.md",
        "Gemma-4-31B-IT-NVFP4",
        "vllm serve google/gemma-4-31B-it --tensor-parallel-size 2 --max-model-len 32768 "
        '--no-enable-prefix-caching --limit-mm-per-prompt \'{"image": 0, "audio": 0}\' '
        "--async-scheduling",
        {"async_scheduling": True},
        1,
    ),
    Pasted(
        "vllm-project/vllm#49011",
        "Qwen3.6-27B-NVFP4",
        "vllm serve unsloth/Qwen3.6-27B-NVFP4   --host 0.0.0.0   --port 8000   "
        "--served-model-name qwen3.6   --tensor-parallel-size 1   --gpu-memory-utilization 0.7   "
        "--max-model-len 1048576   --max-num-seqs 1   --max-num-batched-tokens 32768   "
        "--enable-prefix-caching   --enable-chunked-prefill   --async-scheduling   "
        "--trust-remote-code   --load-format fastsafetensors   --reasoning-parser qwen3   "
        "--tool-call-parser qwen3_xml   --enable-auto-tool-choice   --kv-cache-dtype nvfp4   "
        '--compilation-config \'{"cudagraph_mode":"PIECEWISE"}\'   '
        "--attention-backend FLASHINFER   --enable-flashinfer-autotune   "
        '--speculative-config \'{"method":"mtp","num_speculative_tokens":2}\'   '
        '--hf-overrides \'{"text_config":{"rope_parameters":{"rope_type": "yarn", '
        '"factor": 4.0,"original_max_position_embeddings": 262144}}}\'',
        {"kv_cache_dtype": "nvfp4", "max_num_seqs": 1},
        1,
    ),
    Pasted(
        "ovg-project/kvcached#210",
        "Meta-Llama-3.1-70B",
        "ENABLE_KVCACHED=true KVCACHED_AUTOPATCH=1 VLLM_USE_V1=1 "
        "VLLM_ATTENTION_BACKEND=FLASH_ATTN vllm serve unsloth/Llama-3.1-70B-Instruct "
        "--disable-log-requests --no-enable-prefix-caching --port 8001 "
        "--tensor-parallel-size 8 --enable-sleep-mode",
        {"attention_backend": "FLASH_ATTN", "tensor_parallel_size": 8},
        1,
    ),
    Pasted(
        "docs.vllm.ai, deployment with Docker",
        "Qwen3-0.6B",
        "docker run --runtime nvidia --gpus all -v /root/.cache/huggingface:/root/.cache "
        '--env "HF_TOKEN=x" -p 8000:8000 --ipc=host vllm/vllm-openai:v0.25.1 '
        "--model Qwen/Qwen3-0.6B --max-model-len 32k",
        {"engine_version": "0.25.1", "max_model_len": "32k"},
        1,
    ),
]


@pytest.mark.parametrize("pasted", LINES, ids=lambda pasted: pasted.source)
def test_a_public_line_pastes_unchanged(pasted: Pasted, tmp_path: Path) -> None:
    words = ["--available", "60GiB", "--dtype", "bfloat16", *shlex.split(pasted.line)]
    if "yarn" in pasted.line:  # of July 2026: since 0.30 YaRN's factor is left out
        words = ["--engine-version", "0.25.1", *words]
    given = read_settings(vllm.FLAGS, words, {}, vllm.DIALECT)
    assert {key: given[key] for key in pasted.read} == pasted.read
    assert len(given.notes) == pasted.notes
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[pasted.model]))
    known, _ = load_model(path, config_overrides(given))
    problem = vllm.build(known, given)
    assert plan(problem).blocks["paged"] > 0


def test_the_command_takes_a_line_behind_two_dashes(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Meta-Llama-3.1-70B"]))
    line = "vllm serve ORG/MODEL -tp 8 --max-model-len 128k --enforce-eager --port 1"
    done = run_kvplan(capsys, "model", path, "--available", "6GiB", "--json", "--", *line.split())
    document = json.loads(done.out)
    assert (done.code, document["refused"]) == (0, False)
    assert "Maximum concurrency for 128,000 tokens per request" in document["figures"]
    assert "1 flag leaves the sizes alone: --port" in document["assumed"]


def test_another_engine_than_the_lines_is_refused(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_kvplan(
        capsys, "model", "x.json", "--engine", "sglang", "--", "vllm", "serve", "ORG/MODEL"
    )
    assert (done.code, done.err) == (
        2,
        "--engine: expected vllm, whose command line follows, got sglang\n",
    )


def test_an_abbreviation_is_completed_as_argparse_does() -> None:
    """vllm-project/recipes, Qwen/Qwen3-VL.md: --tensor-parallel 4."""
    given = read_settings(vllm.FLAGS, ["--tensor-parallel", "4"], {}, vllm.DIALECT)
    assert given["tensor_parallel_size"] == 4
    with pytest.raises(InvalidProblem, match="--max-num: expected a flag of this engine"):
        read_settings(vllm.FLAGS, ["--max-num", "4"], {}, vllm.DIALECT)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("--use-replayssm", "rings beside the states are not modelled"),
        ("--config serve.yaml", "the file is not read"),
        ("--mm-ipc-gpu-memory-gb 2", "lower --kv-cache-memory-bytes or --available"),
        ("--runner pooling", "one of auto, generate"),
        (
            "--speculative-config.method eagle3 --speculative-config.num_speculative_tokens 3 "
            "--speculative-config.model org/draft",
            "the path of the draft's config.json",
        ),
        ("--gpu-mem-utilization 0.9", "'--gpu-memory-utilization'"),
    ],
)
def test_flags_that_touch_memory_are_never_dropped(line: str, fault: str) -> None:
    known = read_architecture(CONFIGS["Qwen3-8B"])
    words = ["--available", "9GiB", *line.split()]
    with pytest.raises(InvalidProblem) as refusal:
        vllm.build(known, read_settings(vllm.FLAGS, words, {}, vllm.DIALECT))
    assert fault in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("128k", 128_000), ("128K", 131_072), ("1.5M", None), ("1.5m", 1_500_000), ("8K", 8192)],
)
def test_human_lengths_are_read_as_vllm_reads_them(text: str, tokens: int | None) -> None:
    known = read_architecture(CONFIGS["Llama-4-Scout-17B-16E-Instruct"])
    given = read_settings(vllm.FLAGS, ["--max-model-len", text, "--available", "900GiB"], {})
    if tokens is None:
        with pytest.raises(InvalidProblem, match="a whole number before M"):
            vllm.build(known, given)
        return
    assert vllm.build(known, given).batches[0].requests[0].capacity == tokens


def test_a_cache_dtype_may_skip_layers() -> None:
    known = read_architecture(CONFIGS["gpt-oss-20b"])
    base = ["--available", "9GiB", "--dtype", "bfloat16", "--kv-cache-dtype", "fp8"]
    words = [*base, "--kv-cache-dtype-skip-layers", "sliding_window", "--no-enable-prefix-caching"]
    from kvplan.models.engines.vllm.launch.server import server_of

    specs = server_of(known, read_settings(vllm.FLAGS, words, {}, vllm.DIALECT)).specs
    sizes = {spec.kind: int(spec.token_bytes) for spec in specs}
    assert sizes == {"window": 2048, "full": 1024}


def test_overrides_of_the_config_are_laid_over_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["Qwen3.5-27B"]))
    base = ("model", path, "--available", "40GiB", "--json", "--", "vllm", "serve", "m")
    plain = json.loads(run_kvplan(capsys, *base).out)
    changed = '{"text_config": {"num_key_value_heads": 8}}'
    other = json.loads(run_kvplan(capsys, *base, "--hf-overrides", changed).out)
    assert other["problem"]["pools"] != plain["problem"]["pools"]
    done = run_kvplan(capsys, *base, "--hf-overrides", "[1]")
    assert (done.code, done.err) == (2, "--hf-overrides: expected JSON, a mapping, got '[1]'\n")
