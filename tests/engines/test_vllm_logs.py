"""vLLM's own start-up logs, from configs and flags: blocks, tokens, concurrency, refusals."""

from __future__ import annotations

import json
from fractions import Fraction
from math import ceil, floor
from pathlib import Path
from typing import NamedTuple

import pytest

from kvplan.models import Infeasible
from kvplan.models.engines import vllm
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.models.engines.vllm.pool_problem import blocks_of_request
from kvplan.solver import plan
from support.vllm_server import TOKENS, architecture, problem, served, settings, speculative

GIB = 2**30
HALF = Fraction(1, 200)  # of the last printed digit


class Log(NamedTuple):
    """A start-up of vLLM 0.19.0 on H100 (llm-d-incubation/llm-d-planner#205); GiB as printed."""

    model: str
    flags: str
    length: int
    gib: str
    blocks: int
    tokens: int
    concurrency: str
    padding: int = 0


LLMD = {
    "01": Log("CodeLlama-7b-hf", "", 8192, "61.66", 7891, 126_256, "15.41"),
    "03": Log("Meta-Llama-3.1-70B", "tp2", 8192, "37.28", 15_269, 244_304, "29.82"),
    "05": Log("Qwen2.5-7B-Instruct", "", 8192, "64.64", 75_644, 1_210_304, "147.74"),
    "07": Log("gemma-2-2b-it", "", 8192, "66.47", 83_770, 670_160, "81.73"),
    "09": Log("gemma-3-12b-it", "", 8192, "47.72", 48_867, 130_304, "15.88"),
    "11": Log("gemma-3-4b-it", "", 8192, "62.51", 204_817, 468_144, "57.05", 1),
    "13": Log("granite-3.1-2b-instruct", "", 8192, "69.28", 56_753, 908_048, "110.85"),
    "15": Log("granite-3.3-8b-instruct", "", 8192, "58.66", 24_027, 384_432, "46.93"),
    "17": Log("Meta-Llama-3.1-8B", "fp8", 8192, "58.11", 59_502, 952_032, "116.21"),
    "19": Log("Meta-Llama-3.1-8B", "", 8192, "64.61", 33_078, 529_248, "64.61"),
    "21": Log("Meta-Llama-3.1-8B", "float32", 8192, "42.8", 10_956, 175_296, "21.40"),
    "23": Log("Meta-Llama-3.1-8B", "", 4096, "58.11", 29_751, 476_016, "116.21"),
    "27": Log("Meta-Llama-3.1-8B", "tp2", 8192, "63.76", 65_293, 1_044_688, "127.53"),
    "29": Log("Meta-Llama-3.1-8B", "", 16_384, "58.11", 29_751, 476_016, "29.05"),
    "31": Log("Llama-4-Scout-17B-16E-Instruct", "tp4", 8192, "16.75", 91_495, 365_968, "44.68"),
    "33": Log("phi-4", "", 8192, "46.08", 15_098, 241_568, "29.49"),
    "35": Log("Mixtral-8x7B-v0.1", "tp2", 8192, "28.44", 29_121, 465_936, "56.88"),
    "37": Log("Qwen2.5-72B-Instruct", "tp4", 8192, "36.72", 30_081, 481_296, "58.75"),
    "39": Log("Kimi-VL-A3B-Instruct", "tp2", 8192, "54.78", 118_181, 1_890_896, "230.82"),
    "41": Log("gpt-oss-20b", "tp2", 8192, "63.28", 345_596, 2_764_768, "337.17"),
    "43": Log("Qwen1.5-MoE-A2.7B", "", 8192, "45.83", 15_644, 250_304, "30.55"),
    "45": Log("Qwen2.5-72B-Instruct", "tp2", 8192, "3.04", 1245, 19_920, "2.43"),
    "47": Log("Qwen2.5-7B-Instruct", "", 16_384, "58.53", 68_498, 1_095_968, "66.89"),
    "49": Log("Qwen2.5-7B-Instruct", "", 2048, "58.53", 68_500, 1_096_000, "535.16"),
    "51": Log("Qwen2.5-7B-Instruct", "", 8192, "58.53", 68_500, 1_096_000, "133.79"),
    "53": Log("Qwen2.5-7B-Instruct", "tp4", 8192, "67.34", 315_205, 5_043_280, "615.63"),
    "55": Log("Qwen3-8B", "", 8192, "57.5", 26_168, 418_688, "51.11"),
    "57": Log("Meta-Llama-3.1-8B", "", 8192, "67.71", 34_669, 554_704, "67.71"),
    "59": Log("Mistral-Small-3.1-24B", "tp2", 8192, "59.02", 48_349, 773_584, "94.43"),
    "61": Log("Qwen2.5-7B-Instruct", "", 8192, "64.64", 75_642, 1_210_272, "147.74"),
}
"""Those whose shape is known; 25 runs on two stages and is apart. 41 died after sizing and printed
no block count: it follows from the tokens and the concurrency."""


