"""Logs that were read wrongly once: each names its source, and why the answer is what it is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan
from support.logs import LLAMA_CPP, LMDEPLOY, OLLAMA, write

Capture = pytest.CaptureFixture[str]


def judged(capsys: Capture, path: Path) -> tuple[int, list[Any]]:
    done = run_kvplan(capsys, "check-log", "--json", path)
    assert done.err == ""
    return done.code, json.loads(done.out)


def test_the_probe_of_graph_memory_is_no_count(capsys: Capture, tmp_path: Path) -> None:
    """Since 0.17 vLLM plans a cache of 0 blocks to probe its graphs (vllm-project/vllm#30515)."""
    lines = [
        f"{tag} INFO [kv_cache_utils.py:826] Overriding num_gpu_blocks=0 with "
        "num_gpu_blocks_override=16"
        for tag in ("(Worker_TP0 pid=1)", "(Worker_TP1 pid=2)")
    ] + [
        "(Worker_TP0 pid=1) INFO [gpu_worker.py:456] Available KV cache memory: 17.36 GiB",
        "(Worker_TP1 pid=2) INFO [gpu_worker.py:456] Available KV cache memory: 17.36 GiB",
        "(EngineCore pid=3) INFO [kv_cache_utils.py:1314] GPU KV cache size: 188,640 tokens",
    ]
    code, (start,) = judged(capsys, write(tmp_path, lines))
    assert (code, start["agreed"]) == (0, 188_640)
    assert [rank["figures"]["available"] for rank in start["ranks"]] == [18_640_158_065] * 2


@pytest.mark.parametrize(("tokens", "code"), [("5,333,200", 1), ("1,600", 0), ("1,601", 1)])
def test_an_override_decides_what_the_tokens_must_be(
    tokens: str, code: int, capsys: Capture, tmp_path: Path
) -> None:
    lines = [
        "INFO [gpu_worker.py:250] Available KV cache memory: 81.38 GiB",
        "INFO [kv_cache_utils.py:600] Overriding num_gpu_blocks=333325 with "
        "num_gpu_blocks_override=100",
        f"INFO [kv_cache_utils.py:637] GPU KV cache size: {tokens} tokens",
    ]
    found, (start,) = judged(capsys, write(tmp_path, lines))
    assert (found, start["agreed"]) == (code, 100)
    assert bool(start["notes"]) is not bool(code)


@pytest.mark.parametrize(
    "line",
    [
        "(EngineCore pid=1) INFO [m.py:5718] Estimated CUDA graph memory: -10.33 GiB total",
        "(Worker_TP0 pid=1) INFO [m.py:1] Graph capturing finished in 9 secs, took -0.62 GiB",
        "INFO [worker.py:1] Available KV cache memory: -2.14 GiB",
        "INFO worker.py:243] non_torch_memory     -0.79GiB",
        "[2026-09-12 00:22:48 TP0] Load weight end. type=X, avail mem=63.4 GB, mem usage=-3.2 GB.",
        "[2026-09-12 00:22:48 TP0] Memory pool end. avail mem=-0.20 GB",
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: "
        "79.10 GiB, available: -1.03 GiB",
        "llama_kv_cache: size = -4352.00 MiB ( 32768 cells,  64 layers,  1/1 seqs)",
    ],
)
def test_a_reading_below_zero_is_named(line: str, capsys: Capture, tmp_path: Path) -> None:
    code, (start,) = judged(capsys, write(tmp_path, [line]))
    assert code == 1
    assert any("below 0" in wrong["text"] for wrong in start["wrong"])


@pytest.mark.parametrize(
    ("worker", "core"),
    [
        ("(Worker_TP{} pid=4{})", "(EngineCore_DP0 pid=3)"),
        ("(Worker_TP{} pid=4{})", "(EngineCore pid=3)"),
        ("(Worker_DP0_TP{} pid=4{})", "(EngineCore_DP0 pid=3)"),
        ("(Worker_DP0_TP{} pid=4{})", "(EngineCore_0 pid=3)"),
        ("(VllmWorker TP{} pid=4{})", "(EngineCore_0 pid=3)"),
        ("(VllmWorker rank={} pid=4{})", ""),
        ("(VllmWorker-{} pid=4{})", ""),
        ("(VllmWorkerProcess{} pid=4{})", ""),
        (
            "(EngineCore_DP0 pid=3) (RayWorkerWrapper pid=4{0}{1}, ip=10.0.0.1)",
            "(EngineCore_DP0 pid=3)",
        ),
    ],
)
def test_processes_of_one_engine_are_one_start(
    worker: str, core: str, capsys: Capture, tmp_path: Path
) -> None:
    lines = [
        f"{worker.format(rank, rank)} INFO Available KV cache memory: 6.87 GiB".replace(
            "Process0", "Process"
        ).replace("Process1", "Process")
        for rank in (0, 1)
    ]
    lines += [
        f"{core} INFO GPU KV cache size: 100,000 tokens",
        f"{core} INFO Maximum concurrency for 32,768 tokens per request: 3.05x",
    ]
    code, (start,) = judged(capsys, write(tmp_path, lines))
    assert (code, len(start["ranks"]), start["agreed"]) == (0, 2, 100_000)


def test_each_count_has_its_own_concurrency_and_the_smaller_rules(
    capsys: Capture, tmp_path: Path
) -> None:
    """vLLM 0.10 prints a pair for each worker."""
    lines = [
        "(VllmWorker TP1 pid=1546) INFO Available KV cache memory: 11.15 GiB",
        "(VllmWorker TP0 pid=1545) INFO Available KV cache memory: 11.19 GiB",
        "(EngineCore_0 pid=1402) INFO GPU KV cache size: 244,352 tokens",
        "(EngineCore_0 pid=1402) INFO Maximum concurrency for 32,768 tokens per request: 7.46x",
        "(EngineCore_0 pid=1402) INFO GPU KV cache size: 243,488 tokens",
        "(EngineCore_0 pid=1402) INFO Maximum concurrency for 32,768 tokens per request: 7.43x",
    ]
    code, (start,) = judged(capsys, write(tmp_path, lines))
    assert (code, start["agreed"], start["notes"]) == (0, 243_488, [])
    swapped = [lines[0], lines[1], lines[2], lines[5], lines[4], lines[3]]
    assert judged(capsys, write(tmp_path, swapped))[0] == 1


def test_a_second_start_is_told_apart_by_its_first_line(capsys: Capture, tmp_path: Path) -> None:
    start = [
        "(EngineCore_DP0 pid=3) INFO [core.py:105] Initializing a V1 LLM engine (v0.11.0) with",
        "(Worker_TP0 pid=4) INFO Available KV cache memory: 6.87 GiB",
        "(Worker_TP1 pid=5) INFO Available KV cache memory: 6.87 GiB",
        "(EngineCore_DP0 pid=3) INFO GPU KV cache size: 100,000 tokens",
    ]
    code, starts = judged(capsys, write(tmp_path, start + start))
    assert (code, [len(one["ranks"]) for one in starts]) == (0, [2, 2])


def test_containers_with_the_same_ranks_are_servers_apart(capsys: Capture, tmp_path: Path) -> None:
    line = "{}  | [2026-09-12 00:22:48 TP{}] KV Cache is allocated. #tokens: {}, K size: 3.46 GB"
    same = [line.format(name, rank, n) for name, n in (("a", 9000), ("b", 8000)) for rank in (0, 1)]
    code, starts = judged(capsys, write(tmp_path, same))
    assert (code, [one["agreed"] for one in starts]) == (0, [9000, 8000])
    nodes = [line.format(name, rank, 9000) for rank, name in enumerate(("a", "a", "b", "b"))]
    code, starts = judged(capsys, write(tmp_path, nodes))
    assert (code, [len(one["ranks"]) for one in starts]) == (0, [4])


@pytest.mark.parametrize(("count", "code"), [(1381, 0), (1581, 1)])
def test_blocks_and_concurrency_are_of_one_block_size(
    count: int, code: int, capsys: Capture, tmp_path: Path
) -> None:
    """vllm-project/vllm#12569: 1,381 blocks of 16 tokens are 10.79 at 2,048."""
    lines = [
        f"INFO 01-30 03:19:14 kv_cache_utils.py:395] # GPU blocks: {count}",
        "INFO 01-30 03:19:14 kv_cache_utils.py:398] Maximum concurrency for 2048 tokens per "
        "request: 10.79x",
    ]
    assert judged(capsys, write(tmp_path, lines))[0] == code


@pytest.mark.parametrize(
    ("tokens", "length", "ratio"),
    [
        ("2,764,768", "8,192", "337.17"),  # gpt-oss-20b, 0.19
        ("36,560", "8,192", "4.46"),  # gemma-3-27b
        ("130,304", "8,192", "15.88"),  # gemma-3-12b
        ("365,968", "8,192", "44.68"),  # Llama-4-Scout
        ("217,264", "2,048", "313.37"),  # LFM2-1.2B
        ("290,864", "32,768", "33.04"),  # Qwen3.5 (vllm-project/vllm#40691)
        ("188,640", "131,072", "5.23"),  # vllm-project/vllm#30515
        ("302,921", "131,072", "2.31"),  # since 0.20.1: int(concurrency x length)
    ],
)
def test_known_layers_of_several_kinds_are_not_wrong(
    tokens: str, length: str, ratio: str, capsys: Capture, tmp_path: Path
) -> None:
    lines = [
        f"INFO GPU KV cache size: {tokens} tokens",
        f"INFO Maximum concurrency for {length} tokens per request: {ratio}x",
    ]
    assert judged(capsys, write(tmp_path, lines))[0] == 0


def test_a_core_that_counts_blocks_for_each_worker_does_not_contradict_itself(
    capsys: Capture, tmp_path: Path
) -> None:
    """vLLM 0.7 plans each worker's cache, and prints blocks and concurrency for each."""
    lines = [
        line
        for blocks, ratio in ((1390, "10.86"), (1381, "10.79"))
        for line in (
            f"INFO 01-30 kv_cache_utils.py:395] # GPU blocks: {blocks}",
            "INFO 01-30 kv_cache_utils.py:398] Maximum concurrency for 2048 tokens per request: "
            f"{ratio}x",
        )
    ]
    code, (start,) = judged(capsys, write(tmp_path, lines))
    assert (code, start["agreed"]) == (0, 1381)
    changed = [line.replace("1390", "1490") for line in lines]
    assert judged(capsys, write(tmp_path, changed))[0] == 1


def test_a_draft_model_is_loaded_after_the_model(capsys: Capture, tmp_path: Path) -> None:
    lines = [
        "(Worker_TP0 pid=4) INFO Model loading took 14.2 GiB memory and 8.1 seconds",
        "(Worker_TP0 pid=4) INFO Model loading took 16.9 GiB memory and 2.3 seconds",
        "(Worker_TP0 pid=4) INFO Available KV cache memory: 6.87 GiB",
    ]
    assert judged(capsys, write(tmp_path, lines))[0] == 0


REFUSED = (
    "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB "
    "KV cache is needed, which is larger than the available KV cache memory (6.00 GiB). Based on "
    "the available memory, the estimated maximum model length is 49152. Try increasing"
)


@pytest.mark.parametrize(
    ("line", "kind", "remedy"),
    [
        (f"(EngineCore pid=1) {REFUSED}", "context", "--max-model-len 49152"),
        ("ValueError: No available memory for the cache blocks.", "budget", "--enforce-eager"),
        (
            "ValueError: Free memory on device cuda:0 (5.20/23.57 GiB) on startup is less than "
            "desired GPU memory utilization (0.9, 21.21 GiB).",
            "free",
            "--gpu-memory-utilization lower",
        ),
        (
            "ValueError: max_num_seqs (256) exceeds available Mamba cache blocks (95).",
            "states",
            "--max-num-seqs 95",
        ),
        (
            "[2026-09-12 00:22:48 TP0] RuntimeError: Not enough memory. Please try to increase "
            "--mem-fraction-static. Current value: mem_fraction_static=0.8",
            "budget",
            "--mem-fraction-static higher",
        ),
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4352.00 MiB on device 0: "
            "cudaMalloc failed: out of memory",
            "memory",
            "--ctx-size lower",
        ),
        (
            "Error: model requires more system memory (8.4 GiB) than is available (6.1 GiB)",
            "memory",
            "num_ctx lower",
        ),
        (
            "[TensorRT-LLM][ERROR] Executor creation failed due to insufficient GPU memory.",
            "memory",
            "--free_gpu_memory_fraction lower",
        ),
        (
            "sglang: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 "
            "has a total capacity of 23.57 GiB of which 1.20 GiB is free.",
            "out of memory",
            "--tp-size higher",
        ),
    ],
)
def test_a_failed_start_is_explained_in_its_engines_flags(
    line: str, kind: str, remedy: str, capsys: Capture, tmp_path: Path
) -> None:
    code, (start,) = judged(capsys, write(tmp_path, [line, line]))
    assert code == 1
    failed = [one for one in start["failed"] if one["kind"] == kind]
    assert len(failed) == 1
    assert remedy in failed[0]["remedies"]
    assert failed[0]["why"] in run_kvplan(capsys, "check-log", tmp_path / "server.log").out


