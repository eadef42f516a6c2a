"""Mistakes in the readings of a rank: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import BYTES, Table, each_of, refused


def memory(**fields: Any) -> dict[str, Any]:
    return {"ranks": [{"name": "r0", "memory": fields}]}


MEMORY: Table = {
    "no reading": (
        memory(total=10),
        "ranks[0].memory: expected utilization (with total) or free, got neither",
    ),
    "no total": (
        memory(utilization=0.9),
        "ranks[0].memory.total: expected total beside a utilization or a fraction, got none",
    ),
    "a fraction of nothing": (
        memory(free=9, safety={"fraction": 0.1}),
        "ranks[0].memory.total: expected total beside a utilization or a fraction, got none",
    ),
    "negative reading": (
        memory(free=9, non_torch=-5),
        "ranks[0].memory.non_torch: expected bytes of at least 0, got -5",
    ),
    "negative free": (
        memory(free="-5GiB"),
        "ranks[0].memory.free: expected bytes from 0 to below 2^63, got '-5GiB'",
    ),
    "free above total": (
        memory(free=11, total=10),
        "ranks[0].memory.free: expected free of at most total 10, got 11",
    ),
    "utilization": (
        memory(total=10, utilization=1.1),
        "ranks[0].memory.utilization: expected a share above 0 and at most 1, got 1.1",
    ),
    "safety as nonsense": (
        memory(free=9, safety="much"),
        f"ranks[0].memory.safety: expected {{fraction: ...}}, or {BYTES}, got 'much'",
    ),
    "safety as list": (
        memory(free=9, safety=[1]),
        "ranks[0].memory.safety: expected {fraction: ...}, or bytes of at least 0, got [1]",
    ),
    "safety fraction": (
        memory(free=9, total=9, safety={"fraction": 2}),
        "ranks[0].memory.safety.fraction: expected a share from 0 to 1, got 2",
    ),
    "safety key": (
        memory(free=9, total=9, safety={"fractoin": 0.1}),
        "ranks[0].memory.safety.fractoin: expected 'fraction', got an unknown key",
    ),
    "headroom": (
        memory(free=9, prefill_headroom="from_stagin"),
        'ranks[0].memory.prefill_headroom: expected {fraction: ...}, "from_staging", or '
        f"{BYTES}, got 'from_stagin'",
    ),
    "headroom of no staging": (
        memory(free=9, prefill_headroom="from_staging"),
        'ranks[0].memory.prefill_headroom: expected a prefill section beside "from_staging", '
        "got none",
    ),
    "other": (
        memory(free=9, other={"int": -1}),
        "ranks[0].memory.other.int: expected bytes of at least 0, got -1",
    ),
    "other as list": (
        memory(free=9, other=[1]),
        "ranks[0].memory.other: expected a mapping, got [1]",
    ),
    "key with a dot": (
        memory(free=9, other={"a.b[0]": "x"}),
        f"ranks[0].memory.other['a.b[0]']: expected {BYTES}, got 'x'",
    ),
    "null as key": (
        memory(free=9, other={None: 1}),
        "ranks[0].memory.other: expected text as a key, got null",
    ),
}


@each_of(MEMORY)
def test_a_mistake_in_the_readings_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
