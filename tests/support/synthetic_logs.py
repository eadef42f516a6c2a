"""Logs of every wording and prefix, from figures that belong together.

A figure that some other figure of its log determines stands between « and »: altering one of those
must be noticed; layers of llama.cpp are not among them, as twice as many half as wide are the same
bytes. Lines carry the tag of their process; a collector's prefix stands before all.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Sequence

GIB, MIB = 2**30, 2**20
STAMP = "2026-09-12T00:22:48.123456789Z"
COLLECTORS: dict[str, Callable[[str], str]] = {
    "plain": lambda line: line,
    "compose": lambda line: f"server-1  | {line}",
    "compose, stamped before": lambda line: f"{STAMP} server-1  | {line}",
    "compose, stamped behind": lambda line: f"server-1  | {STAMP} {line}",
    "kubectl --timestamps": lambda line: f"{STAMP} {line}",
    "kubectl --prefix": lambda line: f"[pod/server-0/main] {STAMP} {line}",
    "containerd": lambda line: f"{STAMP} stderr F {line}",
    "journald": lambda line: f"Sep 12 00:22:48 gpu-host serve[812]: {line}",
    "journald, iso": lambda line: f"2026-09-12T00:22:48+0200 gpu-host serve[812]: {line}",
    "iso": lambda line: f"2026-09-12 00:22:48,123 {line}",
    "srun": lambda line: f"0: {line}",
    "colours": lambda line: f"\x1b[1;36m{line[:4]}\x1b[0;0m{line[4:]}",
    "colours without their escape": lambda line: f"[34m0.14.912.338[0m [32mI [0m{line}",
    "carriage return": lambda line: f"{line}\r",
    "progress bar": lambda line: (
        f"Loading safetensors checkpoint shards: 100% Completed | 9/9 [00:29,  3.28s/it]{line}"
    ),
    "progress bar, redrawn": lambda line: f"  0%|          | 0/1 [00:00<?, ?it/s]\r{line}",
    "k9s": lambda line: f"│ {line}          │",
    "json file": lambda line: json.dumps(
        {"log": f"{line}\n", "stream": "stderr", "time": STAMP}, ensure_ascii=False
    ),
    "router": lambda line: f"[53871] {line}",
    "ray": lambda line: f"(ServeReplica:default:LLM pid=4242, ip=10.0.0.9) {line}",
}
Lines = list[list[str]]
"""Lines of each process, in its own order."""


def interleaved(processes: Sequence[Sequence[str]], draw: random.Random) -> list[str]:
    """One log of several processes, each in its own order."""
    rest = [list(lines) for lines in processes]
    log = []
    while any(rest):
        log.append(draw.choice([lines for lines in rest if lines]).pop(0))
    return log


def figures_in(log: Sequence[str]) -> list[tuple[int, int, int]]:
    """Line, start and end of every figure between « and »."""
    return [
        (number, match.start(), match.end())
        for number, line in enumerate(log)
        for match in re.finditer("«[^»]*»", line)
    ]


def bare(log: Sequence[str]) -> list[str]:
    """The log without marks."""
    return [re.sub("[«»]", "", line) for line in log]


def altered(log: Sequence[str], place: tuple[int, int, int], factor: float) -> list[str]:
    """The log with one figure changed, printed like the one before."""
    number, start, end = place
    line = log[number]
    text = line[start + 1 : end - 1]
    decimals = len(text.partition(".")[2])
    value = float(text.replace(",", "")) * factor
    if decimals and factor > 1:
        value += 0.5
    if f"{value:.{decimals}f}" == text.replace(",", ""):
        value += 1
    new = f"{value:,.{decimals}f}" if "," in text else f"{value:.{decimals}f}"
    assert new != text, line
    changed = [*log[:number], line[:start] + new + line[end:], *log[number + 1 :]]
    return bare(changed)


def _gib(count: float) -> str:
    return f"{count / GIB:.2f}"


VLLM_TAGS: dict[str, tuple[Callable[[int], str], str]] = {
    "0.8": (lambda n: f"(VllmWorker rank={n} pid={100 + n}) ", ""),
    "0.10": (lambda n: f"(VllmWorker TP{n} pid={100 + n}) ", "(EngineCore_0 pid=90) "),
    "0.11": (lambda n: f"(Worker_TP{n} pid={100 + n}) ", "(EngineCore_DP0 pid=90) "),
    "0.11 experts": (lambda n: f"(Worker_TP{n}_EP{n} pid={100 + n}) ", "(EngineCore_DP0 pid=90) "),
    "0.12": (lambda n: f"(Worker_DP0_TP{n} pid={100 + n}) ", "(EngineCore_DP0 pid=90) "),
    "0.19": (lambda n: f"(Worker_TP{n} pid={100 + n}) ", "(EngineCore pid=90) "),
    "0.19 colours": (
        lambda n: f"\x1b[0;36m(Worker_TP{n} pid={100 + n})\x1b[0;0m ",
        "\x1b[0;36m(EngineCore pid=90)\x1b[0;0m ",
    ),
    "0.28": (lambda n: f"(Worker_TP{n} pid={100 + n}) ", "(EngineCore pid=90) "),
    "ray": (
        lambda n: f"(EngineCore_DP0 pid=90) (RayWorkerWrapper pid={100 + n}, ip=10.0.0.{n}) ",
        "(EngineCore_DP0 pid=90) ",
    ),
}


def vllm(draw: random.Random, ranks: int, tags: str, *, each: bool, model: str = "") -> Lines:
    """V1: a core that prints one count, or one for each worker."""
    worker, core = VLLM_TAGS[tags]
    if ranks == 1:
        worker = lambda _: core  # noqa: E731 - the core is the worker
    block = 16 * draw.choice((8192, 24576, 131072, 98304))
    longest = draw.choice((4096, 8192, 32768, 131072, 40960))
    blocks = [draw.randint(20_000, 90_000)] * ranks
    if each:
        blocks = [count + 37 * rank for rank, count in enumerate(blocks)]
    mark = ("«", "»") if each and ranks > 1 else ("", "")
    stamp = "INFO 09-12 10:29:38"
    processes = [
        [
            f"{worker(n)}{stamp} [gpu_model_runner.py:1] Model loading took 14.2 GiB and 8 seconds",
            f"{worker(n)}{stamp} [gpu_worker.py:276] Available KV cache memory: "
            f"{mark[0]}{_gib((count + 0.5) * block)}{mark[1]} GiB",
        ]
        for n, count in enumerate(blocks)
    ]
    counts = blocks if each else [min(blocks)]
    draw.shuffle(counts)
    parts = [
        (
            f"GPU KV cache size: «{count * 16:,}» tokens",
            f"Maximum concurrency for «{longest:,}» tokens per request: "
            f"«{count * 16 / longest:.2f}»x",
        )
        for count in counts
    ]
    if tags == "0.28":
        parts = [(", ".join(both),) for both in parts]
    launch = [f"{core}{stamp} [core.py:1] {engine_line(model, longest)}"] if model else []
    said = [f"{core}{stamp} [kv_cache_utils.py:849] {text}" for both in parts for text in both]
    return [[*launch, *interleaved(processes, draw), *said]]


def engine_line(model: str, longest: int, kind: str = "a V1 LLM engine (v0.12.0)") -> str:
    """The line that an engine starts with; its length is that of the concurrency."""
    return (
        f"Initializing {kind} with config: model='{model}', speculative_config=None, "
        f"tokenizer='{model}', dtype=torch.bfloat16, max_seq_len=«{longest}», "
        "tensor_parallel_size=1, kv_cache_dtype=auto"
    )


ARGUMENTS = (
    "args: Namespace(host=None, port=8000, model='./model', max_model_len=None, block_size=16, "
    "swap_space=4, gpu_memory_utilization=0.9)"
)


def vllm_0(draw: random.Random, ranks: int, wording: str, *, launched: bool = False) -> Lines:
    """V0 in its three wordings; the first worker has no tag."""
    total, share = draw.choice(((79.22, 0.9), (23.58, 0.85), (139.81, 0.95)))
    weights, other, peak = draw.uniform(5, 15), draw.uniform(0.1, 2), draw.uniform(0.5, 2)
    budget = total * share
    left = budget - weights - other - peak
    f = [f"«{value:.2f}»" for value in (total, share, budget, weights, other, peak, left)]
    texts = {
        "two lines": [
            f"the current vLLM instance can use total_gpu_memory ({f[0]}GiB) x "
            f"gpu_memory_utilization ({f[1]}) = {f[2]}GiB",
            f"model weights take {f[3]}GiB; non_torch_memory takes {f[4]}GiB; PyTorch activation "
            f"peak memory takes {f[5]}GiB; the rest of the memory reserved for KV Cache is "
            f"{f[6]}GiB.",
        ],
        "a figure a line": [
            "Memory profiling results:",
            f"total_gpu_memory     {f[0]}GiB",
            f"gpu_memory_utilization       {f[1]}",
            f"the current vLLM instance can use    {f[2]}GiB",
            f"model weights take   {f[3]}GiB",
            f"non_torch_memory     {f[4]}GiB",
            f"PyTorch activation peak memory       {f[5]}GiB",
            f"available_kv_cache_memory    {f[6]}GiB",
        ],
        "pairs": [
            f"Memory profiling results: total_gpu_memory={f[0]}GiB initial_memory_usage="
            f"{weights + 0.4:.2f}GiB peak_torch_memory=«{weights + peak:.2f}»GiB "
            f"memory_usage_post_profile={weights + 0.6:.2f}GiB non_torch_memory={other:.2f}GiB "
            f"kv_cache_size={f[6]}GiB gpu_memory_utilization={f[1]}"
        ],
    }[wording]
    blocks, longest = draw.randint(2000, 30_000), draw.choice((2048, 8192, 32768))
    core = [
        f"INFO 12-13 19:54:19 distributed_gpu_executor.py:57] # GPU blocks: «{blocks}», "
        "# CPU blocks: 2048",
        f"INFO 12-13 19:54:19 distributed_gpu_executor.py:61] Maximum concurrency for «{longest}» "
        f"tokens per request: «{blocks * 16 / longest:.2f}»x",
    ]
    launch = []
    if launched:
        start = engine_line("./model", longest, "an LLM engine (v0.6.5)")
        launch = [
            f"INFO 12-13 19:54:00 {text}" for text in (f"api_server.py:1] {ARGUMENTS}", start)
        ]
    tags = ["", *(f"(VllmWorkerProcess pid={500 + n}) " for n in range(1, ranks))]
    place = "INFO 12-13 19:54:18 worker.py:243]"
    workers = [[f"{tag}{place} {text}" for text in texts] for tag in tags]
    return [[*launch, *interleaved(workers, draw), *core]]


def sglang(draw: random.Random, ranks: int, form: str) -> Lines:
    """Full caches, full and window pools, or a draft beside the target."""
    tokens = draw.randint(100_000, 900_000)
    each = draw.choice((8192, 16384, 24576))
    context = draw.choice((8192, 32768, 131072))
    more = ("«", "»") if ranks > 1 else ("", "")
    processes = []
    for n in range(ranks):
        place = f" DP{n} TP{n}" if form == "dp attention" else f" TP{n}"
        tag = f"[2026-09-12 00:22:48{place if ranks > 1 else ''}]"
        before, loaded = draw.uniform(60, 79), draw.uniform(5, 30)
        size = _gib(tokens * each)
        pool = f"{tag} KV Cache is allocated. #tokens: {{}}, K size: {{}} GB, V size: {{}} GB"
        lines = [
            f"{tag} Load weight begin. avail mem=«{before:.2f}» GB",
            f"{tag} Load weight end. type=LlamaForCausalLM, avail mem=«{before - loaded:.2f}» GB, "
            f"mem usage=«{loaded:.2f}» GB.",
            pool.format(f"«{tokens}»", f"«{size}»", f"«{size}»"),
        ]
        if form == "draft":
            small = _gib(tokens * each / 4)
            lines.append(pool.format(f"{more[0]}{tokens}{more[1]}", f"«{small}»", f"«{small}»"))
        if form == "window":
            window = tokens * 4 // 5
            part = _gib(window * each * 3 / 4)
            lines.append(pool.format(f"{more[0]}{window}{more[1]}", f"«{part}»", f"«{part}»"))
            whole = f"{2 * float(size) + 2 * float(part):.2f}"
            lines.append(f"{tag} SWAKVPool mem usage: «{whole}» GB, swa size: 9, full size: 9")
        lines.append(
            f"{tag} max_total_num_tokens=«{tokens}», chunked_prefill_size={more[0]}8192{more[1]}, "
            f"max_prefill_tokens={more[0]}16384{more[1]}, max_running_requests={more[0]}2048"
            f"{more[1]}, context_len={more[0]}{context}{more[1]}, available_gpu_mem=5.00 GB"
        )
        processes.append(lines)
    return processes


def trtllm(draw: random.Random, ranks: int, form: str) -> Lines:
    """Blocks, tokens of a block and bytes, by rank."""
    blocks, each = draw.randint(2000, 90_000), draw.choice((32, 64, 128))
    window = draw.choice((2048, 8192, 32768, 131072))
    size = blocks * each * 40_960 * 2 / GIB
    more = ("«", "»") if ranks > 1 else ("", "")
    processes = []
    for n in range(ranks):
        tag = f"[RANK {n}] " if form == "rank" else ""
        start = f"[1,{n}]<stderr>:" if form == "mpirun" else ""
        start += "[TensorRT-LLM][INFO] " if form != "rank" else f"[TRT-LLM] [I] {tag}"
        processes.append(
            [
                f"{start}Max KV cache blocks per sequence: «{-(-window // each)}» "
                f"[window size=«{window}»], tokens per block=«{each}», primary blocks=«{blocks}», "
                "secondary blocks=0",
                f"{start}Number of tokens per block: «{each}».",
                f"{start}[MemUsageChange] Allocated {more[0]}{size:.2f}{more[1]} GiB for max "
                f"tokens in paged KV cache («{blocks * each}»).",
            ]
        )
    return processes


def llamacpp(draw: random.Random, devices: int, form: str, *, launched: bool = False) -> Lines:
    """Caches with their buffers, and a breakdown by device."""
    types = {"f16": (2, 1), "q8_0": (34, 32), "q4_0": (18, 32)}
    kind = draw.choice(tuple(types))
    cells, layers = 256 * draw.randint(8, 500), devices * draw.randint(2, 5)
    row = draw.choice((512, 1024, 2048)) * types[kind][0] // types[kind][1]
    part = cells * layers * row / MIB
    name = {"unified": "llama_kv_cache_unified", "old": "llama_kv_cache_init"}.get(
        form, "llama_kv_cache"
    )
    lines = [
        f"{name}:      CUDA{n} KV buffer size = «{2 * part / devices:8.2f}» MiB"
        for n in range(devices)
    ]
    lines = [re.sub("« +", "«", line) for line in lines]
    if launched:
        width = part * MIB / cells / layers * types[kind][1] / types[kind][0]
        lines = [
            f"print_info: n_layer          = {layers}",
            f"print_info: n_embd_k_gqa     = «{int(width)}»",
            f"print_info: n_embd_v_gqa     = «{int(width)}»",
            f"llama_context: n_ctx         = «{cells}»",
            *lines,
        ]
    if form == "old":
        lines.append(
            f"llama_new_context_with_model: KV self size  = «{2 * part:.2f}» MiB, K ({kind}): "
            f"«{part:.2f}» MiB, V ({kind}): «{part:.2f}» MiB"
        )
    else:
        seqs = "1" if form == "unified" else "1/1"
        known = f"«{layers}»" if launched else str(layers)
        lines.append(
            f"{name}: size = «{2 * part:.2f}» MiB ( «{cells}» cells,  {known} layers,  {seqs} "
            f"seqs), K ({kind}): «{part:.2f}» MiB, V ({kind}): «{part:.2f}» MiB"
        )
    printer = draw.choice(("llama_memory_breakdown_print", "common_memory_breakdown_print"))
    for n in range(devices):
        model, context, compute = (draw.randint(400, 20_000) for _ in range(3))
        free, rest = draw.randint(100, 90_000), draw.randint(100, 2000)
        own = model + context + compute + 1
        lines.append(
            f"{printer}: |   - CUDA{n} (RTX 5090)  | «{free + own + rest}» = «{free}» + («{own}» = "
            f"«{model}» + «{context}» + «{compute}») + «{rest}» |"
        )
    return [lines]


def launched_logs(draw: random.Random) -> Iterator[tuple[str, Lines]]:
    """Logs that name the launch, which decides what a count alone leaves open."""
    for tags in VLLM_TAGS:
        ranks, model = draw.randint(1, 16), draw.choice(UNIFORM)
        yield f"vllm {tags}, {model}", vllm(draw, ranks, tags, each=False, model=model)
    for wording in ("two lines", "a figure a line", "pairs"):
        ranks = draw.randint(1, 16)
        yield f"vllm 0, {wording}", vllm_0(draw, ranks, wording, launched=True)
    for form in ("new", "unified"):
        devices = draw.randint(1, 16)
        yield f"llama.cpp, {form}", llamacpp(draw, devices, form, launched=True)


UNIFORM = (
    *("meta-llama/Llama-3.1-8B-Instruct", "Qwen/Qwen3-235B-A22B-FP8", "Qwen/Qwen2.5-7B-Instruct"),
    *("mistralai/Mixtral-8x7B-v0.1", "deepseek-ai/DeepSeek-R1", "microsoft/phi-4"),
    "/models/models--meta-llama--llama-3-1-70b-instruct/snapshots/0e9e39f249a16976",
)
"""Models whose layers are all alike."""


def every_log(draw: random.Random) -> Iterator[tuple[str, Lines]]:
    """A log of each engine, wording and tag, with 1 to 16 ranks."""
    for tags in VLLM_TAGS:
        for each in (False, True):
            ranks = draw.randint(1, 16)
            yield f"vllm {tags} {ranks} {each}", vllm(draw, ranks, tags, each=each)
    for wording in ("two lines", "a figure a line", "pairs"):
        ranks = draw.randint(1, 16)
        yield f"vllm 0, {wording}, {ranks}", vllm_0(draw, ranks, wording)
    for form in ("full", "window", "draft", "dp attention"):
        ranks = draw.randint(1, 16)
        yield f"sglang, {form}, {ranks}", sglang(draw, ranks, form)
    for form in ("rank", "mpirun", "single"):
        ranks = 1 if form == "single" else draw.randint(1, 16)
        yield f"trtllm, {form}, {ranks}", trtllm(draw, ranks, form)
    for form in ("new", "unified", "old"):
        devices = draw.randint(1, 16)
        yield f"llama.cpp, {form}, {devices}", llamacpp(draw, devices, form)