def test_out_of_memory_says_when(capsys: Capture, tmp_path: Path) -> None:
    oom = "(EngineCore pid=1) torch.OutOfMemoryError: CUDA out of memory."
    before = [
        "(EngineCore pid=1) INFO Initializing a V1 LLM engine (v0.11.0) with config: model='x'",
        "(EngineCore pid=1) INFO Model loading took 14.99 GiB and 3 seconds",
        "(EngineCore pid=1) INFO Available KV cache memory: 6.00 GiB",
    ]
    whys = []
    for count in (1, 2, 3):
        _, (start,) = judged(capsys, write(tmp_path, [*before[:count], oom]))
        whys.append(start["failed"][0]["why"])
    assert [why.partition(" fails ")[2] for why in whys] == [
        "while the weights load",
        "while the engine measures a step",
        "after the cache was built",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "[2026-09-12 00:22:48 TP0] Decode out of memory happened. #retracted_reqs: 1",
        "INFO [model_runner.py:1] If out-of-memory error occurs during cudagraph capture, consider",
        "INFO If out of memory error occurs during capture, consider decreasing the utilization",
        "NCCL WARN failed to allocate 32 byte buffer",
    ],
)
def test_a_running_server_has_not_failed(line: str, capsys: Capture, tmp_path: Path) -> None:
    fine = "(EngineCore pid=1) INFO Available KV cache memory: 6.00 GiB"
    code, (start,) = judged(capsys, write(tmp_path, [fine, line]))
    assert (code, start["failed"]) == (0, [])