def flags_of(log: Log) -> str:
    words = {"": "", "fp8": "--kv-cache-dtype fp8", "float32": "--dtype float32"}
    sharing = f"--tensor-parallel-size {log.flags[2:]}" if log.flags.startswith("tp") else ""
    start = f"--engine-version 0.19.0 --max-model-len {log.length} --max-num-batched-tokens 8192"
    return f"{start} {sharing or words[log.flags]}"


@pytest.mark.parametrize("number", LLMD)
def test_llmd_blocks_lie_inside_the_printed_gib(number: str) -> None:
    log = LLMD[number]
    printed = Fraction(log.gib)
    least, most = (ceil((printed - HALF) * GIB), floor((printed + HALF) * GIB))
    counts = [
        plan(problem(log.model, f"{flags_of(log)} --available {quota}")).blocks["paged"]
        for quota in (least, most)
    ]
    assert counts[0] <= log.blocks <= counts[1]


@pytest.mark.parametrize("number", LLMD)
def test_llmd_tokens_and_concurrency_are_exact(number: str) -> None:
    log = LLMD[number]
    override = f"--num-gpu-blocks-override {log.blocks} --available {log.gib}GiB"
    figures, _ = served(log.model, f"{flags_of(log)} {override}")
    assert figures[TOKENS] == f"{log.tokens:,} tokens"
    label = f"Maximum concurrency for {log.length:,} tokens per request"
    assert figures[label] == f"{log.concurrency}x"
    assert figures.get("padding layers", "0") == str(log.padding)


def test_llmd_25_two_stages_print_the_first_ranks_gib_and_the_least_count() -> None:
    """67,207 blocks where the printed 66.54 GiB would hold 68,131: the other stage has less."""
    flags = "--engine-version 0.19.0 --max-model-len 8192 --pipeline-parallel-size 2"
    figures, answer = served("Meta-Llama-3.1-8B", f"{flags} --available 66.54GiB")
    assert answer.blocks["paged"] == 68_136
    other = 67_207 * 16 * 16 * 2 * 8 * 128 * 2  # tokens, layers, K and V, heads, dim, bytes
    figures, answer = served(
        "Meta-Llama-3.1-8B", f"{flags} --available 66.54GiB --available {other}"
    )
    assert figures[TOKENS] == "1,075,312 tokens"
    assert figures["Maximum concurrency for 8,192 tokens per request"] == "131.26x"
    assert [rank.slack for rank in answer.ranks] == [floor(Fraction("66.54") * GIB) - other, 0]


class Hybrid(NamedTuple):
    """A start-up of a Qwen hybrid in mode align."""

    model: str
    flags: str
    drafts: int
    length: int
    budget: str
    block: int
    request: int
    blocks: int
    tokens: int


