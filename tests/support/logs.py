"""Logs of servers as they are printed, from the figures of public reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent.parent / "cases"
ATOM: dict[str, Any] = json.loads((CASES / "atom_logs.json").read_text())
_ORDER = (
    "total_gpu",
    "free",
    "utilization",
    "budget",
    "peak_torch",
    "non_torch",
    "cudagraph_est",
    "safety",
    "available_for_kv",
    "block_bytes",
    "num_kvcache_blocks",
)
_BARE = ("utilization", "block_bytes", "num_kvcache_blocks")


def budget_line(figures: dict[str, Any]) -> str:
    """A line of ATOM; figures that a report leaves out are left out."""
    shown = (
        f"{name}={figures[name]}" if name in _BARE else f"{name}={figures[name]:.2f}GB"
        for name in _ORDER
        if name in figures
    )
    return "[atom 08:32:21] Memory budget: " + ", ".join(shown)


def atom_lines(source: str, model: str = "") -> list[dict[str, Any]]:
    """The figures of the ranks of one log."""
    found = [
        log["lines"]
        for log in ATOM["logs"]
        if log["source"].endswith(source) and log["model"].startswith(model)
    ]
    assert len(found) == 1, found
    lines: list[dict[str, Any]] = found[0]
    return lines


def write(folder: Path, lines: list[str], name: str = "server.log") -> Path:
    """A log of these lines."""
    path = folder / name
    path.write_text("\n".join(lines) + "\n")
    return path


# Lines as public issues show them.
VLLM_OVERRIDE = [  # vllm-project/vllm#19503
    "(VllmWorker rank=0 pid=3947788) INFO 06-11 10:47:43 [gpu_worker.py:227] Available KV cache "
    "memory: 81.38 GiB",
    "INFO 06-11 10:47:44 [kv_cache_utils.py:660] Overriding num_gpu_blocks=333325 with "
    "num_gpu_blocks_override=100",
    "INFO 06-11 10:47:44 [kv_cache_utils.py:715] GPU KV cache size: 5,333,200 tokens",
    "INFO 06-11 10:47:44 [kv_cache_utils.py:719] Maximum concurrency for 131,072 tokens per "
    "request: 40.69x",
]
VLLM_0 = [  # vllm-project/vllm#14447
    line
    for pid in (521, 507, 577)
    for line in (
        f"(VllmWorkerProcess pid={pid}) INFO 04-12 08:21:19 [worker.py:267] the current vLLM "
        "instance can use total_gpu_memory (23.58GiB) x gpu_memory_utilization (0.99) = 23.35GiB",
        f"(VllmWorkerProcess pid={pid}) INFO 04-12 08:21:19 [worker.py:267] model weights take "
        "21.21GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory takes 0.37GiB; "
        "the rest of the memory reserved for KV Cache is 1.57GiB.",
    )
]
VLLM_ASCEND = [  # vllm-project/vllm-ascend#8289
    "(EngineCore pid=2884597) INFO 04-15 06:30:01 [worker.py:575] Free memory on device "
    "(60.86/61.27 GiB) on startup. Desired GPU memory utilization is (0.9, 55.14 GiB). Actual "
    "usage: 1.14 GiB for weights, 0.22 GiB for peak activation, 0.13 GiB for non-torch memory, "
    "0.04 GiB for NPU graph memory. Replace gpu_memory_utilization with "
    "`--kv-cache-memory=57403864576` (53.46 GiB) to fit into requested memory"
]
SGLANG_SWA = [  # sgl-project/sglang#15464
    line
    for rank in (2, 1, 0)
    for line in (
        f"[2025-12-19 07:42:57 TP{rank}] KV Cache is allocated. #tokens: 1496958, "
        "K size: 41.76 GB, V size: 27.84 GB",
        f"[2025-12-19 07:42:57 TP{rank}] KV Cache is allocated. #tokens: 1496958, "
        "K size: 4.82 GB, V size: 3.21 GB",
        f"[2025-12-19 07:42:57 TP{rank}] SWAKVPool mem usage: 77.63 GB, swa size: 1496958, "
        "full size: 1496958",
        f"[2025-12-19 07:42:57 TP{rank}] Memory pool end. avail mem=22.5{6 + rank} GB",
    )
]
SGLANG_DRAFT = [  # noonghunna/club-3090#1261
    line
    for rank, left in ((0, ("8.40", "6.23")), (1, ("7.63", "5.46")))
    for size, end in zip(("3.46", "1.08"), left, strict=True)
    for line in (
        f"[2026-09-12 00:22:48 TP{rank}] KV Cache is allocated. dtype: torch.float8_e4m3fn, "
        f"#tokens: 454112, K size: {size} GB, V size: {size} GB",
        f"[2026-09-12 00:22:48 TP{rank}] Memory pool end. avail mem={end} GB",
    )
]
TRTLLM = [  # triton-inference-server/tutorials#150
    "[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 65 [window size=2051], tokens per "
    "block=32, primary blocks=116617, secondary blocks=0",
    "[TensorRT-LLM][INFO] Number of tokens per block: 32.",
    "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 78.30 GiB for max tokens in paged KV cache "
    "(3731744).",
]
LLAMA_CPP = [
    "llama_kv_cache:      CUDA0 KV buffer size =  4352.00 MiB",
    "llama_kv_cache: size = 4352.00 MiB ( 32768 cells,  64 layers,  1/1 seqs), K (q8_0): "
    "2176.00 MiB, V (q8_0): 2176.00 MiB",
    "common_memory_breakdown_print: |   - CUDA0 (RTX PRO 6000)  | 97247 = 94682 + (  1815 =    "
    "650 +       0 +    1164) +         749 |",
    "common_memory_breakdown_print: |   - Host                |    31144 = 30956 +       0 +     "
    "188                |",
]
OLLAMA = [
    f'time=2026-10-03T13:18:04.224Z level=INFO source=device.go:240 msg="{what}" device=CUDA0 '
    f'size="{size}"'
    for what, size in (
        ("model weights", "11.8 GiB"),
        ("kv cache", "300.0 MiB"),
        ("compute graph", "508.0 MiB"),
    )
] + ['time=2026-10-03T13:18:04.224Z level=INFO msg="total memory" size="12.6 GiB"']
LMDEPLOY = [  # InternLM/lmdeploy#3950
    "[TM][INFO] [BlockManager] block_size = 0.844 MB",
    "[TM][INFO] [BlockManager] max_block_count = 1740",
    "[TM][INFO] [BlockManager] chunk_size = 1740",
    "[TM][WARNING] No enough blocks for `session_len` (131072), `session_len` truncated to 111360.",
]
