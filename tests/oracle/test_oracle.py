"""One rule at a time, small enough to compute by hand: what is best, and what is not feasible."""

from typing import Any

import pytest

from kvplan.models import InvalidProblem, Problem
from kvplan.solver.oracle import best
from support.micro import cache, micro, one, pool, solved


def test_nothing_but_a_rank() -> None:
    found = solved(micro(pools=[], caches=[]))
    assert (found.blocks, found.requests, found.goals) == ({}, {}, ())
    assert (found.prefill_chunk, found.expert_slots, found.copies) == (None, None, None)
    memory = {"total": 100, "utilization": 1, "peak_torch": 90, "graphs": 11}
    assert best(micro(ranks=[{"name": "r0", "memory": memory}], pools=[], caches=[])) is None


@pytest.mark.parametrize(
    ("least", "sections"),
    [
        (40, one(16)),
        (50, one(17)),
        (80, one(16, count=2)),
        (50, {**one(16), **pool(reserved_blocks=1)}),
        (80, {**one(16), "resume_utilization": "1/2"}),
        (50, {**one(16), "resume_utilization": "19/20"}),
        (40, {**one(16), "resume_utilization": "1/2", **pool(resume_headroom=False)}),
        (70, {**one(16), **pool(min_blocks=7)}),
        (60, {**one(16), **pool(multiple_of=3)}),
        (48, {**one(16), **pool(granule=16)}),
        (60, {**one(16), **pool(buffers=[{"bytes": 10, "granule": 16}, {"bytes": 3}])}),
        (80, {**one(16), **cache(kind="full", groups=2)}),
        (60, {**one(16), **cache(kind="full", extra_blocks=2)}),
        (20, {**one(16), **cache(kind="full", shards=2)}),
        (20, {**one(16), **cache(kind="full", tokens_per_block=8)}),
        (30, {**one(40), **cache(kind="window", window=6)}),
        (40, {**one(40), **cache(kind="window", window=6, sink=3)}),
        (20, {**one(40, 37), **cache(kind="window", window=6, keep="in_flight")}),
        (30, {**one(40), **cache(kind="window", window=6, keep="in_flight", in_flight=4)}),
        (30, {**one(40), **cache(kind="window", window=6, keep="live")}),
        (20, {**one(40), **cache(kind="chunked", chunk=6)}),
        (30, {**one(40), **cache(kind="state", blocks=3)}),
        (30, {**one(0), **cache(kind="state", blocks=3)}),
        (0, one(0)),
        (0, one(16, count=0)),
        (25, {"consumers": [{"name": "w", "bytes": 25}]}),
        (75, {"choices": [{"name": "c", "options": [{"name": "o", "bytes": 75}]}]}),
        (35, {"prefill": {"requested": 8, "min": 8, "staging": [{"name": "s", "base": 35}]}}),
        (24, {"experts": {"slot_bytes": 8, "min_slots": 3}}),
        (30, {"experts": {"slot_bytes": 8, "min_slots": 3, "granule": 10}}),
    ],
)
def test_the_last_byte_decides(least: int, sections: dict[str, Any]) -> None:
    assert best(micro(least, **sections)) is not None
    assert least == 0 or best(micro(least - 1, **sections)) is None


def test_batches_are_alternatives() -> None:
    requests = [[{"capacity": 16}, {"capacity": 4}], [{"capacity": 20}], []]
    batches = [{"name": str(i), "requests": each} for i, each in enumerate(requests)]
    found = solved(micro(70, batches=batches))
    assert (found.floors, found.blocks) == ({"p": 5}, {"p": 7})


def test_fill_takes_the_rest_but_what_max_blocks_leaves() -> None:
    assert solved(micro(109, **pool(reserved_blocks=2))).blocks == {"p": 10}
    assert solved(micro(109, **pool(max_blocks=7))).blocks == {"p": 7}
    assert solved(micro(109, **pool(multiple_of=4, reserved_blocks=1))).blocks == {"p": 9}
    assert best(micro(109, **one(32), **pool(max_blocks=7))) is None


def test_the_tightest_rank_rules_by_its_own_bytes() -> None:
    ranks = [
        {"name": f"r{i}", "stage": i % 2, "quota": quota} for i, quota in enumerate((90, 55, 80))
    ]
    stages = pool(bytes={"0": 10, "1": 5})
    assert solved(micro(ranks=ranks, **stages)).blocks == {"p": 8}
    assert solved(micro(ranks=ranks[:2], **stages)).blocks == {"p": 9}
    bare = pool(bytes={"0": 0, "1": 5})
    assert solved(micro(ranks=ranks, **bare)).blocks == {"p": 11}


def test_phases_are_apart() -> None:
    consumers = [
        {"name": "arena", "bytes": 95, "phases": ["load"]},
        {"name": "graph", "bytes": 30, "phases": ["decode", "capture"]},
    ]
    prefill = {"requested": 8, "min": 8, "staging": [{"name": "s", "base": 45}]}
    assert solved(micro(consumers=consumers, prefill=prefill)).blocks == {"p": 5}
    assert solved(micro(consumers=consumers)).blocks == {"p": 7}
    assert best(micro(94, consumers=consumers)) is None


def test_a_fitted_capacity_is_token_exact() -> None:
    window = cache(kind="window", window=6, keep="live")
    # The last of C tokens sees C-6 .. C-1: three blocks if the first of those ends a block.
    for capacity, held in ((36, 2), (37, 3), (38, 2), (39, 2), (40, 2), (41, 3)):
        problem = micro(20 * held, **window, **one(capacity, count=2))
        assert solved(problem).floors == {"p": 2 * held}
        assert best(micro(20 * held - 1, **window, **one(capacity, count=2))) is None
    fits = micro(40, **window, **one(41, fit="capacity", count=2))
    assert solved(fits).requests == {"q": (40, 39, 2)}
    flight = one(40, 36, fit="capacity", count=2)
    assert solved(micro(79, **flight)).requests == {"q": (12, 8, 2)}
    assert best(micro(19, **flight)) is None  # four tokens in flight never shrink