B27, A3 = "Qwen3.6-27B-NVFP4", "Qwen3.6-35B-A3B-NVFP4"
TP2 = "--tensor-parallel-size 2 --kv-cache-dtype fp8"
TP4 = "--tensor-parallel-size 4 --kv-cache-dtype int8_per_token_head"
LONG = 262_144
HYBRIDS = {
    "talos#1995": Hybrid(B27, TP2, 0, 131_072, "4.99GiB", 1568, 90, 208, 302_921),
    "club-3090#594": Hybrid(B27, TP2, 3, LONG, "5.33GiB", 1600, 179, 205, 300_220),
    "club-3090#295": Hybrid(B27, TP2, 3, LONG, "424", 1600, 179, 424, 620_944),
    "club-3090#294": Hybrid(B27, TP2, 3, LONG, "425", 1600, 179, 425, 622_408),
    "club-3090#642": Hybrid(B27, TP2, 3, LONG, "426", 1600, 179, 426, 623_873),
    "club-3090#91": Hybrid(B27, TP2, 3, LONG, "423", 1600, 179, 423, 619_479),
    "club-3090#446": Hybrid(B27, TP4, 3, LONG, "15.73GiB", 1584, 181, 1206, 1_746_661),
    "club-3090#612": Hybrid(
        A3, "--kv-cache-dtype fp8", 0, 131_072, "5.98GiB", 2096, 69, 299, 567_978
    ),
    "club-3090#652": Hybrid(
        A3, "--kv-cache-dtype fp8", 0, 131_072, "6.01GiB", 2096, 69, 300, 569_878
    ),
    "1Cat-vLLM#490": Hybrid(
        B27,
        "--tensor-parallel-size 2 --kv-cache-dtype fp8_e5m2",
        0,
        LONG,
        "726",
        1568,
        174,
        726,
        1_093_773,
    ),
}
"""A budget without a unit is a count of blocks: those logs print no GiB, or one that two counts
share (#642: 11.05 GiB are 425.8 to 426.2 blocks)."""


@pytest.mark.parametrize("name", HYBRIDS)
def test_qwen_hybrids_are_exact_to_the_token(name: str) -> None:
    log = HYBRIDS[name]
    flags = f"--engine-version 0.24.0 --mamba-cache-mode align --max-model-len {log.length}"
    budget = (
        f"--num-gpu-blocks-override {log.budget} --available 1GiB"
        if log.budget.isdecimal()
        else f"--available {log.budget}"
    )
    drafts = speculative("mtp", log.drafts) if log.drafts else ()
    figures, answer = served(log.model, f"{flags} {log.flags} {budget}", *drafts)
    assert figures["Setting attention block size to"] == f"{log.block} tokens"
    assert answer.blocks["paged"] == log.blocks
    server = server_of(architecture(log.model), settings(f"{flags} {log.flags} {budget}", *drafts))
    assert blocks_of_request(server.layout, server.serving, log.length) == log.request
    assert figures[TOKENS] == f"{log.tokens:,} tokens"


@pytest.mark.parametrize(("drafts", "width", "padding"), [(0, 16, 0), (3, 17, 3)])
def test_an_mtp_layer_widens_the_groups_from_16_to_17(
    drafts: int, width: int, padding: int
) -> None:
    more = speculative("mtp", drafts) if drafts else ()
    given = settings(f"{TP2} --engine-version 0.24.0 --available 6GiB", *more)
    layout = server_of(architecture(B27), given).layout
    assert max(len(group.layers) for group in layout.groups) == width
    assert (len(layout.groups), layout.padding_layers) == (4, padding)


def test_gpt_oss_120b_is_refused_with_its_longest_length() -> None:
    """vllm-project/vllm#27508: (8192 + 73) blocks of 589,824 B are 4.54 GiB, 1.71 are there."""
    flags = "--engine-version 0.19.0 --dtype bfloat16 --max-num-batched-tokens 1024"
    model, more = "gpt-oss-120b", " --available 1.71GiB"
    asked = problem(model, flags + more)
    with pytest.raises(Infeasible):
        plan(asked)
    said = vllm.refusal(architecture(model), settings(flags + more))
    assert said["GiB KV cache is needed"] == "4.54"
    assert said["the estimated maximum model length is"] == str((3112 - 73) * 16)
    figures, _ = served(model, f"{flags}{more} --max-model-len auto")
    assert figures["Auto-fit max_model_len"] == "reduced from 131072 to 48624"


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """The DFlash2 draft of Qwen3.8-27B: five layers of a 2,048-token window, 4,096 B a token."""
    path = tmp_path / "draft.json"
    layers = {"num_hidden_layers": 5, "num_attention_heads": 32, "num_key_value_heads": 8}
    window = {"use_sliding_window": True, "sliding_window": 2048, "max_window_layers": 0}
    dtype = {"head_dim": 128, "torch_dtype": "bfloat16", "model_type": "qwen3"}
    path.write_text(json.dumps({**layers, **window, **dtype}))
    return path


