"""Mistakes in pools and buffers: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import BYTES, POOL, RANK, Table, each_of, refused, small

POOLS: Table = {
    "null pools": (small(pools=None), "pools: expected a list, got null"),
    "no bytes": (
        small(pools=[{"name": "p"}]),
        "pools[0]: expected either bytes or buffers, got neither",
    ),
    "bytes twice": (
        small(pools=[{"name": "p", "bytes": 1, "buffers": [{"bytes": 1}]}]),
        "pools[0]: expected either bytes or buffers, got both",
    ),
    "no buffers": (
        small(pools=[{"name": "p", "buffers": []}]),
        "pools[0].buffers: expected at least one buffer, got an empty list",
    ),
    "granule beside buffers": (
        small(pools=[{"name": "p", "granule": 2, "buffers": [{"bytes": 1}]}]),
        "pools[0].granule: expected the granule on each buffer, got one beside buffers",
    ),
    "zero bytes": (
        small(pools=[{"name": "p", "bytes": 0}]),
        "pools[0].bytes: expected bytes above 0 on some stage, got 0 on every stage",
    ),
    "zero bytes on every stage": (
        small(pools=[{"name": "p", "buffers": [{"bytes": 1}, {"bytes": {0: 0}}]}]),
        "pools[0].buffers[1].bytes: expected bytes above 0 on some stage, got 0 on every stage",
    ),
    "negative bytes": (
        small(pools=[{"name": "p", "bytes": -4}]),
        "pools[0].bytes: expected bytes of at least 0, got -4",
    ),
    "negative bytes of a stage": (
        small(pools=[{"name": "p", "bytes": {0: -4}}]),
        "pools[0].bytes.0: expected bytes of at least 0, got -4",
    ),
    "bytes of an unknown stage": (
        small(pools=[{"name": "p", "bytes": {0: 4, 7: 4}}]),
        "pools[0].bytes.7: expected a stage or a rank: one of 0, r0, got '7'",
    ),
    "bytes of no stage": (
        small(pools=[{"name": "p", "bytes": {}}]),
        "pools[0].bytes: expected one figure, or figures by stage or rank, got an empty mapping",
    ),
    "bytes of one rank of two": (
        {
            "ranks": [{"name": "r0", "quota": 1}, {"name": "r1", "quota": 1}],
            "pools": [{"name": "p", "bytes": {"r0": 4}}],
        },
        "pools[0].bytes: expected a figure for each rank, by its name or its stage: "
        "one of r0, r1, got none for 'r1'",
    ),
    "bytes by a rank that is named like its stage": (
        {
            "ranks": [{"name": "0", "quota": 1}],
            "pools": [{"name": "p", "buffers": [{"bytes": {0: 4}}]}],
        },
        "pools[0].buffers[0].bytes.0: expected a key that names one thing, got a stage and a rank",
    ),
    "bytes above zero of a stage whose only rank has none": (
        {
            "ranks": [{"name": "r0", "quota": 1}],
            "pools": [{"name": "p", "bytes": {0: 4, "r0": 0}}],
        },
        "pools[0].bytes: expected bytes above 0 on some stage, got 0 on every stage",
    ),
    "bytes of one stage of two": (
        small(pools=[{"name": "p", "bytes": {0: 4}}])
        | {"ranks": [RANK, {"name": "r1", "stage": 1, "quota": 1}]},
        "pools[0].bytes: expected a figure for each stage: one of 0, 1, got none for 1",
    ),
    "a stage twice": (
        small(pools=[{"name": "p", "bytes": {0: 4, "0": 4}}]),
        "pools[0].bytes: expected each key once, got '0' twice",
    ),
    "granule 0": (
        small(pools=[POOL | {"granule": 0}]),
        'pools[0].granule: expected a granule of at least 1 byte, "auto" or "pow2", got 0',
    ),
    "granule word": (
        small(pools=[POOL | {"granule": "atuo"}]),
        f'pools[0].granule: expected "auto", "pow2", or {BYTES}, got ' + "'atuo'",
    ),
    "min above max": (
        small(pools=[POOL | {"min_blocks": 5, "max_blocks": 4}]),
        "pools[0].min_blocks: expected min_blocks of at most max_blocks 4, got 5",
    ),
    "headroom as text": (
        small(pools=[POOL | {"resume_headroom": "no"}]),
        "pools[0].resume_headroom: expected true or false, got 'no'",
    ),
    "headroom as number": (
        small(pools=[POOL | {"resume_headroom": 0}]),
        "pools[0].resume_headroom: expected true or false, got 0",
    ),
    "two buffers of a name": (
        small(pools=[{"name": "p", "buffers": [{"name": "k", "bytes": 1}] * 2}]),
        "pools[0].buffers[1].name: expected a unique name, got 'k' again",
    ),
}


@each_of(POOLS)
def test_a_mistake_in_the_pools_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