@pytest.mark.parametrize(
    ("old", "new"), [("", ""), ("62.64", "63.64"), ("61.04", "60.04"), ("1.40", "1.90")]
)
def test_what_is_not_cache_is_a_sum(old: str, new: str, capsys: Capture, tmp_path: Path) -> None:
    line = (
        "(Worker_TP0 pid=1) DEBUG Memory profiling takes 9.1 seconds. Total non KV cache memory: "
        "62.64GiB; torch peak memory increase: 1.40GiB; non-torch forward increase memory: "
        "0.20GiB; weights memory: 61.04GiB."
    )
    path = write(tmp_path, [line.replace(old, new) if old else line])
    assert judged(capsys, path)[0] == bool(old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("buffer size =  4352", "buffer size =  4252"),
        ("size = 4352", "size = 4353"),
        ("32768 cells", "32769 cells"),
        ("64 layers", "65 layers"),
        ("K (q8_0): 2176", "K (q8_0): 2276"),
        ("K (q8_0)", "K (q4_0)"),
        ("97247", "97347"),
        ("94682", "94602"),
        ("1815", "1825"),
        ("650 +", "660 +"),
        ("749 |", "769 |"),
        ("31144", "31244"),
    ],
)
def test_llama_cpp(old: str, new: str, capsys: Capture, tmp_path: Path) -> None:
    lines = [line.replace(old, new) for line in LLAMA_CPP] if old else LLAMA_CPP
    assert judged(capsys, write(tmp_path, lines))[0] == bool(old)