@pytest.mark.parametrize(
    ("width", "budget", "length", "request_blocks", "blocks", "tokens"),
    [
        (8, 6_000_000_000, 71_680, 389, 408, 75_181),
        (0, 6_000_000_000, 60_928, 649, 653, 61_303),
        (0, 7_000_000_000, 71_680, 745, 762, 73_315),
    ],
)
def test_a_separate_draft_sets_the_width(
    draft: Path,
    width: int,
    budget: int,
    length: int,
    request_blocks: int,
    blocks: int,
    tokens: int,
) -> None:
    """A public report of 27B with DFlash2 on a 3090, vLLM 0.29 as it is and with a patch.

    Its states are 16 bits wide: 1,777,664 B a layer, so blocks of 448 tokens.
    """
    flags = "--engine-version 0.29.0 --mamba-cache-mode align --max-num-batched-tokens 2048 "
    flags += f"--mamba-ssm-cache-dtype float16 --max-model-len {length} --group-layers {width}"
    more = f" --kv-cache-memory-bytes {budget}"
    figures, answer = served(B27, flags + more, *speculative("dflash", 7, draft))
    assert figures["Setting attention block size to"] == "448 tokens"
    assert (answer.blocks["paged"], answer.floors["paged"]) == (blocks, request_blocks)
    assert figures[TOKENS] == f"{tokens:,} tokens"


def test_the_same_report_refuses_the_longer_length(draft: Path) -> None:
    flags = "--engine-version 0.29.0 --mamba-cache-mode align --max-num-batched-tokens 2048 "
    flags += "--mamba-ssm-cache-dtype float16 --max-model-len 71680"
    given = settings(
        f"{flags} --kv-cache-memory-bytes 6000000000", *speculative("dflash", 7, draft)
    )
    assert vllm.refusal(architecture(B27), given)["GiB KV cache is needed"] == "6.37"


def test_a_draft_of_wider_states_has_its_own_report(draft: Path) -> None:
    """832-token blocks, states padded by 1.71 %; 1,018 blocks, 35,945 tokens at 4,096."""
    flags = "--engine-version 0.29.0 --mamba-cache-mode align --max-num-batched-tokens 2048"
    override = " --max-model-len 4096 --num-gpu-blocks-override 1018 --available 1GiB"
    figures, _ = served(B27, flags + override, *speculative("dflash", 7, draft))
    assert figures["Setting attention block size to"] == "832 tokens"
    assert figures["Padding mamba page size by"] == "1.71%"
    assert figures[TOKENS] == "35,945 tokens"
    assert figures["Maximum concurrency for 4,096 tokens per request"] == "8.78x"


@pytest.mark.parametrize(
    ("compact", "blocks", "block_mib", "needed"),
    [("", 96, 64, 6 * GIB), (" --compact-draft-pages", 137, 32, 4_596_957_184)],
)
def test_sm70_needs_6_and_4_28125_gib_for_64k(
    tmp_path: Path, draft: Path, compact: str, blocks: int, block_mib: int, needed: int
) -> None:
    """1CatAI/1Cat-vLLM docs/design/sm70_memory_budget.md: fp8 target, fp16 draft, groups of 8."""
    data = json.loads(draft.read_text()) | {"torch_dtype": "float16"}
    draft.write_text(json.dumps(data))
    flags = "--engine-version 0.29.0 --mamba-cache-mode align --block-size 2048 --dtype float16 "
    flags += "--kv-cache-dtype fp8 --max-num-batched-tokens 8192 --max-model-len 65536 "
    flags += f"--group-layers 8 --kv-cache-memory-bytes 8GiB{compact}"
    asked = problem(B27, flags, *speculative("dflash", 7, draft))
    assert asked.pools[0].bytes == block_mib * 2**20
    assert plan(asked).floors["paged"] == blocks
    assert blocks * block_mib * 2**20 == needed
    assert needed * 100_000 == {96: 600_000, 137: 428_125}[blocks] * GIB


def test_short_convolutions_padded_to_the_attention_page() -> None:
    """LFM2.5-1.2B: pages padded by 300 %, 2 padding layers, 217,264 tokens, 313.37 requests."""
    flags = "--engine-version 0.19.0 --max-model-len 2048 --num-gpu-blocks-override 40738"
    figures, _ = served("LFM2-1.2B", f"{flags} --available 20GiB")
    assert figures["Padding mamba page size by"] == "300.00%"
    assert figures["padding layers"] == "2"
    assert figures[TOKENS] == "217,264 tokens"
    assert figures["Maximum concurrency for 2,048 tokens per request"] == "313.37x"
