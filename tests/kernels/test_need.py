"""Blocks of one request, rule by rule, against figures that engines and their threads publish."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from kvplan.kernels.instance import CacheRule
from kvplan.kernels.need import (
    batch_flight_blocks,
    ceil_div,
    lesser,
    need_term,
    placeholder_blocks,
    positive,
    prefix_term,
    stale_blocks,
    usable_for,
)
from kvplan.kernels.need import blocks as blocks_at
from support.instance import blocks, rule


@pytest.mark.parametrize(
    ("a", "b", "up"), [(0, 4, 0), (1, 4, 1), (4, 4, 1), (5, 4, 2), (-1, 4, 0), (-4, 4, -1)]
)
def test_ceil_div_rounds_up_below_zero_too(a: int, b: int, up: int) -> None:
    assert ceil_div(a, b) == up == ceil(Fraction(a, b))


@pytest.mark.parametrize("a", [-3, 0, 2, 5])
def test_positive_and_lesser(a: int) -> None:
    assert positive(a) == max(0, a)
    assert lesser(a, 2) == min(a, 2)


# --- full ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("capacity", "count"), [(1, 1), (32, 1), (33, 2), (1000, 32), (4096, 128)])
def test_full_holds_every_token(capacity: int, count: int) -> None:
    assert blocks(rule("full", 32), capacity) == count


def test_full_takes_groups_times_blocks_and_extra_ones() -> None:
    assert blocks(rule("full", 16, groups=3, extra_blocks=2), 17) == 3 * (2 + 2)


def test_full_does_not_depend_on_history() -> None:
    assert {blocks(rule("full", 8), 97, history) for history in range(98)} == {13}


# --- window, live: TensorRT-LLM KVCacheManagerV2 (_life_cycle_registry.py, _storage_manager.py) --


@pytest.mark.parametrize(
    ("history", "count"),
    [(0, 1), (31, 1), (32, 2), (63, 2), (64, 3), (95, 2), (96, 3), (127, 2), (128, 3)],
)
def test_live_window_of_64_on_blocks_of_32(history: int, count: int) -> None:
    assert blocks(rule("live", 32, reach=64), history + 1) == count


@pytest.mark.parametrize(("history", "count"), [(95, 3), (96, 4), (127, 3)])
def test_live_window_keeps_its_sink(history: int, count: int) -> None:
    assert blocks(rule("live", 32, reach=64, sink_blocks=1), history + 1) == count


@pytest.mark.parametrize(
    ("capacity", "window", "count"),
    [(97, 128, 13), (97, 8, 2), (201, 128, 17), (201, 8, 2)],
)
def test_live_window_on_blocks_of_8(capacity: int, window: int, count: int) -> None:
    assert blocks(rule("live", 8, reach=window), capacity) == count


def test_live_window_needs_nothing_when_its_last_token_ends_a_block() -> None:
    """A window of one token and nothing in flight: H = C = 200 (TensorRT-LLM #19400)."""
    assert blocks(rule("live", 8, reach=1), 200, 200) == 0
    assert blocks(rule("live", 8, reach=1), 199, 199) == 1


@pytest.mark.parametrize(
    ("history", "stale"), [(0, 0), (63, 0), (94, 0), (95, 1), (126, 1), (127, 2), (1055, 31)]
)
def test_a_block_is_stale_once_the_window_has_left_its_last_token(history: int, stale: int) -> None:
    """floor((H + 1 - 64) / 32), and nothing before the window is full."""
    assert stale_blocks(need_term(rule("live", 32, reach=64), 1), history) == stale
    assert stale_blocks(need_term(rule("full", 32), 1), history) == 0


def test_a_sink_longer_than_what_is_stale_keeps_everything() -> None:
    assert blocks(rule("live", 4, reach=4, sink_blocks=9), 33, 32) == 9  # 29 // 4 = 7 < 9
    assert blocks(rule("live", 4, reach=4, sink_blocks=9), 53, 52) == 14 - (12 - 9)


# --- shared prefix ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("capacity", "history", "own"), [(48, 47, 1), (41, 40, 1), (40, 39, 0), (8, 7, 0)]
)
def test_a_request_adds_its_own_blocks_behind_the_prefix(
    capacity: int, history: int, own: int
) -> None:
    assert blocks(rule("full", 8), capacity, history, prefix_blocks=5) == own


def test_a_live_window_behind_a_prefix_loses_only_its_own_dead_blocks() -> None:
    window = rule("live", 4, reach=4)
    # 13 blocks, 5 of them shared; blocks 0..8 are stale at H = 39, so 4 of the own 8 are.
    assert blocks(window, 52, 39, prefix_blocks=5) == 8 - 4
    assert blocks(window, 24, 22, prefix_blocks=5) == 1  # only shared blocks are stale


