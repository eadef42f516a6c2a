"""Batches: what requests share, what placeholders hold, and the floors that follow."""

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver.oracle import needs
from support.micro import cache, micro, one, pool


def blocks(problem: Problem, loads: list[tuple[int, int, int]], prefix: int = 0) -> int:
    chunk = problem.prefill.requested if problem.prefill else None
    sized = [needs.Load(*load) for load in loads]
    return needs.cache_blocks(problem, problem.caches[0], prefix, sized, chunk)


def test_full_counts_requests_groups_and_extra_blocks() -> None:
    problem = micro(**cache(kind="full", groups=3, extra_blocks=1))
    assert blocks(problem, [(9, 8, 1), (4, 3, 2)]) == 3 * ((3 + 1) + 2 * (1 + 1))


def test_full_over_shards_holds_more_tokens_a_block() -> None:
    assert blocks(micro(**cache(kind="full", shards=3)), [(25, 24, 1)]) == 3


def test_placeholders_hold_state_alone() -> None:
    loads = [(0, 0, 5), (8, 7, 0), (8, 7, 1)]
    assert blocks(micro(**cache(kind="state", blocks=2)), loads) == 2 * (5 + 1)
    assert blocks(micro(**cache(kind="full", extra_blocks=1)), loads) == 2 + 1
    alone = [(0, 0, 5)]
    flight = cache(kind="chunked", chunk=8, in_flight=9, in_flight_per="batch")
    assert blocks(micro(**flight), alone) == 0
    assert blocks(micro(**cache(kind="full")), alone, prefix=16) == 0


def test_a_flight_of_the_batch_is_held_once() -> None:
    window = cache(kind="window", keep="in_flight", window=9, in_flight=10, in_flight_per="batch")
    # Two blocks each for the 8 tokens before the flight, three more for all 10 in flight.
    assert blocks(micro(**window), [(40, 0, 1), (30, 0, 2)]) == 2 * 3 + 3


def test_a_flight_of_the_prefill_is_its_chunks() -> None:
    prefill = {"requested": 12, "batches_in_flight": 2}
    chunked = cache(kind="chunked", chunk=8, in_flight="prefill")
    assert blocks(micro(prefill=prefill, **chunked), [(100, 99, 1)]) == 8  # 8 + 24 tokens


def test_a_prefix_is_held_once() -> None:
    problem = micro(**cache(kind="full", tokens_per_block=8))
    assert blocks(problem, [(48, 0, 2)], prefix=40) == 5 + 2
    assert blocks(problem, [(48, 0, 2)], prefix=39) == 4 + 2 * 2
    assert blocks(problem, [(16, 15, 2)], prefix=40) == 5  # longer than any request


def test_a_prefix_block_dies_when_nobody_sees_it() -> None:
    problem = micro(**cache(kind="window", keep="live", window=4, groups=2))
    # The one at token 20 sees 17..20, the one at 9 sees 6..9: blocks 0 of 5 is dead for both.
    assert blocks(problem, [(21, 20, 1), (10, 9, 1)], prefix=20) == 2 * (4 + 1)
    for t, prefix, histories in product((3, 4), (0, 7, 24), ((5, 20), (30, 31), (0, 40))):
        problem = micro(**cache(kind="window", keep="live", window=5, tokens_per_block=t))
        held: set[tuple[str | int, int]] = set()
        for number, history in enumerate(histories):
            for block in range(-(-(history + 1) // t)):
                seen = any(history - 4 <= token for token in range(block * t, block * t + t))
                if seen and block >= prefix // t:
                    held.add((number, block))
        for block in range(prefix // t):
            last = block * t + t - 1
            if any(history - 4 <= last for history in histories):
                held.add(("prefix", block))
        assert blocks(problem, [(h + 1, h, 1) for h in histories], prefix) == len(held)


@pytest.mark.parametrize(
    ("utilization", "fields", "raw", "floor"),
    [
        (1, {}, 19, 19),
        ("19/20", {}, 19, 20),
        ("19/20", {}, 20, 22),
        ("97/100", {}, 97, 100),
        ("97/100", {}, 98, 102),
        ("1/2", {}, 19, 38),
        ("1/2", {"resume_headroom": False}, 19, 19),
        ("1/2", {"min_blocks": 39}, 19, 39),
        ("1/2", {"min_blocks": 39, "multiple_of": 5}, 19, 40),
        ("1/2", {}, 0, 0),
        ("7/10", {}, 21, 30),
    ],
)
def test_smallest_legal(utilization: Any, fields: dict[str, Any], raw: int, floor: int) -> None:
    problem = micro(resume_utilization=utilization, **pool(**fields))
    share = needs.headroom(problem, problem.pools[0])
    assert needs.smallest_legal(problem.pools[0], [0, raw], 0, share) == floor


def test_smallest_legal_is_the_ceiling_at_any_size() -> None:
    spot = micro().pools[0]
    for utilization in (Fraction(1, 2), Fraction(19, 20), Fraction(97, 100), Fraction(1)):
        for raw in (*range(60), 86_310, 2**40 + 7, 2**70):
            exact = -(-raw * utilization.denominator // utilization.numerator)
            assert needs.smallest_legal(spot, [raw], 0, utilization) == exact


def test_structural_floors() -> None:
    caches = [
        {"name": "f", "pool": "p", "kind": "full", "groups": 2},
        {"name": "w", "pool": "p", "kind": "window", "keep": "live", "window": 9, "sink": 5},
        {"name": "v", "pool": "q", "kind": "window", "keep": "live", "window": 2, "groups": 3},
        {"name": "s", "pool": "q", "kind": "state", "blocks": 2, "extra_blocks": 4},
        {"name": "k", "pool": "q", "kind": "chunked", "chunk": 40, "groups": 5},
    ]
    pools = [{"name": name, "bytes": 10} for name in "pq"]
    problem = micro(pools=pools, caches=caches)
    # Window 9: 2 sink blocks and 9 tokens over at most 3 + 1 blocks, less one: 5. Window 2: 2.
    assert needs.structural_floors(problem) == {"p": 2 * 5 + 5, "q": 3 * 2 + 2 + 5}
    still = micro(pools=pools, caches=[caches[0], caches[3]])
    assert needs.structural_floors(still) == {"p": 0, "q": 0}


def test_copies_are_whole_in_every_pool() -> None:
    assert needs.copies_held({"a": 3, "b": 2, "c": 0}, {"a": 10, "b": 5, "c": 0}) == 2
    assert needs.copies_held({"a": 0}, {"a": 10}) == 0


def test_an_open_count_asks_for_one() -> None:
    problem = micro(**one(8, fit="count"))
    assert needs.asked(problem.batches[0].requests[0]) == needs.Load(8, 7, 1)
