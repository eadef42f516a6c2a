"""Counts against the launch that a log names, and the lines that name it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvplan.solver.logs.reading.scan import scan
from kvplan.solver.logs.verdict import Start
from support.logs import write

CORE = "(EngineCore_DP0 pid=1) INFO 10-02 10:29:38 [core.py:1] "
CONFIG = "Initializing a V1 LLM engine (v0.12.0) with config: model='{}', "
CONFIG += "speculative_config={}, max_seq_len={}, kv_cache_dtype=auto"
COUNT = ("GPU KV cache size: {} tokens", "Maximum concurrency for {} tokens per request: {}x")


def read(folder: Path, lines: list[str]) -> list[Start]:
    return scan([str(write(folder, lines))])


def launched(
    length: int, *count: str, model: str = "Qwen/Qwen3-8B", draft: str = "None"
) -> list[str]:
    said = (COUNT[0].format(count[0]), COUNT[1].format(*count[1:]))
    return [CORE + text for text in (CONFIG.format(model, draft, length), *said)]


@pytest.mark.parametrize(
    ("length", "count", "more", "figures"),
    [
        (32768, ("418,688", "32,768", "12.78"), {}, set()),
        (16384, ("418,688", "32,768", "12.78"), {}, {"longest"}),
        # Halved tokens would be those of a model with states, which this one is not.
        (131072, ("571,392", "131,072", "8.72"), {}, {"concurrency"}),
        (131072, ("571,392", "131,072", "8.72"), {"model": "./model"}, set()),
        (131072, ("571,392", "131,072", "8.72"), {"draft": "SpeculativeConfig(x)"}, set()),
        (131072, ("571,392", "131,072", "8.72"), {"model": "Qwen/Qwen3-Coder-Next"}, set()),
        (32768, ("1,082,654", "32,768", "33.04"), {"model": "Qwen/Qwen3.5-27B"}, set()),
    ],
)
def test_a_count_follows_from_the_launch(
    length: int, count: tuple[str, ...], more: dict[str, str], figures: set[str], tmp_path: Path
) -> None:
    (start,) = read(tmp_path, launched(length, *count, **more))
    assert {one.figure for one in start.wrong} == figures


def test_a_length_that_the_engine_chose_is_no_contradiction(tmp_path: Path) -> None:
    lines = launched(40960, "26,064", "26,032", "1.00")
    assert [one.figure for one in read(tmp_path, lines)[0].wrong] == ["longest"]
    fitted = "Auto-fit max_model_len: reduced from 40960 to 26032 to fit in available GPU memory"
    (start,) = read(tmp_path, [lines[0], CORE + fitted, *lines[1:]])
    assert start.wrong == ()
    assert start.remarks == ("the longest context was reduced to fit, from 40960 to 26032 tokens",)


def test_the_arguments_of_a_restart_are_not_those_of_the_start_before(tmp_path: Path) -> None:
    lines = []
    for length, ratio in ((32768, "12.78"), (16384, "25.55")):
        arguments = f"non-default args: {{'model': 'Qwen/Qwen3-8B', 'max_model_len': {length}}}"
        lines.append(f"(APIServer pid=1) INFO 10-02 10:29:38 [utils.py:1] {arguments}")
        lines += launched(length, "418,688", f"{length:,}", ratio)
    starts = read(tmp_path, lines)
    assert [start.wrong for start in starts] == [(), ()]
    words = [start.shares[0].rank.words["--max-model-len"] for start in starts]
    assert words == ["32768", "16384"]


@pytest.mark.parametrize(
    ("arguments", "blocks", "is_fine"),
    [
        ("args: Namespace(model='x', block_size=16, swap_space=4)", 1952, True),
        ("args: Namespace(model='x', block_size=16, swap_space=4)", 3904, False),
        ("args: Namespace(model='x', block_size=None, swap_space=4)", 3904, False),
        ("args: Namespace(model='x', block_size=32, swap_space=4)", 976, True),
        ("args: Namespace(model='x', block_size=32, swap_space=4)", 1952, False),
        ("vLLM starts", 3904, True),  # nothing names the tokens of a block
    ],
)
def test_blocks_have_the_tokens_that_the_arguments_say(
    arguments: str, blocks: int, is_fine: bool, tmp_path: Path
) -> None:
    """Before 0.9 (vllm-project/vllm#10517: 1,952 blocks of 16 hold 20,000 tokens 1.56 times)."""
    lines = [
        f"INFO 12-02 10:00:00 api_server.py:529] {arguments}",
        f"INFO 12-02 10:00:00 gpu_executor.py:83] # GPU blocks: {blocks}, # CPU blocks: 2048",
        "INFO 12-02 10:00:00 gpu_executor.py:87] Maximum concurrency for 20000 tokens per request: "
        "1.56x",
    ]
    assert all(start.is_fine for start in read(tmp_path, lines)) is is_fine


LLAMA = [
    "print_info: n_layer               = 36",
    "print_info: n_embd_k_gqa          = 1024",
    "print_info: n_embd_v_gqa          = 1024",
    "llama_context: n_ctx         = 32768",
    "llama_kv_cache:      CUDA0 KV buffer size =  4608.00 MiB",
    "llama_kv_cache: size = 4608.00 MiB ( 32768 cells,  36 layers,  1/1 seqs), K (f16): 2304.00 "
    "MiB, V (f16): 2304.00 MiB",
]


@pytest.mark.parametrize(
    ("old", "new", "figures"),
    [
        ("n_ctx", "n_ctx", set()),
        ("32768 cells", "65536 cells", {"cells", "K", "V"}),
        ("n_ctx         = 32768", "n_ctx         = 16384", {"cells"}),
        ("36 layers", "72 layers", {"layers", "K", "V"}),
        ("36 layers", "18 layers", {"K", "V"}),
        ("n_embd_k_gqa          = 1024", "n_embd_k_gqa          = 512", {"K"}),
        ("n_embd_k_gqa          = 1024", "n_embd_k_gqa          = [512, 0, 512]", set()),
        ("2304.00 MiB, V", "2304.00 MiB, V", set()),
    ],
)
def test_caches_follow_from_context_and_model(
    old: str, new: str, figures: set[str], tmp_path: Path
) -> None:
    (start,) = read(tmp_path, [line.replace(old, new) for line in LLAMA])
    assert {one.figure for one in start.wrong} == figures


def test_a_latent_has_no_values(tmp_path: Path) -> None:
    """DeepSeek's GGUF names a width of values that the cache does not keep (ggml-org/llama.cpp)."""
    lines = [
        *("print_info: n_layer = 61", "print_info: n_embd_k_gqa = 576"),
        *("print_info: n_embd_v_gqa = 512", "llama_context: n_ctx         = 32768"),
        "llama_kv_cache: size = 2196.00 MiB ( 32768 cells,  61 layers,  1/1 seqs), K (f16): "
        "2196.00 MiB, V (f16):    0.00 MiB",
    ]
    assert read(tmp_path, lines)[0].is_fine
    (start,) = read(tmp_path, [line.replace("32768 cells", "16384 cells") for line in lines])
    assert {one.figure for one in start.wrong} == {"cells", "K"}


def test_an_index_has_rows_of_its_own(tmp_path: Path) -> None:
    index = "llama_kv_cache: size = {} MiB ( 32768 cells,  36 layers,  1/1 seqs), K (f16): {} MiB, "
    index = index.format("288.00", "288.00") + "V (f16): 0.00 MiB"
    assert read(tmp_path, [*LLAMA, index])[0].is_fine
    windowed = "llama_kv_cache_iswa: creating non-SWA KV cache, size = 32768 cells"
    (start,) = read(tmp_path, [windowed, *LLAMA, index])
    assert {one.figure for one in start.wrong} == {"K"}


@pytest.mark.parametrize(
    ("used", "figures"),
    [("59212694937", set()), ("49212694937", {"in use"})],
)
def test_bytes_in_use_are_those_available(used: str, figures: set[str], tmp_path: Path) -> None:
    """A line of 0.11, which prints them whole."""
    lines = [
        f"{CORE}Available KV cache memory: 55.15 GiB",
        f"{CORE}Free memory on device (78.66/79.19 GiB) on startup. Desired GPU memory utilization "
        "is (0.9, 71.27 GiB). Actual usage is 14.08 GiB for weight, 1.97 GiB for peak activation, "
        "0.07 GiB for non-torch memory, and 0.67 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=58333988249` to fit into requested "
        "memory, or `--kv-cache-memory=66273897472` to fully utilize gpu memory. Current kv cache "
        f"memory in use is {used} bytes.",
    ]
    (start,) = read(tmp_path, lines)
    assert {one.figure for one in start.wrong} == figures


@pytest.mark.parametrize(
    ("card", "usage", "held", "is_fine"),
    [
        ("94.05/95.01 GiB) {} (0.9, 85.51", "56.89 {} 0.76 {} 0.32", "27.85", True),
        ("22.45/23.99 GiB) {} (0.92, 22.07", "1.23 {} 0.31 {} 0.0", "20.52", True),
        ("274.27/276.62 GiB) {} (0.92, 254.49", "171.25 {} 36.74 {} 8.57", "46.5", True),
        ("274.27/276.62 GiB) {} (0.92, 254.49", "181.25 {} 36.74 {} 8.57", "46.5", False),
    ],
)
def test_what_is_consumed_leaves_what_is_available(
    card: str, usage: str, held: str, is_fine: bool, tmp_path: Path
) -> None:
    """The wording of 0.30 and later: weights and what torch does not hold are one figure."""
    parts = ("GiB for consumed memory (weights + non-torch),", "GiB for peak activation, and")
    when = "on startup. Desired GPU memory utilization is"
    budget = float(card.rpartition(", ")[2])
    used = sum(map(float, usage.replace("{} ", "").split()))
    suggested = int((budget - used) * 2**30) - 150 * 2**20
    lines = [
        f"{CORE}Available KV cache memory: {held} GiB",
        f"{CORE}Free memory on device ({card.format(when)} GiB). Actual usage is "
        f"{usage.format(*parts)} GiB for CUDAGraph memory. Replace gpu_memory_utilization config "
        f"with `--kv-cache-memory={suggested}` ({suggested / 2**30:.2f} GiB) to fit into requested "
        f"memory. Current kv cache memory in use is {held} GiB.",
    ]
    (start,) = read(tmp_path, lines)
    assert start.is_fine is is_fine


def test_a_draft_has_a_context_of_its_own(tmp_path: Path) -> None:
    draft = [
        *("print_info: n_layer               = 28", "print_info: n_embd_k_gqa          = 1024"),
        "print_info: n_embd_v_gqa          = 1024",
        "llama_context: n_ctx         = 4096",
        "llama_kv_cache: size = 448.00 MiB (  4096 cells,  28 layers,  1/1 seqs), K (f16): 224.00 "
        "MiB, V (f16): 224.00 MiB",
    ]
    (start,) = read(tmp_path, [*LLAMA, *draft])
    assert start.is_fine
