"""More synthetic logs: what workers measure, ATOM's budgets, and the smaller engines' sizes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from support.synthetic_logs import GIB, MIB, Lines, interleaved

STAMP = "INFO 09-12 10:29:38"


def vllm_memory(draw: random.Random, ranks: int, *, graphs: bool) -> Lines:
    """What a worker of 0.11 and later says of its card, and of the bytes to give instead."""
    total, share = draw.choice(((79.19, 0.9), (23.58, 0.85), (139.81, 0.95)))
    processes = []
    for n in range(ranks):
        tag = f"(Worker_TP{n}_EP{n} pid={100 + n}) {STAMP}"
        free = total - draw.uniform(0.2, 0.6)
        budget = total * share
        uses = [draw.uniform(*ends) for ends in ((4, 9), (1, 3), (0.6, 1.5), (0.6, 1.5))]
        used = sum(uses)
        fits, fills = (int((room - used) * GIB) - 150 * MIB for room in (budget, free))
        held = budget - used + (0 if graphs else uses[3])
        shown = [f"«{use:.2f}»" for use in uses]
        lines = [
            f"{tag} [gpu_worker.py:1] Available KV cache memory: «{held:.2f}» GiB",
            f"{tag} [gpu_worker.py:2] Free memory on device («{free:.2f}»/«{total:.2f}» GiB) on "
            f"startup. Desired GPU memory utilization is («{share}», «{budget:.2f}» GiB). Actual "
            f"usage is {shown[0]} GiB for weight, {shown[1]} GiB for peak activation, {shown[2]} "
            f"GiB for non-torch memory, and {shown[3]} GiB for CUDAGraph memory. Replace "
            f"gpu_memory_utilization config with `--kv-cache-memory=«{fits}»` ({fits / GIB:.2f} "
            f"GiB) to fit into requested memory, or `--kv-cache-memory=«{fills}»` to fully utilize "
            f"gpu memory. Current kv cache memory in use is «{held:.2f}» GiB.",
        ]
        if graphs:
            part = uses[3] / total
            lines[:0] = [
                f"{tag} [gpu_model_runner.py:1] Estimated CUDA graph memory: {uses[3]:.2f} GiB "
                "total",
                f"{tag} [gpu_worker.py:1] CUDA graph memory profiling is enabled (default since "
                f"v0.21.0). The current --gpu-memory-utilization=«{share:.4f}» is equivalent to "
                f"--gpu-memory-utilization=«{share - part:.4f}» without CUDA graph memory "
                "profiling. To maintain the same effective KV cache size as before, increase "
                f"--gpu-memory-utilization to «{share + part:.4f}». To disable, set "
                "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.",
            ]
        processes.append(lines)
    return [interleaved(processes, draw)]


def atom(draw: random.Random) -> Lines:
    """A budget line behind its sub-pools."""
    total, share = draw.choice(((287.98, 0.9), (191.98, 0.85)))
    block, entry, slots = 16 * draw.choice((18432, 34560)), 56_171_520, draw.choice((32, 64))
    peak, other, graphs = draw.uniform(20, 60), draw.uniform(8, 15), draw.uniform(0.6, 2)
    budget, safety = total * share, total * 0.02
    left = budget - peak - other - graphs - safety
    blocks = int((round(left, 2) * GIB - slots * entry) // block)
    lines = [
        f"[atom 08:32:20] sub-pool state: entries={slots}, entry_bytes={entry}",
        f"[atom 08:32:20] sub-pool kv: entries={blocks}, entry_bytes={block}",
        f"[atom 08:32:21] Memory budget: total_gpu=«{total:.2f}»GB, free={left + 20:.2f}GB, "
        f"utilization=«{share}», budget=«{budget:.2f}»GB, peak_torch=«{peak:.2f}»GB, "
        f"non_torch=«{other:.2f}»GB, cudagraph_est=«{graphs:.2f}»GB, safety=«{safety:.2f}»GB, "
        f"available_for_kv=«{left:.2f}»GB, block_bytes=«{block}», "
        f"num_kvcache_blocks=«{blocks}»",
    ]
    return [lines]


def ollama(draw: random.Random) -> Lines:
    """Sizes by device, and their sum."""
    parts = {"model weights": draw.uniform(4, 30), "kv cache": draw.uniform(2, 9)}
    parts["compute graph"] = draw.uniform(2, 4)
    shown = {what: f"{size:.1f}" for what, size in parts.items()}
    lines = list(shown.items())
    lines.append(("total memory", f"{sum(float(size) for size in shown.values()):.1f}"))
    start = "time=2026-10-03T13:18:04.224Z level=INFO source=device.go:240"
    return [
        [
            f'{start} msg="{what}"{" device=CUDA0" if what != "total memory" else ""} '
            f'size="«{size}» GiB"'
            for what, size in lines
        ]
    ]


def lmdeploy(draw: random.Random) -> Lines:
    """Blocks, and the session that they cut."""
    blocks = draw.choice((1741, 2003, 3989, 7919))
    return [
        [
            "[TM][INFO] [BlockManager] block_size = 0.844 MB",
            f"[TM][INFO] [BlockManager] max_block_count = «{blocks}»",
            f"[TM][INFO] [BlockManager] chunk_size = {blocks // 2}",
            "[TM][WARNING] No enough blocks for `session_len` (1048576), `session_len` truncated "
            f"to «{blocks * 64}».",
        ]
    ]


def sglang_latent(draw: random.Random, ranks: int) -> Lines:
    """One pool without values on each pipeline and tensor rank, beside state slots."""
    tokens, each = draw.randint(100_000, 900_000), draw.choice((46_848, 70_272))
    slots = draw.randint(50, 500)
    processes = []
    for n in range(ranks):
        tag = f"[2026-09-12 00:22:48 TP{n}]"
        processes.append(
            [
                f"{tag} Mamba Cache is allocated. max_mamba_cache_size: «{slots}», conv_state "
                "size: 0.36GB, ssm_state size: 18.56GB",
                f"{tag} KV Cache is allocated. dtype: torch.bfloat16, #tokens: «{tokens}», KV "
                f"size: «{tokens * each / GIB:.2f}» GB",
                f"{tag} max_total_num_tokens=«{tokens}», chunked_prefill_size=«8192», "
                "max_prefill_tokens=«16384», max_running_requests=«64», context_len=«131072», "
                "available_gpu_mem=5.00 GB",
            ]
        )
    return processes


def trtllm_bytes(draw: random.Random) -> Lines:
    """Older lines: bytes, tokens, blocks and the tokens of each."""
    blocks, each = draw.randint(500, 9000), draw.choice((64, 128))
    free = blocks * each * 524_288 / GIB / 0.9
    return [
        [
            "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: "
            f"total: {free + 9:.2f} GiB, available: {free:.2f} GiB",
            f"[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: «{blocks}»",
            f"[TensorRT-LLM][INFO] Number of tokens per block: «{each}».",
            "[TensorRT-LLM][INFO] [MemUsageChange] Allocated "
            f"{blocks * each * 524_288 / GIB:.2f} GiB for max tokens in paged KV cache "
            f"(«{blocks * each}»).",
        ]
    ]


def memory_logs(draw: random.Random) -> Iterator[tuple[str, Lines]]:
    """A log of each of these."""
    for graphs in (False, True):
        ranks = draw.randint(1, 16)
        yield f"vllm memory, {ranks} {graphs}", vllm_memory(draw, ranks, graphs=graphs)
    yield "atom", atom(draw)
    yield "ollama", ollama(draw)
    yield "lmdeploy", lmdeploy(draw)
    ranks = draw.randint(3, 16)
    yield f"sglang, latent, {ranks}", sglang_latent(draw, ranks)
    yield "trtllm, bytes", trtllm_bytes(draw)
