"""Mistakes at the top of a problem and in its ranks: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import BYTES, NUMBER, RANK, Table, each_of, refused, small


def rank(**fields: Any) -> dict[str, Any]:
    return {"ranks": [{"name": "r0", **fields}]}


RANKS: Table = {
    "no mapping": ([1], "expected a mapping, got [1]"),
    "nothing": (None, "expected a mapping, got null"),
    "no ranks": ({}, "ranks: expected a value, got none"),
    "null ranks": ({"ranks": None}, "ranks: expected a list, got null"),
    "empty ranks": ({"ranks": []}, "ranks: expected at least one rank, got an empty list"),
    "ranks as text": ({"ranks": "r0"}, "ranks: expected a list, got 'r0'"),
    "ranks as mapping": (
        {"ranks": RANK},
        "ranks: expected a list, got {'name': 'r0', 'quota': 1000}",
    ),
    "rank as text": ({"ranks": ["r0"]}, "ranks[0]: expected a mapping, got 'r0'"),
    "no quota": (rank(), "ranks[0]: expected either quota or memory, got neither"),
    "quota twice": (
        rank(quota=1, memory={"free": 1}),
        "ranks[0]: expected either quota or memory, got both",
    ),
    "null quota": (rank(quota=None), "ranks[0]: expected either quota or memory, got neither"),
    "negative quota": (rank(quota=-1), "ranks[0].quota: expected bytes of at least 0, got -1"),
    "negative unit": (
        rank(quota="-1GiB"),
        "ranks[0].quota: expected bytes from 0 to below 2^63, got '-1GiB'",
    ),
    "unit nonsense": (rank(quota="10 XB"), f"ranks[0].quota: expected {BYTES}, got '10 XB'"),
    "NaN": (rank(quota=float("nan")), "ranks[0].quota: expected bytes of at least 0, got nan"),
    "infinite": (rank(quota=float("inf")), "ranks[0].quota: expected bytes of at least 0, got inf"),
    "2^63": (rank(quota=2**63), f"ranks[0].quota: expected bytes below 2^63, got {2**63}"),
    "8192PiB": (
        rank(quota="8192PiB"),
        "ranks[0].quota: expected bytes from 0 to below 2^63, got '8192PiB'",
    ),
    "true quota": (rank(quota=True), "ranks[0].quota: expected bytes of at least 0, got true"),
    "half a byte": (rank(quota=1.5), "ranks[0].quota: expected whole bytes, or a unit, got 1.5"),
    "stage as text": (
        rank(quota=1, stage="0"),
        "ranks[0].stage: expected a whole number of at least 0, got '0'",
    ),
    "no name": ({"ranks": [{"quota": 1}]}, "ranks[0].name: expected a value, got none"),
    "number as name": (rank(name=0, quota=1), "ranks[0].name: expected text, got 0"),
    "blank name": (rank(name=" ", quota=1), "ranks[0].name: expected a name, got ' '"),
    "name of two lines": (
        rank(name="a\nb", quota=1),
        r"ranks[0].name: expected printable text of at most 200 characters, got 'a\nb'",
    ),
    "two ranks of a name": (
        {"ranks": [RANK, RANK]},
        "ranks[1].name: expected a unique name, got 'r0' again",
    ),
    "version": (small(version=2), "version: expected 1, got 2"),
    "true version": (small(version=True), "version: expected 1, got true"),
    "name as list": (small(name=[]), "name: expected text, got []"),
    "unknown key": (rank(quoat=1, quota=1), "ranks[0].quoat: expected 'quota', got an unknown key"),
    "misspelt key that is needed": (
        {"rnaks": [RANK]},
        "rnaks: expected 'ranks', got an unknown key",
    ),
    "far-off key": (
        small(prefill={"requested": 1, "zzz": 0}),
        "prefill.zzz: expected one of requested, min, step, chunks, batches_in_flight, staging, "
        "got an unknown key",
    ),
    "number as key": (small() | {1: 2}, "expected text as a key, got 1"),
    "key of two lines": (
        small(**{"a\nb": 1}),
        r"['a\nb']: expected one of version, name, ranks, tokens_per_block, resume_utilization, "
        "pools, caches, batches, prefill, experts, consumers, choices, constraints, goals, fill, "
        "place, relax, variants, labels, "
        "got an unknown key",
    ),
    "blocks of 0 tokens": (
        small(tokens_per_block=0),
        "tokens_per_block: expected a whole number of at least 1, got 0",
    ),
    "utilization 0": (
        small(resume_utilization=0),
        "resume_utilization: expected a share above 0 and at most 1, got 0",
    ),
    "utilization above 1": (
        small(resume_utilization="20/19"),
        "resume_utilization: expected a share above 0 and at most 1, got '20/19'",
    ),
    "utilization NaN": (
        small(resume_utilization=float("nan")),
        f"resume_utilization: expected {NUMBER}, got nan",
    ),
}


@each_of(RANKS)
def test_a_mistake_in_the_ranks_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