def test_a_trial_context_may_leave_less_than_nothing(capsys: Capture, tmp_path: Path) -> None:
    """Nothing is allocated: what is unaccounted for is a negative size_t of MiB."""
    line = (
        "common_memory_breakdown_print: |   - CUDA0 (RTX 5060 Ti) | 15841 = 15630 + (15302 = 14736 "
        "+      72 +     493) + 17592186029324 |"
    )
    assert judged(capsys, write(tmp_path, [line]))[0] == 0


@pytest.mark.parametrize(
    ("lines", "engine", "old", "new"),
    [
        (OLLAMA, "ollama", "12.6 GiB", "13.6 GiB"),
        (OLLAMA, "ollama", "300.0 MiB", "900.0 MiB"),
        (LMDEPLOY, "LMDeploy", "max_block_count = 1740", "max_block_count = 1540"),
        (LMDEPLOY, "LMDeploy", "truncated to 111360", "truncated to 111460"),
    ],
)
def test_ollama_and_lmdeploy(
    lines: list[str], engine: str, old: str, new: str, capsys: Capture, tmp_path: Path
) -> None:
    code, (start,) = judged(capsys, write(tmp_path, lines))
    assert (code, start["engine"]) == (0, engine)
    changed = [line.replace(old, new) for line in lines]
    assert judged(capsys, write(tmp_path, changed))[0] == 1


