"""Better settings of vLLM: tried on the engine's own rules, never worse, and they paste."""

from __future__ import annotations

from itertools import product

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.models.engines.vllm.pool_problem import blocks_of_request
from kvplan.solver import plan
from kvplan.solver.advise.advice import Advice
from kvplan.solver.advise.vllm_settings import optimize
from support.vllm_server import architecture, settings


def advice(model: str, flags: str, mean: int) -> Advice:
    return optimize(architecture(model), settings(flags), mean)


def held(model: str, flags: str, mean: int) -> int:
    """Requests of a length that fit at once, by the flags alone."""
    server = server_of(architecture(model), settings(flags))
    try:
        blocks = plan(server.problem()).blocks["paged"]
    except Infeasible:
        return 0
    null = server.serving.version.charges_null_block
    return (blocks - null) // blocks_of_request(server.layout, server.serving, mean)


def test_windows_that_hold_the_flight_gain_from_a_smaller_one() -> None:
    """gpt-oss-120b: 16,384 tokens in flight a window cost more than a request of 8,192."""
    flags = "--dtype bfloat16 --max-model-len 32768 --available 6GiB"
    found = advice("gpt-oss-120b", flags, 32_768)
    assert found.requests[0] == held("gpt-oss-120b", flags, 32_768)
    pasted = " ".join(f"{flag} {value}" for flag, value in found.flags.items())
    assert found.requests[1] == held("gpt-oss-120b", f"{flags} {pasted}", 32_768) == found.bound
    assert found.requests[1] > found.requests[0]
    assert found.before["step (tokens)"] == "8192"


def test_no_setting_of_a_grid_beats_the_advice() -> None:
    flags = "--dtype bfloat16 --max-model-len 16384 --available 3GiB"
    best = advice("gpt-oss-20b", flags, 16_384).requests[1]
    for block, step, wait in product(
        (16, 32, 64, 256), (8192, 2048, 512), ("", "--no-async-scheduling")
    ):
        tried = f"{flags} --block-size {block} --max-num-batched-tokens {step} {wait}"
        assert held("gpt-oss-20b", tried, 16_384) <= best


def test_one_kind_of_layer_leaves_nothing_to_set() -> None:
    found = advice("Meta-Llama-3.1-8B", "--max-model-len 8192 --available 20GiB", 8192)
    assert (found.flags, found.requests[0]) == ({}, found.requests[1])
    assert found.before == found.after


def test_packed_pages_are_offered_by_name() -> None:
    """Windows of 16 x 256 beside full layers of 4 x 512: pages 2:1, side by side in one block."""
    flags = "--max-model-len 131072 --available 20GiB --no-async-scheduling"
    found = advice("Gemma-4-31B-IT-NVFP4", flags, 131_072)
    spelled = " ".join(found.flags)
    packed = held("Gemma-4-31B-IT-NVFP4", f"{flags} --kv-cache-layout BLHNC", 131_072)
    assert found.requests[1] >= packed
    assert spelled == "" or spelled.startswith(("--", "VLLM_KV_CACHE_LAYOUT="))


def test_a_refused_start_is_helped_where_a_setting_helps() -> None:
    flags = "--dtype bfloat16 --max-model-len 32768 --available 1.6GiB"
    found = advice("gpt-oss-120b", flags, 32_768)
    assert found.before == {"requests at once": "refused"}
    assert found.requests == (0, 1)


def test_a_length_that_no_setting_serves_is_refused() -> None:
    """100 MiB hold 50 blocks of 16 tokens x 128 KiB, one of them the null block."""
    said = "--max-model-len: expected at most 784, the longest that some block size"
    model, card = "Meta-Llama-3.1-8B", "--available 100MiB --max-model-len"
    with pytest.raises(InvalidProblem, match=f"{said} and step can serve, got 8192"):
        advice(model, f"{card} 8192", 8192)
    assert advice(model, f"{card} 784", 784).requests[1] == 1
    with pytest.raises(InvalidProblem, match=f"{said} and step can serve, got 785"):
        advice(model, f"{card} 785", 785)


def test_bytes_that_hold_no_request_at_all_are_refused() -> None:
    with pytest.raises(InvalidProblem, match="more bytes for the cache: no block size or step"):
        advice("Meta-Llama-3.1-8B", "--max-model-len 8192 --available 1MiB", 8192)
