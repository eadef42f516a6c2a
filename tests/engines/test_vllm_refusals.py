"""What vLLM refuses: its reason, its figures, and the largest setting that starts."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.vllm.figures import gib
from kvplan.solver import plan
from kvplan.solver.advise.vllm_settings import optimize
from support.vllm_server import CONFIGS, architecture, problem, served, settings

GIB = 2**30
A3 = "Qwen3.6-35B-A3B-NVFP4"
STATES = "--engine-version 0.25.0 --kv-cache-dtype fp8 --max-model-len 131072 --available 1.90GiB"
LOWER = "Please lower max_num_seqs to at most"


def said(model: str, flags: str) -> dict[str, str]:
    with pytest.raises(Infeasible):
        plan(problem(model, flags))
    return vllm.refusal(architecture(model), settings(flags))


def test_a_hybrid_needs_a_state_block_for_each_of_its_requests() -> None:
    """vllm#38270: the commonest failure met in public."""
    assert said(A3, f"{STATES} --max-num-seqs 256") == {
        "max_num_seqs (256) exceeds available Mamba cache blocks": "(95)",
        LOWER: "95",
    }
    _, answer = served(A3, f"{STATES} --max-num-seqs 95")
    assert answer.blocks["paged"] == 95
    assert said(A3, f"{STATES} --max-num-seqs 96")[LOWER] == "95"


@pytest.mark.parametrize(
    "flags",
    [
        "--max-num-seqs 256 --enforce-eager",
        "--max-num-seqs 256 -O0",
        '--max-num-seqs 256 --compilation-config {"cudagraph_mode":"PIECEWISE"}',
        "--max-num-seqs 256 -cc.cudagraph_mode=NONE",
        "--max-num-seqs 256 --engine-version 0.19.0",
        "",
    ],
)
def test_without_graphs_of_whole_decode_steps_nothing_asks_for_states(flags: str) -> None:
    given = read_settings(vllm.FLAGS, [*STATES.split(), *flags.split()], {}, vllm.DIALECT)
    assert plan(vllm.build(architecture(A3), given)).blocks["paged"] > 0


def test_the_default_of_the_card_counts_too() -> None:
    common = {"gpu": "H100-80GB", "total_bytes": 79 * GIB, "weights_bytes": GIB}
    given = read_settings(vllm.FLAGS, STATES.split(), common)
    with pytest.raises(Infeasible):
        plan(vllm.build(architecture(A3), given))
    (label, _) = vllm.refusal(architecture(A3), given)
    assert label.startswith("max_num_seqs (1024)")


def test_an_estimate_that_falls_with_the_requests_lets_more_of_them_start() -> None:
    common = {"gpu": "H100-80GB", "total_bytes": 79 * GIB, "weights_bytes": 62 * GIB}
    flags = "--max-model-len 8192 --max-num-seqs"

    def blocks(requests: int) -> int:
        given = read_settings(vllm.FLAGS, [*flags.split(), str(requests)], common)
        return plan(vllm.build(architecture(A3), given)).blocks["paged"]

    given = read_settings(vllm.FLAGS, [*flags.split(), "1024"], common)
    most = int(vllm.refusal(architecture(A3), given)[LOWER])
    assert blocks(most) >= most
    with pytest.raises(Infeasible):
        blocks(most + 1)


def test_an_override_below_the_requests_is_refused() -> None:
    with pytest.raises(InvalidProblem, match=r"at most 95: max_num_seqs \(256\) exceeds"):
        problem(A3, f"{STATES} --max-num-seqs 256 --num-gpu-blocks-override 95")


def test_the_first_rank_that_fails_speaks_with_its_own_bytes() -> None:
    flags = "--tensor-parallel-size 2 --max-model-len 131072 --available 9GiB --available 6GiB"
    text = said("Meta-Llama-3.1-8B", flags)
    assert text["GiB KV cache is needed"] == "8.0"
    assert text["available KV cache memory"] == "6.0 GiB"
    assert (text["rank"], text["largest --max-model-len that starts"]) == ("gpu1", "98288")
    _, answer = served("Meta-Llama-3.1-8B", flags.replace("131072", "98288"))
    assert answer.requests[0].capacity == 98_288


