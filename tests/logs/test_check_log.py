"""kvplan check-log: real logs of ATOM, and what their ranks make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.cli import run_kvplan
from support.logs import (
    ATOM,
    SGLANG_DRAFT,
    SGLANG_SWA,
    TRTLLM,
    VLLM_0,
    VLLM_ASCEND,
    VLLM_OVERRIDE,
    atom_lines,
    budget_line,
    write,
)

Capture = pytest.CaptureFixture[str]
COMPLETE = {"total_gpu", "utilization", "budget", "peak_torch", "non_torch", "cudagraph_est"}
COMPLETE |= {"safety", "available_for_kv", "block_bytes", "num_kvcache_blocks"}
LINES = [(log["source"], line) for log in ATOM["logs"] for line in log["lines"]]
WHOLE = [(source, line) for source, line in LINES if line.keys() >= COMPLETE]
OWN = [line for source, line in WHOLE if "932aefb" not in source]
"""Complete lines of a rank's own figures; since 932aefb a log prints the smallest rank's."""


def judged(capsys: Capture, path: Path, *more: Path) -> tuple[int, Any]:
    """Exit code and the one start of a log."""
    done = run_kvplan(capsys, "check-log", "--json", path, *more)
    assert done.err == ""
    (start,) = json.loads(done.out)
    return done.code, start


def test_the_cases_are_there() -> None:
    assert len(LINES) == 37
    assert (len(WHOLE), len(OWN)) == (25, 15)


@pytest.mark.parametrize("number", range(len(OWN)))
def test_a_complete_line_follows_from_its_terms(
    number: int, capsys: Capture, tmp_path: Path
) -> None:
    code, start = judged(capsys, write(tmp_path, [budget_line(OWN[number])]))
    assert (code, start["wrong"]) == (0, [])
    assert start["agreed"] == OWN[number]["num_kvcache_blocks"]


@pytest.mark.parametrize(
    ("term", "by"),
    [
        ("total_gpu", 1),
        ("utilization", 0.01),
        ("budget", 0.05),
        ("peak_torch", 0.1),
        ("non_torch", 0.1),
        ("cudagraph_est", 0.1),
        ("safety", 0.1),
        ("available_for_kv", 0.1),
        ("num_kvcache_blocks", 20),
        ("block_bytes", 100),
    ],
)
def test_a_term_that_is_changed_is_noticed(
    term: str, by: float, capsys: Capture, tmp_path: Path
) -> None:
    line = atom_lines("443b280", "Meta-Llama")[0]  # no state: its blocks take all of the bytes
    changed = budget_line({**line, term: round(line[term] + by, 2)})
    code, start = judged(capsys, write(tmp_path, [changed]))
    assert code == 1
    assert start["wrong"]


@pytest.mark.parametrize(
    ("model", "counts"), [("DeepSeek", (86_310, 86_310)), ("Meta-Llama", (107_703, 107_631))]
)
def test_the_pairs_before_and_after_the_agreement(
    model: str, counts: tuple[int, int], capsys: Capture, tmp_path: Path
) -> None:
    for source, count in zip(("443b280", "932aefb"), counts, strict=True):
        lines = [budget_line(line) for line in atom_lines(source, model)]
        code, start = judged(capsys, write(tmp_path, lines))
        assert (code, start["wrong"], start["ranks_agree"]) == (0, [], True)
        assert start["agreed"] == count
        assert len(start["ranks"]) == len(lines) in (2, 8)
        unused = sum(rank["unused_bytes"] or 0 for rank in start["ranks"])
        spread = model == "DeepSeek" and source == "443b280"
        assert unused == pytest.approx(1.13 * 2**30 if spread else 0, rel=0.01)


def test_an_agreed_figure_must_be_that_of_the_smallest_rank(
    capsys: Capture, tmp_path: Path
) -> None:
    lines = atom_lines("932aefb", "DeepSeek")
    more = [budget_line({**line, "available_for_kv": 124.92}) for line in lines]
    code, start = judged(capsys, write(tmp_path, more))  # the largest: ranks 4 and 5 have it
    assert code == 1
    assert {wrong["figure"] for wrong in start["wrong"]} == {"available"}
    assert [wrong["rank"] for wrong in start["wrong"]] == ["0", "1", "2", "3", "6", "7"]


def glm(folder: Path) -> Path:
    case = ATOM["glm_5_2_tp8_counts"]
    size = case["block_bytes"]
    lines = [{"block_bytes": size, "num_kvcache_blocks": count} for count in case["values"]]
    return write(folder, [budget_line(line) for line in lines])


def test_eight_counts_of_glm_disagree_and_what_it_costs(capsys: Capture, tmp_path: Path) -> None:
    code, start = judged(capsys, glm(tmp_path))
    assert (code, start["ranks_agree"], start["agreed"]) == (1, False, 29_453)
    assert start["over_asked_bytes"] == (29_905 - 29_453) * 1_486_080
    assert [rank["more"] for rank in start["ranks"]] == [452, 0, 9, 17, 65, 142, 156, 167]
    assert sum(rank["unused_bytes"] or 0 for rank in start["ranks"]) == 1008 * 1_486_080


def test_the_report_of_the_eight_counts(capsys: Capture, tmp_path: Path) -> None:
    done = run_kvplan(capsys, "check-log", glm(tmp_path))
    assert done.code == 1
    assert "8 ranks disagree: 29_453 to 29_905 (1.53 % apart)" in done.out
    assert "asked for 671_708_160 B (0.63 GiB) too much" in done.out
    assert "one agreed plan: 29_453 on every rank; it leaves 1_497_968_640 B" in done.out


def test_stages_with_other_blocks_share_a_count(capsys: Capture, tmp_path: Path) -> None:
    """COMPASS: 64 layers, 16 of them paged, on three stages."""
    sizes, counts = (1_310_720, 1_310_720, 1_572_864), (152_587, 152_587, 127_156)
    lines = [
        budget_line({"block_bytes": size, "num_kvcache_blocks": count})
        for size, count in zip(sizes, counts, strict=True)
    ]
    code, start = judged(capsys, write(tmp_path, lines))
    assert (code, start["agreed"]) == (1, 127_156)
    assert start["ranks"][0]["unused_bytes"] == (152_587 - 127_156) * 1_310_720


def test_state_pools_make_the_blocks_exact(capsys: Capture, tmp_path: Path) -> None:
    """Kimi-K3: 64 slots beside the blocks; one slot more is another count."""
    line = atom_lines("a public ATOM report")[0]
    slots, size = line["state"]
    for entries, wrong in ((slots, 0), (slots + 1, 1), (slots - 1, 1)):
        pools = [
            f"sub-pool kda: entries={entries}, entry_bytes={size}, reserved=3.35GB",
            f"sub-pool kv: entries=32980, entry_bytes={line['block_bytes']}, reserved=54.35GB",
        ]
        code, start = judged(capsys, write(tmp_path, [*pools, budget_line(line)]))
        assert (code, len(start["wrong"])) == (wrong, wrong), entries


def test_a_pool_below_zero_is_named(capsys: Capture, tmp_path: Path) -> None:
    error = (
        "AssertionError: available_for_kv=-30805.98MB (budget=86.40GB, peak_torch=57.68GB, "
        "non_torch=52.88GB, safety=5.76GB, free=177.39GB)"
    )
    code, start = judged(capsys, write(tmp_path, [error]))
    assert code == 1
    assert [wrong["figure"] for wrong in start["wrong"]] == ["available"]
    assert "below 0" in start["wrong"][0]["text"]


def test_a_second_start_in_the_same_log_is_told_apart(capsys: Capture, tmp_path: Path) -> None:
    runner = "[atom 08:31:41] Model Runner{}/2: warmup_model 40.35 seconds with 1 reqs 16384 tokens"
    lines = []
    for source in ("443b280", "932aefb"):
        lines += [runner.format(rank) for rank in range(2)]
        lines += [budget_line(line) for line in atom_lines(source, "Meta-Llama")]
    done = run_kvplan(capsys, "check-log", write(tmp_path, lines))
    assert done.code == 0
    assert done.out.count("2 ranks agree on ") == 2
    assert run_kvplan(capsys, "check-log", write(tmp_path, lines[2:4] + lines[6:])).code == 1


def test_logs_of_one_rank_each_are_one_start(capsys: Capture, tmp_path: Path) -> None:
    case = ATOM["glm_5_2_tp8_counts"]
    paths = [
        write(tmp_path, [budget_line({"block_bytes": 1, "num_kvcache_blocks": count})], f"{count}")
        for count in case["values"]
    ]
    code, start = judged(capsys, *paths)
    assert (code, len(start["ranks"]), start["agreed"]) == (1, 8, 29_453)


def test_vllm_figures_follow(capsys: Capture, tmp_path: Path) -> None:
    for lines in (VLLM_0, VLLM_ASCEND):
        code, start = judged(capsys, write(tmp_path, lines))
        assert (code, start["wrong"], start["notes"]) == (0, [], []), lines
        assert start["agreed"] is None


def test_tokens_of_blocks_that_an_override_drops_are_false(capsys: Capture, tmp_path: Path) -> None:
    """100 blocks are allocated, of 16 tokens each; 5,333,200 tokens are those of 333,325."""
    code, start = judged(capsys, write(tmp_path, VLLM_OVERRIDE))
    assert (code, start["agreed"]) == (1, 100)
    (wrong,) = start["wrong"]
    assert wrong["figure"] == "tokens"
    assert "100, 1600 tokens, so they and the concurrency beside them are false" in wrong["text"]


@pytest.mark.parametrize(
    ("lines", "old", "new", "figure"),
    [
        (VLLM_0, "= 23.35GiB", "= 23.51GiB", "budget"),
        (VLLM_0, "KV Cache is 1.57GiB", "KV Cache is 1.61GiB", "available"),
        (VLLM_ASCEND, "57403864576", "57503864576", "suggested"),
        (VLLM_ASCEND, "(0.9, 55.14 GiB)", "(0.9, 55.16 GiB)", "budget"),
        (SGLANG_SWA, "usage: 77.63 GB", "usage: 77.66 GB", "pools together"),
        (TRTLLM, "(3731744)", "(3731745)", "tokens"),
        (TRTLLM, "block=32, primary", "block=64, primary", "tokens"),
    ],
)
def test_a_changed_figure_of_any_engine_is_noticed(
    lines: list[str], old: str, new: str, figure: str, capsys: Capture, tmp_path: Path
) -> None:
    assert any(old in line for line in lines)
    changed = [line.replace(old, new) for line in lines]
    if old.startswith("block=32"):
        changed = [line for line in changed if "Number of tokens per block" not in line]
    code, start = judged(capsys, write(tmp_path, changed))
    assert code == 1
    assert figure in {wrong["figure"] for wrong in start["wrong"]}


def test_workers_of_vllm_differ_in_bytes_and_share_a_count(capsys: Capture, tmp_path: Path) -> None:
    lines = [
        "(Worker_TP0 pid=512) INFO [gpu_worker.py:373] Available KV cache memory: 20.16 GiB",
        "(Worker_TP1 pid=513) INFO [gpu_worker.py:373] Available KV cache memory: 20.66 GiB",
        "(EngineCore_DP0 pid=314) INFO [kv_cache_utils.py:1307] GPU KV cache size: 132,128 tokens",
        "(EngineCore_DP0 pid=314) INFO [kv_cache_utils.py:1312] Maximum concurrency for 8,192 "
        "tokens per request: 16.13x",
    ]
    lines = [line.replace("Worker_TP", "Worker_DP0_TP") for line in lines]
    code, start = judged(capsys, write(tmp_path, lines))
    assert (code, start["agreed"], start["notes"]) == (0, 132_128, [])
    assert [rank["name"] for rank in start["ranks"]] == ["TP0", "TP1"]
    assert [rank["unused_bytes"] for rank in start["ranks"]] == [0, 2**29]


def test_a_concurrency_of_layers_of_several_kinds_is_a_note(
    capsys: Capture, tmp_path: Path
) -> None:
    """vllm-project/vllm#40691: 290,864 tokens were logged beside 33.04 at 32,768."""
    lines = [
        "INFO GPU KV cache size: 290,864 tokens",
        "INFO Maximum concurrency for 32,768 tokens per request: 33.04x",
    ]
    code, start = judged(capsys, write(tmp_path, lines))
    assert code == 0
    assert "33.04 at 32768 tokens is not 290864 / 32768 = 8.88" in start["notes"][0]


