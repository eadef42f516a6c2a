"""Each rule of need and bytes alone: what is just enough passes, one less is found out."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.solver.check import Check, Decisions
from support.micro import cache, micro, one, pool

NOBODY = Decisions((0,), (), None, (), None, None, None)
LIVE = {"kind": "window", "window": 8, "keep": "live"}
CHUNKED = {"kind": "chunked", "chunk": 8, "in_flight": 4}
SHARED = [{"name": f"r{at}", "capacity": 40} for at in range(3)]
TWO = [{"name": name, "pool": "p", "kind": "full"} for name in ("c", "d")]

NEEDS: dict[str, tuple[dict[str, Any], int]] = {
    "full, in groups and with extra blocks": (
        cache(kind="full", groups=2, extra_blocks=1) | one(12),
        8,
    ),
    "peak": (cache(kind="window", window=8) | one(40), 3),
    "peak with a sink": (cache(kind="window", window=8, sink=3) | one(40), 4),
    "live, a token before a block is stale": (cache(**LIVE) | one(40, 22), 7),
    "live, once it is stale": (cache(**LIVE) | one(40, 23), 6),
    "structural floor of a live window": (cache(**LIVE) | one(40, 39), 3),
    "in flight": (cache(kind="window", window=8, keep="in_flight", in_flight=4) | one(40), 3),
    "chunked": (cache(**CHUNKED) | one(40), 3),
    "one flight a batch": (cache(**CHUNKED, in_flight_per="batch") | one(40, count=3), 7),
    "states": (cache(kind="state", blocks=2) | one(0, count=3), 6),
    "shared prefix": ({"batches": [{"name": "b", "shared_prefix": 16, "requests": SHARED}]}, 22),
    "scratch": (cache(**LIVE, scratch={"fraction": "1/2", "max_rewind": 4}) | one(41, 0), 8),
    "utilization": (one(12) | {"resume_utilization": "5/7"}, 5),
    "caches of a request": (one(12, caches=["c"]) | {"caches": TWO}, 3),
    "the largest batch": (
        {"batches": [{"name": f"b{n}", "requests": [{"capacity": n}]} for n in (20, 12)]},
        5,
    ),
    "min_blocks": (one(12) | pool(min_blocks=5), 5),
    "shards": (cache(kind="full", shards=2) | one(12), 2),
}


@pytest.mark.parametrize("rule", NEEDS)
def test_a_block_less_is_found_out(rule: str) -> None:
    sections, blocks = NEEDS[rule]
    check = Check(micro(10_000, **sections))
    assert check.broken(NOBODY._replace(blocks=(blocks,))) == []
    line = f"pool p has {blocks - 1} usable blocks, {blocks} are needed"
    assert check.broken(NOBODY._replace(blocks=(blocks - 1,))) == [line]


def test_running_requests_are_counted_whatever_their_caches() -> None:
    consumers = [{"name": "graphs", "bytes": 0, "per_request": 1}]
    check = Check(micro(99, **one(12, count=2, caches=["c"]), caches=TWO, consumers=consumers))
    assert check.broken(NOBODY._replace(blocks=(6,), running=2)) == []
    assert check.broken(NOBODY._replace(blocks=(6,), running=1)) == [
        "2 requests run at once, not 1"
    ]


def staging(*entries: dict[str, Any]) -> dict[str, Any]:
    named = [{"name": f"s{at}", **entry} for at, entry in enumerate(entries)]
    return {"prefill": {"requested": 9, "staging": named}}


def consumers(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"consumers": [{"name": f"c{at}", **entry} for at, entry in enumerate(entries)]}


CHUNK = {"chunk": 9}
BUFFERS = [{"bytes": 10}, {"bytes": 3, "granule": 7}]
EXPERTS = {"slot_bytes": [[1, 5], [9, 4]], "layers": 3, "granule": 8}
OPTIONS = [{"name": "o", "options": [{"name": "none"}, {"name": "some", "bytes": 7}]}]
BYTES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "blocks": ({}, {"blocks": (7,)}, 70),
    "granule": (pool(granule=32), {"blocks": (7,)}, 96),
    "granule pow2": (pool(granule="pow2"), {"blocks": (7,)}, 128),
    "buffers": (pool(buffers=BUFFERS), {"blocks": (8,)}, 108),
    "bytes by stage": (pool(bytes={"0": 6}), {"blocks": (7,)}, 42),
    "consumer": (consumers({"bytes": 5}), {"blocks": (7,)}, 75),
    "consumer at load": (consumers({"bytes": 5, "phases": ["load"]}), {}, 5),
    "share of a consumer": (consumers({"bytes": 9}, {"fraction": "1/2", "of": "c0"}), {}, 14),
    "bytes of running requests": (
        consumers({"bytes": 1, "per_request": 6}),
        {"blocks": (1,), "running": 2},
        23,
    ),
    "option": ({"choices": OPTIONS}, {"blocks": (7,), "options": (1,)}, 77),
    "staging": (staging({"base": 1, "per_token": "1/2", "granule": 4}), CHUNK, 8),
    "staging by a table": (staging({"table": [[4, 5], [16, 20]]}), CHUNK, 20),
    "the largest of a group": (
        staging({"base": 5, "group": "g"}, {"base": 8, "group": "g"}, {"base": 2}),
        CHUNK,
        10,
    ),
    "staging by context": (
        staging({"per_token_context": "1/2"}) | one(13),
        CHUNK | {"blocks": (4,)},
        99,
    ),
    "expert slots": ({"experts": EXPERTS}, {"slots": 2, "kept": 2}, 32),
}


@pytest.mark.parametrize("rule", BYTES)
def test_a_byte_less_is_found_out(rule: str) -> None:
    sections, fields, quota = BYTES[rule]
    check, decisions = Check(micro(quota, **sections)), NOBODY._replace(**fields)
    assert check.broken(decisions) == []
    lines = check.broken(decisions, (quota - 1,))
    assert lines
    assert all(line.startswith("rank r0 exceeds its quota by 1 B in ") for line in lines)


def test_headroom_from_staging_holds_in_decode() -> None:
    memory = {"free": 100, "utilization": 1, "total": 1000, "prefill_headroom": "from_staging"}
    problem = micro(ranks=[{"name": "r0", "memory": memory}], **staging({"base": 35}))
    assert Check(problem).broken(NOBODY._replace(chunk=9, blocks=(6,))) == []
    over = Check(problem).broken(NOBODY._replace(chunk=9, blocks=(7,)))
    assert "rank r0 exceeds its quota by 5 B in decode" in over


def test_a_buffer_above_its_largest_allocation_is_found_out() -> None:
    check = Check(micro(1000, **pool(max_bytes=64, granule=32)))
    assert check.broken(NOBODY._replace(blocks=(6,))) == []
    line = "pool p has 7 blocks, above max_bytes of a buffer"
    assert check.broken(NOBODY._replace(blocks=(7,))) == [line]