def test_a_sink_beyond_the_prefix_counts_as_own() -> None:
    window = rule("live", 4, reach=4, sink_blocks=7)
    assert blocks(window, 52, 39, prefix_blocks=5) == 8 - (9 - 7)


def test_a_request_shorter_than_the_prefix_holds_nothing_of_its_own() -> None:
    for kind in ("full", "live"):
        assert blocks(rule(kind, 8, reach=64, extra_blocks=2), 7, 6, prefix_blocks=5) == 2


def prefix_blocks_at(of: CacheRule, shared: int, history: int) -> int:
    term = prefix_term(of, shared)
    return 0 if term is None else int(blocks_at(term, 0, history))


@pytest.mark.parametrize("shared", [1, 2, 7])
@pytest.mark.parametrize("sink_blocks", [0, 3, 9])
def test_a_shared_prefix_is_held_but_for_what_is_stale_for_all(
    shared: int, sink_blocks: int
) -> None:
    """B for full caches; for live windows less |[S, min(B, (H + 1 - W) // t))|."""
    window = rule("live", 4, reach=6, sink_blocks=sink_blocks, groups=2)
    for history in range(70):
        dead = range(sink_blocks, min(shared, (history + 1 - 6) // 4))
        assert prefix_blocks_at(window, shared, history) == 2 * (shared - len(dead))
        assert prefix_blocks_at(rule("full", 4, groups=3), shared, history) == 3 * shared


@pytest.mark.parametrize("kind", ["peak", "flight", "state"])
def test_only_full_caches_and_live_windows_share_a_prefix(kind: str) -> None:
    assert prefix_term(rule(kind, 4, reach=6), 5) is None
    assert prefix_term(rule("full", 4), 0) is None


# --- scratch ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewind", "count"),
    [(0, 2 + 16), (1, 2 + 16), (2, 3 + 16), (31, 3 + 16), (1985, 64), (2048, 64), (9999, 64)],
)
def test_scratch_reuse_of_four_alike_layers(rewind: int, count: int) -> None:
    """(2048, 0), t = 32, W = 64: 64 slots without; with it 62 are scratch: 2 + ceil(62 / 4)."""
    assert blocks(rule("live", 32, reach=64), 2048, 0) == 64
    assert blocks(rule("live", 32, reach=64, scratch=(1, 4), rewind=rewind), 2048, 0) == count


@pytest.mark.parametrize(
    ("fraction", "count"), [((0, 1), 2), ((1, 62), 3), ((1, 61), 4), ((1, 1), 64)]
)
def test_scratch_is_rounded_up_once(fraction: tuple[int, int], count: int) -> None:
    assert blocks(rule("live", 32, reach=64, scratch=fraction), 2048, 0) == count


def test_scratch_begins_behind_history_sink_and_prefix() -> None:
    window = rule("live", 32, reach=64, scratch=(0, 1))
    assert blocks(window, 2048, 1000) == (64 - 29) - (62 - 32)  # ceil(1000 / 32) = 32
    assert blocks(window._replace(sink_blocks=40), 2048, 0) == 64 - (62 - 40)
    assert blocks(window, 2048, 1280, prefix_blocks=40) == (64 - 40) - (62 - 40)
    assert blocks(window, 2048, 1024, prefix_blocks=40) == (64 - 40) - (62 - 40)


def test_scratch_leaves_extra_blocks_and_multiplies_groups() -> None:
    window = rule("live", 32, reach=64, scratch=(1, 4), groups=2, extra_blocks=3)
    assert blocks(window, 2048, 0) == 2 * (2 + 16 + 3)


def by_sets(window: CacheRule, capacity: int, history: int, shared: int) -> int:
    """A live window's need, block by block: what is held, stale, shared and scratch."""
    t, held = window.block_tokens, range(-(-capacity // window.block_tokens))

    def stale(at: int) -> range:
        return range(min(-(-at // t), window.sink_blocks), (at + 1 - window.reach) // t)

    own = [b for b in held if b >= shared and b not in stale(history)]
    need = len(own) + window.extra_blocks
    if window.scratch is not None:
        later = stale(max(0, capacity - window.rewind))
        lent = sum(b in later for b in held if b >= max(shared, -(-history // t)))
        need = max(0, need - lent + ceil(lent * Fraction(*window.scratch)))
    return window.groups * need


@pytest.mark.parametrize("scratch", [None, (0, 1), (1, 4), (2, 3), (1, 1)])
@pytest.mark.parametrize(("rewind", "shared"), [(0, 0), (5, 0), (3, 4), (40, 2)])
@pytest.mark.parametrize(
    ("t", "reach", "sink_blocks"), [(1, 3, 0), (4, 9, 0), (4, 1, 3), (5, 30, 2)]
)
def test_a_live_window_holds_what_is_neither_stale_nor_shared_nor_scratch(
    scratch: tuple[int, int] | None, rewind: int, shared: int, t: int, reach: int, sink_blocks: int
) -> None:
    window = rule(
        "live", t, reach=reach, sink_blocks=sink_blocks, scratch=scratch, rewind=rewind,
        groups=2, extra_blocks=1,
    )  # fmt: skip
    for capacity in range(1, 61):
        for history in range(capacity + 1):
            expected = by_sets(window, capacity, history, shared)
            found = blocks(window, capacity, history, prefix_blocks=shared)
            assert found == expected, (capacity, history)


# --- window, peak -------------------------------------------------------------------------------


@pytest.mark.parametrize("t", [1, 3, 4])
@pytest.mark.parametrize("sink_blocks", [0, 2])
@pytest.mark.parametrize("flight", [1, 2, 7])
@pytest.mark.parametrize("window", [1, 2, 9])
def test_peak_is_the_worst_instant_of_the_slide(
    t: int, sink_blocks: int, flight: int, window: int
) -> None:
    peak = rule("peak", t, reach=window, sink_blocks=sink_blocks, flight=flight)
    live = rule("live", t, reach=window, sink_blocks=sink_blocks)
    instants = [blocks(live, c, max(0, c - flight)) for c in range(1, 81)]
    held = [blocks(peak, c, flight=flight) for c in range(1, 81)]
    assert held[-1] == max(instants)
    assert all(now <= most for now, most in zip(instants, held, strict=True))
    assert held == sorted(held)


def test_peak_never_exceeds_what_the_capacity_holds() -> None:
    assert blocks(rule("peak", 16, reach=128), 40) == 3


# --- window, in_flight, and chunked: vLLM (kv_cache_interface.py, max_memory_usage_bytes) --------


@pytest.mark.parametrize(
    ("window", "in_flight", "capacity", "t", "count"),
    [
        (128, 1024, 131072, 16, 73),  # gpt-oss-120b, vllm-project/vllm #27508
        (1024, 8192, 8192, 16, 513),  # gemma-3-27b, llm-d planner logs
        (2048, 16384, 65536, 2048, 10),  # 1CatAI/1Cat-vLLM sm70_memory_budget.md, padded page
        (2048, 16384, 65536, 1024, 19),  # the same, compact page
    ],
)
def test_vllm_windows_admit_what_is_in_flight(
    window: int, in_flight: int, capacity: int, t: int, count: int
) -> None:
    admitted = rule("flight", t, reach=window - 1, extra_blocks=1)
    assert blocks(admitted, capacity, flight=in_flight) == count


@pytest.mark.parametrize(("capacity", "count"), [(131072, 1024), (16385, 1024), (100, 7)])
def test_chunked_local_attention_holds_its_chunk_and_the_flight(capacity: int, count: int) -> None:
    """Llama-4: chunks of 8,192 and 8,192 in flight, blocks of 16."""
    assert blocks(rule("flight", 16, reach=8192), capacity, flight=8192) == count


def test_a_flight_of_the_batch_is_no_part_of_a_request() -> None:
    shared = rule("flight", 4, reach=8, groups=2, extra_blocks=1, flight_per_batch=True)
    assert blocks(shared, 100, flight=10) == 2 * (2 + 1)
    assert batch_flight_blocks(shared, 10) == 2 * 3
    assert batch_flight_blocks(shared._replace(flight_per_batch=False), 10) == 0
    assert batch_flight_blocks(rule("peak", 4), 10) == 0


# --- state --------------------------------------------------------------------------------------


def test_state_takes_its_blocks_at_any_capacity() -> None:
    """Mamba mode "align" with seven draft tokens: 2 + 7 blocks (vLLM, SM70 hybrid)."""
    state = rule("state", 2048, groups=6, state_blocks=2 + 7)
    assert blocks(state, 65536) == blocks(state, 1) == placeholder_blocks(state) == 54
    assert placeholder_blocks(state._replace(extra_blocks=1)) == 60


@pytest.mark.parametrize("kind", ["full", "live", "peak", "flight"])
def test_a_placeholder_holds_no_attention_block(kind: str) -> None:
    assert placeholder_blocks(rule(kind, 16, extra_blocks=1)) == 0


# --- resume utilization -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "utilization", "usable"),
    [
        (20, "0.97", 21),  # two caches of 10 in one pool: one division, not 11 + 11
        (10, "0.97", 11),
        (97, "0.97", 100),
        (98, "0.97", 102),
        (19, "0.95", 20),  # 21 in single precision
        (9, "0.9", 10),  # 11 in single precision
        (21, "0.7", 30),  # 31 in double precision
        (7, "0.5", 14),
        (5, "1", 5),
        (0, "0.5", 0),
    ],
)
def test_usable_blocks_are_one_exact_division(raw: int, utilization: str, usable: int) -> None:
    share = Fraction(utilization)
    assert usable_for(raw, share.numerator, share.denominator) == usable