@pytest.mark.parametrize(
    ("count", "text"),
    [(-1_814_599_860, "-1.69"), (0, "0.0"), (-1, "0.0"), (-GIB // 2, "-0.5"), (GIB * 3, "3.0")],
)
def test_gib_below_zero_round_as_python_does(count: int, text: str) -> None:
    assert gib(count) == text


def test_a_card_without_room_says_how_much_is_missing() -> None:
    common = {"total_bytes": 2203 * GIB // 100, "weights_bytes": 1646 * GIB // 100}
    flags = "--tensor-parallel-size 8 --gpu-memory-utilization 0.9 --max-model-len 8192 "
    flags += "--max-num-seqs 1024 --max-num-batched-tokens 2048"
    given = read_settings(vllm.FLAGS, flags.split(), {**common, "gpu": "L4"})
    text = vllm.refusal(architecture("Meta-Llama-3.1-70B"), given)
    assert text == {"No available memory for the cache blocks": "-1.69 GiB"}


WINDOWS: dict[str, Any] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "hidden_size": 1024,
    "max_position_embeddings": 8192,
    "sliding_window": 512,
    "attention_chunk_size": 1024,
    "layer_types": ["full_attention", "sliding_attention", "chunked_attention", "full_attention"],
}


@pytest.mark.parametrize(
    ("model", "flags", "fault"),
    [
        (
            "Meta-Llama-3.1-8B",
            "--max-num-batched-tokens 512 --max-num-seqs 1024",
            "at least --max-num-seqs (1024), or --max-num-seqs 512",
        ),
        (
            "Meta-Llama-3.1-8B",
            "--no-enable-chunked-prefill --max-num-batched-tokens 2048",
            "at least --max-model-len (131072) without chunked prefill",
        ),
        ("Meta-Llama-3.1-8B", "--max-num-seqs 0", "--max-num-seqs: expected at least 1"),
        (
            "Meta-Llama-3.1-8B",
            "--pipeline-parallel-size 2 --pp-layer-partition 32,0",
            "stages that each have a layer with a cache",
        ),
        (
            "Meta-Llama-3.1-8B",
            "--tensor-parallel-size 8 --decode-context-parallel-size 2",
            "--tensor-parallel-size above 8 KV heads",
        ),
        (
            "Meta-Llama-3.1-8B",
            "--tensor-parallel-size 16 --decode-context-parallel-size 4",
            "at most 2 with 8 KV heads",
        ),
        (
            "DeepSeek-R1",
            "--tensor-parallel-size 8 --decode-context-parallel-size 3",
            "a divisor of --tensor-parallel-size (8)",
        ),
        ("Meta-Llama-3.1-8B", "--prefill-context-parallel-size 2", "1 (more is not modelled)"),
        ("gpt-oss-20b", "--dtype bfloat16 --kv-transfer-config {}", "is not modelled"),
        ("Meta-Llama-3.1-8B", "--compilation-config {cudagraph_mod: NONE}", "'cudagraph_mode'"),
        ("Meta-Llama-3.1-8B", "--attention-config {hisparse_config: {}}", "host pages"),
    ],
)
def test_what_does_not_start_is_refused_with_the_reason(model: str, flags: str, fault: str) -> None:
    words = flags.replace("{cudagraph_mod: NONE}", '{"cudagraph_mod":"NONE"}')
    words = words.replace("{hisparse_config: {}}", '{"hisparse_config":{}}')
    with pytest.raises(InvalidProblem) as refusal:
        plan(problem(model, f"--available 10GiB {words}"))
    assert fault in str(refusal.value)


def test_windows_of_two_sizes_cannot_be_held_in_full() -> None:
    known = read_architecture(WINDOWS)
    with pytest.raises(InvalidProblem, match="windows of one size"):
        vllm.build(known, settings("--available 9GiB --disable-hybrid-kv-cache-manager"))
    assert vllm.build(known, settings("--available 9GiB"))


def test_an_override_below_one_request_starts_in_0_19() -> None:
    flags = "--engine-version 0.19.0 --max-model-len 8192 --max-num-batched-tokens 8192"
    figures, answer = served(
        "gemma-3-27b-it", f"{flags} --available 20GiB --num-gpu-blocks-override 3"
    )
    assert answer.blocks["paged"] == 3
    assert figures["GPU KV cache size"] == "0 tokens"
    assert figures["Maximum concurrency for 8,192 tokens per request"] == "0.00x"


def test_advice_never_names_what_the_engine_refuses() -> None:
    flags = "--dtype bfloat16 --available 3.11GiB --max-model-len 8192"
    for requests in (600, 1024, 2048):
        given = settings(f"{flags} --max-num-batched-tokens 2048 --max-num-seqs {requests}")
        known = read_architecture(CONFIGS["gpt-oss-20b"])
        advice = optimize(known, given, 8192)
        step = int(advice.flags.get("--max-num-batched-tokens", 2048))
        assert step >= requests