def test_a_gzip_log_is_read_and_others_are_refused_by_name(capsys: Capture, tmp_path: Path) -> None:
    text = "INFO Available KV cache memory: 6.00 GiB\n" * 500
    whole, cut, other = (tmp_path / name for name in ("a.log.gz", "cut.gz", "a.zst"))
    whole.write_bytes(gzip.compress(text.encode()))
    cut.write_bytes(whole.read_bytes()[:-12])
    other.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    assert judged(capsys, whole)[0] == 0
    assert run_kvplan(capsys, "check-log", cut).err == (
        f"{cut}: expected a whole gzip file, got one that is cut short\n"
    )
    done = run_kvplan(capsys, "check-log", other)
    assert (done.code, done.err) == (
        2,
        f"{other}: expected text or gzip, got zstd, unpack it first\n",
    )


def test_each_model_that_ollama_places_has_its_own_total(capsys: Capture, tmp_path: Path) -> None:
    line = 'Sep 11 00:42:50 ai ollama[3110]: time=x level=INFO msg="{}"{} size="{}"'
    first = [
        ("model weights", " device=ROCm0", "59.8 GiB"),
        ("model weights", " device=CPU", "1.1 GiB"),
        ("kv cache", " device=ROCm0", "450.0 MiB"),
        ("compute graph", " device=ROCm0", "121.8 MiB"),
        ("compute graph", " device=CPU", "5.6 MiB"),
        ("total memory", "", "61.4 GiB"),
    ]
    second = [
        ("model weights", " device=ROCm0", "4.7 GiB"),
        ("kv cache", " device=ROCm0", "1.2 GiB"),
        ("compute graph", " device=ROCm0", "2.1 GiB"),
        ("total memory", "", "8.1 GiB"),
    ]
    lines = [line.format(*parts) for parts in first + second]
    code, starts = judged(capsys, write(tmp_path, lines))
    assert (code, len(starts)) == (0, 2)


@pytest.mark.parametrize(
    ("model", "version", "code"),
    [
        ("meta-llama/Llama-3.1-8B", "0.11.0", 1),
        ("openai/gpt-oss-20b", "0.11.0", 0),
        ("openai/gpt-oss-20b", "0.25.1", 1),  # int(concurrency x length) of any model
    ],
)
def test_a_model_with_windows_may_have_any_concurrency(
    model: str, version: str, code: int, capsys: Capture, tmp_path: Path
) -> None:
    lines = [
        f"INFO Initializing a V1 LLM engine (v{version}) with config: model='{model}', x=1",
        "INFO GPU KV cache size: 160,000 tokens",
        "INFO Maximum concurrency for 10,000 tokens per request: 19.00x",
    ]
    found, (start,) = judged(capsys, write(tmp_path, lines))
    assert (found, bool(start["wrong"])) == (code, bool(code))


@pytest.mark.parametrize(
    ("tags", "names"),
    [
        (("PP0 TP0", "PP1 TP0"), ["PP0_TP0", "PP1_TP0"]),
        (("TP0 EP0", "TP1 EP1"), ["TP0", "TP1"]),
        (("ATTN_TP0 MOE_EP0", "ATTN_TP1 MOE_EP1"), ["TP0", "TP1"]),
    ],
)
def test_every_part_of_sglangs_tag_counts(
    tags: tuple[str, ...], names: list[str], capsys: Capture, tmp_path: Path
) -> None:
    line = "[2026-09-12 00:22:48 {}] KV Cache is allocated. #tokens: 454112, KV size: 3.46 GB"
    code, (start,) = judged(capsys, write(tmp_path, [line.format(tag) for tag in tags]))
    assert (code, [rank["name"] for rank in start["ranks"]]) == (0, names)