def test_a_larger_capacity_fits_where_the_least_does_not() -> None:
    window = cache(kind="window", window=2, keep="live")
    # At 29 tokens the query sees 27 and 28 in two blocks; at 30 it sees 28 and 29 in one.
    single = one(30, fit="capacity", min_capacity=29, count=3)
    assert solved(micro(30, **window, **single)).requests == {"q": (30, 29, 3)}
    assert best(micro(30, **window, **one(29, count=3))) is None


def test_a_fitted_count() -> None:
    assert solved(micro(79, **one(8, count=9, fit="count"))).requests == {"q": (8, 7, 3)}
    assert solved(micro(79, **one(8, fit="count"))).requests == {"q": (8, 7, 3)}
    assert best(micro(79, **one(8, fit="count", min_count=4))) is None
    halved = micro(79, **one(8, fit="count"), resume_utilization="1/2")
    assert solved(halved).requests == {"q": (8, 7, 1)}


def chunked(quota: int, **fields: Any) -> Problem:
    staging = [{"name": "s", "per_token": 4}]
    return micro(quota, **one(16), prefill={"requested": 20, "staging": staging, **fields})


def test_the_largest_chunk_that_fits() -> None:
    assert solved(chunked(100, min=6, step=4)).prefill_chunk == 14
    assert solved(chunked(120, min=6, step=4)).prefill_chunk == 20
    assert solved(chunked(111, chunks=[3, 17])).prefill_chunk == 17
    assert best(chunked(63, min=6, step=4)) is None
    # The window shrinks with the chunk, so its blocks leave room for one that is larger.
    window = cache(kind="window", window=1, keep="in_flight", in_flight="prefill")
    batch = one(16)
    staging = [{"name": "s", "per_token": 1}]
    prefill = {"requested": 20, "chunks": [4, 8, 12], "staging": staging}
    assert solved(micro(30, **window, **batch, prefill=prefill)).prefill_chunk == 8


def test_options_are_the_best_that_fit() -> None:
    dense = {"name": "dense", "bytes": 70, "phases": ["prefill"]}
    choices = [{"name": "way", "options": [dense, {"name": "tiled", "bytes": 20}]}]
    parts: dict[str, Any] = {**one(16), "choices": choices}
    assert solved(micro(110, **parts)).choices == {"way": "dense"}
    lean = solved(micro(109, **parts))
    assert (lean.choices, lean.goals[0], lean.blocks) == ({"way": "tiled"}, -1, {"p": 8})
    assert best(micro(59, **parts)) is None


def lending(keep: int, fraction: Any, staging: int, **fields: Any) -> Problem:
    experts = {"slot_bytes": 10, "max_slots": 8, "lend": {"keep": keep, "fraction": fraction}}
    prefill = {"requested": 8, "min": 8, "staging": [{"name": "s", "base": staging}]}
    return micro(100, experts={**experts, **fields}, prefill=prefill)


def test_lent_slots_come_back_as_far_as_they_fit() -> None:
    # Blocks come first: two beside eight slots, and three slots stay beside them and the staging.
    full = solved(lending(2, 1, 50))
    assert (full.expert_slots, full.blocks, full.expert_slots_in_prefill) == (8, {"p": 2}, 3)
    assert solved(lending(2, 1, 80)).expert_slots_in_prefill == 2
    assert solved(lending(2, 1, 85)).expert_slots == 1  # all of them stay: fewer than keep
    assert solved(lending(0, "1/2", 50)).expert_slots_in_prefill == 4
    half = solved(lending(0, "1/2", 70))
    assert (half.expert_slots, half.expert_slots_in_prefill) == (6, 3)  # of 7, 3 may be lent
    assert best(lending(2, "1/2", 85, min_slots=2)) is None


def test_slots_without_a_maximum_take_what_the_quota_holds() -> None:
    assert solved(micro(100, **one(8), experts={"slot_bytes": 10})).expert_slots == 8
    sized = {"slot_bytes": [[2, 10], [1, 30], [9, 40]]}
    assert solved(micro(100, **one(8), experts=sized)).expert_slots == 3
    assert solved(micro(99999, **one(8), experts=sized)).expert_slots == 12


def test_staging_as_headroom_is_charged_once() -> None:
    staging = [{"name": "s", "base": 30}]
    memory = {"total": 200, "utilization": "1/2", "prefill_headroom": "from_staging"}

    def filled(free: int) -> dict[str, int]:
        rank = {"name": "r0", "memory": {**memory, "free": free}}
        parts: dict[str, Any] = {
            "ranks": [rank],
            "prefill": {"requested": 8, "min": 8, "staging": staging},
        }
        return dict(solved(micro(**parts)).blocks)

    assert filled(150) == {"p": 7}  # 100 bytes of the utilization share, 30 of them staged
    assert filled(95) == {"p": 6}  # 95 bytes in all, 30 of them set aside in every phase


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at most 50 cells"):
        best(micro(1000), limit=50)
    with pytest.raises(ValueError, match="a bound on the count of 'q'"):
        best(micro(**one(0, fit="count")))
    with pytest.raises(InvalidProblem, match="copies:b: expected a batch that needs blocks"):
        best(micro(**one(0), fill={"batch": "b"}))