def test_replicas_of_vllm_need_not_agree(capsys: Capture, tmp_path: Path) -> None:
    lines = [
        f"(EngineCore_DP{rank} pid=9{rank}) INFO GPU KV cache size: {tokens} tokens"
        for rank, tokens in ((0, "60,372"), (1, "60,393"))
    ]
    done = run_kvplan(capsys, "check-log", write(tmp_path, lines))
    assert (done.code, done.err) == (0, "")
    assert "vLLM DP1 (" in done.out


@pytest.mark.parametrize("lines", [SGLANG_SWA, SGLANG_DRAFT, TRTLLM])
def test_ranks_of_other_engines_agree(lines: list[str], capsys: Capture, tmp_path: Path) -> None:
    code, start = judged(capsys, write(tmp_path, lines))
    assert (code, start["wrong"], start["ranks_agree"]) == (0, [], True)
    assert len(start["ranks"]) == len({line[21:24] for line in lines if "TP" in line[21:24]} or "1")


def test_ranks_of_sglang_that_differ_in_one_pool_disagree(capsys: Capture, tmp_path: Path) -> None:
    lines = [line.replace("#tokens: 454112", "#tokens: 454111") for line in SGLANG_DRAFT[6:]]
    code, start = judged(capsys, write(tmp_path, [*SGLANG_DRAFT[:6], *lines]))
    assert (code, start["ranks_agree"]) == (1, False)
    assert [rank["count"] for rank in start["ranks"]] == [[454_112, 454_112], [454_112, 454_111]]


def test_trtllm_counts_what_it_allocates_after_profiling(capsys: Capture, tmp_path: Path) -> None:
    line = (
        "[TRT-LLM] [I] [batchmgr][RANK {}] Max KV cache blocks per sequence: 9 [window size=9], "
        "tokens per block=32, primary blocks={}, secondary blocks=0"
    )
    end = "[RANK {}] [MemUsageChange] Allocated {} GiB for max tokens in paged KV cache ({})."
    lines = []
    for blocks, size in ((129, "0.56"), (8191, "2.25")):
        for rank in (0, 1):
            count = blocks - rank if blocks > 1000 else blocks
            lines += [line.format(rank, count), end.format(rank, size, 32 * count)]
    code, start = judged(capsys, write(tmp_path, lines))
    assert (code, start["wrong"], start["agreed"]) == (1, [], 8190)
    assert [rank["count"] for rank in start["ranks"]] == [[8191], [8190]]