def test_an_engines_own_words_for_its_end_are_told_once(capsys: Capture, tmp_path: Path) -> None:
    lines = [
        "(EngineCore pid=1) INFO GPU KV cache size: 100,000 tokens",
        "(EngineCore pid=1) RuntimeError: CUDA out of memory occurred when warming up sampler with "
        "1024 dummy requests. Please try lowering `max_num_seqs`",
    ]
    _, (start,) = judged(capsys, write(tmp_path, lines))
    assert [failed["kind"] for failed in start["failed"]] == ["warm-up"]


@pytest.mark.parametrize(
    ("tags", "starts"),
    [
        (("DP0 TP0", "DP0 TP1", "DP1 TP2", "DP1 TP3"), 1),  # DP attention: one world
        (("DP0 TP0", "DP0 TP1", "DP1 TP0", "DP1 TP1"), 2),  # replicas behind a router
    ],
)
def test_dp_attention_is_one_server(
    tags: tuple[str, ...], starts: int, capsys: Capture, tmp_path: Path
) -> None:
    line = "[2026-09-12 00:22:48 {} EP0] KV Cache is allocated. #tokens: 454112, KV size: 3.46 GB"
    code, found = judged(capsys, write(tmp_path, [line.format(tag) for tag in tags]))
    assert (code, len(found)) == (0, starts)


@pytest.mark.parametrize("device", ["GPU", "XPU", "CPU", "GPU + host"])
@pytest.mark.parametrize(("times", "code"), [("16.38", 0), ("32.77", 1), ("16.99", 1)])
def test_tokens_and_concurrency_of_one_line_follow_from_each_other(
    device: str, times: str, code: int, capsys: Capture, tmp_path: Path
) -> None:
    """From 0.28 on one line has both, and tokens are int(concurrency x length) for any layers."""
    line = (
        f"(EngineCore pid=9) INFO [kv_cache_utils.py:2330] {device} KV cache size: 671,104 tokens, "
        f"Maximum concurrency for 40,960 tokens per request: {times}x"
    )
    found, (start,) = judged(capsys, write(tmp_path, [line]))
    assert (found, start["agreed"], start["notes"]) == (code, 671_104, [])


@pytest.mark.parametrize(("longest", "times"), [("61,440", "14.09"), ("3,154", "148.25")])
def test_no_known_model_explains_every_concurrency(
    longest: str, times: str, capsys: Capture, tmp_path: Path
) -> None:
    """Gemma 2 ends at 8,192 tokens; no layers of one kind have blocks of 1,024 tokens."""
    tokens = {"14.09": "577,024", "148.25": "607,232"}[times]
    lines = [
        f"INFO [kv_cache_utils.py:849] GPU KV cache size: {tokens} tokens",
        f"INFO [kv_cache_utils.py:853] Maximum concurrency for {longest} tokens per request: "
        f"{times}x",
    ]
    assert judged(capsys, write(tmp_path, lines))[0] == 1


@pytest.mark.parametrize(
    ("changed", "code"), [("", 0), ("draft", 1), ("V size: 1.20", 1), ("V size: 0.60", 0)]
)
def test_pools_of_sglang_follow_from_its_count(
    changed: str, code: int, capsys: Capture, tmp_path: Path
) -> None:
    """Target and draft have max_total_num_tokens; keys are as wide as values, or 192 to 128."""
    draft = 220_360 if changed == "draft" else 286_182
    values = changed if changed.startswith("V") else "V size: 0.90"
    lines = [
        "[2026-09-12 00:22:48] KV Cache is allocated. #tokens: 286182, K size: 2.18 GB, "
        "V size: 2.18 GB",
        f"[2026-09-12 00:22:49] KV Cache is allocated. #tokens: {draft}, K size: 0.90 GB, "
        f"{values} GB",
        "[2026-09-12 00:22:50] max_total_num_tokens=286182, max_running_requests=2048",
    ]
    assert judged(capsys, write(tmp_path, lines))[0] == code
