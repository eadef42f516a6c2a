"""kvplan model --check: every figure of a raw line, readings as intervals, five engines."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from engines.test_vllm_logs import LLMD, flags_of

from support.cli import run_kvplan
from support.vllm_server import CONFIGS

Capture = pytest.CaptureFixture[str]
QWEN8 = "Qwen3-8B --engine vllm --engine-version 0.19.0 --max-model-len 32768"
CASES = {
    "vllm refusal": (
        f"{QWEN8} --available 3.58GiB",
        "(EngineCore_DP0 pid=1) ValueError: To serve at least one request with the models's max "
        "seq len (32768), (4.50 GiB KV cache is needed, which is larger than the available KV "
        "cache memory (3.58 GiB). Based on the available memory, the estimated maximum model "
        "length is 26032. Try increasing `gpu_memory_utilization`",
        ("32768", "4.50", "3.58 GiB", "26032"),
    ),
    "vllm": (
        f"{QWEN8} --available 57.5GiB",
        "(EngineCore_DP0 pid=1) INFO 08-14 [kv_cache_utils.py:1326] Maximum concurrency for 32,768 "
        "tokens per request: 12.78x",
        ("32,768", "12.78"),
    ),
    "vllm blocks": (
        f"{QWEN8} --available 57.5GiB --num-gpu-blocks-override 26168",
        "INFO [kv_cache_utils.py:600] Overriding num_gpu_blocks=26170 with "
        "num_gpu_blocks_override=26168",
        ("26168",),
    ),
    "sglang": (
        "Qwen3-235B-A22B --engine sglang --tp-size 4 --available 22.50GiB",
        "[2026-09-12 00:22:48 TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 501939, "
        "K size: 11.25 GB, V size: 11.25 GB",
        ("501939", "K size: 11.25", "V size: 11.25"),
    ),
    "sglang end": (
        "Qwen3-235B-A22B --engine sglang --tp-size 4 --available 22.50GiB",
        "[2026-09-12 00:22:48 TP0] max_total_num_tokens=501939, chunked_prefill_size=8192, "
        "max_prefill_tokens=16384, max_running_requests=4096, context_len=40960, "
        "available_gpu_mem=5.00 GB",
        ("501939", "=8192", "tokens=16384", "requests=4096", "len=40960"),
    ),
    "sglang states": (
        "Qwen3.5-27B --engine sglang --available 40GiB",
        "[2026-09-12 00:22:48 TP0] Mamba Cache is allocated. max_mamba_cache_size: 131, conv_state "
        "size: 0.36GB, ssm_state size: 18.56GB",
        ("131", "0.36", "18.56"),
    ),
    "sglang windows": (
        "gpt-oss-120b --engine sglang --available 40GiB --page-size 64",
        "[2026-09-12 00:22:48 TP0] KV Cache is allocated. #tokens: 517760, K size: 8.89 GB, V "
        "size: 8.89 GB",
        ("517760", "K size: 8.89"),
    ),
    "sglang both pools": (
        "gpt-oss-120b --engine sglang --available 40GiB --page-size 64",
        "[2026-09-12 00:22:48 TP0] SWAKVPool mem usage: 40.00 GB, swa size: 517760, full "
        "size: 647232",
        ("40.00", "517760", "647232"),
    ),
    "llama.cpp windows": (
        "gpt-oss-120b --engine llama.cpp --ctx-size 16384 --available 40GiB",
        "llama_kv_cache: size =   27.00 MiB (   768 cells,  18 layers,  1/1 seqs), K (f16):   "
        "13.50 MiB, V (f16):   13.50 MiB",
        ("27.00", "768", "18 layers"),
    ),
    "llama.cpp states": (
        "Qwen3.5-27B --engine llama.cpp --ctx-size 16384 --available 40GiB",
        "llama_memory_recurrent: size =  149.62 MiB (     1 cells,  64 layers,  1 seqs), R (f32): "
        "   5.62 MiB, S (f32):  144.00 MiB",
        ("149.62", "1 cells", "64", "5.62", "144.00"),
    ),
    "llama.cpp": (
        "Qwen3-8B --engine llama.cpp --ctx-size 16384 --cache-type-k q8_0 --available 20GiB",
        "llama_kv_cache: size = 1764.00 MiB ( 16384 cells,  36 layers,  1/1 seqs), K (q8_0):  "
        "612.00 MiB, V (f16): 1152.00 MiB",
        ("1764.00", "16384", "36", "612.00", "1152.00"),
    ),
    "llama.cpp context": (
        "Qwen3-8B --engine llama.cpp --ctx-size 16384 --available 20GiB",
        "llama_context: n_ctx_seq     = 16384",
        ("16384",),
    ),
    "atom": (
        "Meta-Llama-3.1-8B --engine atom --tensor-parallel-size 2 --kv_cache_dtype fp8 "
        "--available 54.23GiB",
        "[atom 08:32:21] Memory budget: total_gpu=179.06GB, free=160.40GB, utilization=0.3, "
        "available_for_kv=54.23GB, block_bytes=540672, num_kvcache_blocks=107699",
        ("54.23GB", "540672", "107699"),
    ),
    "tensorrt-llm": (
        "Meta-Llama-3.1-8B --engine tensorrt-llm --max_seq_len 8192 --available 20GiB",
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 20.00 GiB for max tokens in paged KV "
        "cache (163840).",
        ("20.00", "163840"),
    ),
    "tensorrt-llm pool": (
        "Meta-Llama-3.1-8B --engine tensorrt-llm --max_seq_len 8192 --available 20GiB",
        "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 256 [window size=8192], tokens per "
        "block=32, primary blocks=5120, secondary blocks=0",
        ("sequence: 256", "size=8192", "block=32", "5120"),
    ),
    "vllm one line": (
        f"{QWEN8[:23]} --available 57.5GiB --max-model-len 32768",
        "(EngineCore pid=1) INFO [kv_cache_utils.py:2320] GPU KV cache size: 418,688 tokens, "
        "Maximum concurrency for 32,768 tokens per request: 12.78x",
        ("418,688", "32,768", "12.78"),
    ),
    "vllm auto-fit": (
        f"{QWEN8[:23]} --available 4GiB --max-model-len auto",
        "INFO Auto-fit max_model_len: reduced from 40960 to 29104 to fit in available GPU memory "
        "(4.0 GiB available for KV cache)",
        ("40960", "29104", "(4.0"),
    ),
    "vllm compressed": (
        "DeepSeek-V4-Flash --engine vllm --available 40GiB --max-model-len 131072",
        "GPU KV cache size: 780,765 tokens, Maximum concurrency for 131,072 tokens per request: "
        "5.96x",
        ("780,765", "131,072", "5.96"),
    ),
    "llama.cpp sequences": (
        "Qwen3-8B --engine llama.cpp --ctx-size 16384 --parallel 2 --available 20GiB",
        "llama_context: n_seq_max     = 2",
        ("2",),
    ),
}


def checked(capsys: Capture, folder: Path, line: str, *lines: str) -> tuple[int, str]:
    model, *flags = shlex.split(line)
    path = folder / "config.json"
    path.write_text(json.dumps(CONFIGS[model]), encoding="utf-8")
    checks = [part for one in lines for part in ("--check", one)]
    done = run_kvplan(capsys, "model", path, *flags, *checks)
    return done.code, done.err


@pytest.mark.parametrize("name", CASES)
def test_a_raw_line_agrees_and_each_figure_of_it_is_compared(
    name: str, capsys: Capture, tmp_path: Path
) -> None:
    command, line, figures = CASES[name]
    assert checked(capsys, tmp_path, command, line) == (0, "")
    for figure in figures:
        other = re.sub(r"\d", lambda digit: str(int(digit[0]) % 9 + 1), figure, count=1)
        changed = line.replace(figure, other)
        code, said = checked(capsys, tmp_path, command, changed)
        assert (code, said.count("\n")) == (1, 1), changed


@pytest.mark.parametrize("number", LLMD)
def test_true_starts_agree_with_the_gib_that_they_print(
    number: str, capsys: Capture, tmp_path: Path
) -> None:
    """The printed GiB is an interval: it holds the count that the engine took."""
    log = LLMD[number]
    lines = (
        f"num_gpu_blocks: {log.blocks}",
        f"GPU KV cache size: {log.tokens:,} tokens",
        f"Maximum concurrency for {log.length:,} tokens per request: {log.concurrency}x",
        f"Available KV cache memory: {log.gib} GiB",
    )
    command = f"{log.model} --engine vllm {flags_of(log)} --available {log.gib}GiB"
    assert checked(capsys, tmp_path, command, *lines) == (0, "")
    wrong = f"GPU KV cache size: {log.tokens * 11 // 10:,} tokens"
    assert checked(capsys, tmp_path, command, wrong)[0] == 1


def test_what_is_typed_without_decimals_is_exact(capsys: Capture, tmp_path: Path) -> None:
    command = f"{QWEN8} --available {{}}"
    line = "GPU KV cache size: {} tokens"
    for typed, tokens, code in (
        ("40GiB", "291,264", 0),
        ("40GiB", "291,280", 1),
        ("40.00GiB", "291,280", 0),
        ("42949672960", "291,280", 1),
    ):
        assert checked(capsys, tmp_path, command.format(typed), line.format(tokens))[0] == code


def test_what_a_worker_repeats_is_compared(capsys: Capture, tmp_path: Path) -> None:
    """llm-d-incubation/llm-d-planner#205, run 55, in the words of 0.19."""
    command = (
        f"{QWEN8} --total 79.19GiB --gpu-memory-utilization 0.95 --weights-gib 15.27 "
        "--activation 2.21GiB --non-torch 0.25GiB"
    )
    line = (
        "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is "
        "(0.95, 75.23 GiB). Actual usage is 15.27 GiB for weight, 2.21 GiB for peak activation, "
        "0.25 GiB for non-torch memory, and 0.50 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=61047000000` (56.85 GiB) to fit "
        "into requested memory. Current kv cache memory in use is 57.5 GiB."
    )
    assert checked(capsys, tmp_path, command, line) == (0, "")
    for name, figure in (
        *(("total", "79.19"), ("utilization", "0.95,"), ("budget", "75.23"), ("weights", "15.27")),
        *(("activation", "2.21"), ("non torch", "0.25"), ("available", "57.5 ")),
    ):
        new = figure.replace("5", "6").replace("9", "8").replace("2.21", "3.21")
        code, said = checked(capsys, tmp_path, command, line.replace(figure, new))
        assert (code, said.partition(":")[0]) == (1, name), said


def test_more_weights_leave_less(capsys: Capture, tmp_path: Path) -> None:
    """15.27 GiB of weights are 15.265 to 15.275: the more of them, the fewer blocks."""
    command = f"{QWEN8} --gpu H100-80GB --activation 1200MiB --non-torch 300MiB --weights-gib {{}}"
    assert checked(capsys, tmp_path, command.format("15.27"), "num_gpu_blocks: 1")[0] == 1
    for weights in ("15.265", "15.27", "15.2749"):
        _, *flags = shlex.split(command.format(weights))
        done = run_kvplan(capsys, "model", tmp_path / "config.json", *flags)
        (blocks,) = re.findall(r"num_gpu_blocks: \d+", done.out)
        assert checked(capsys, tmp_path, command.format("15.27"), blocks) == (0, "")
