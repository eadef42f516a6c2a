"""Mistakes in the prefill section and its staging: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import BYTES, Table, each_of, prefill, refused, small

PREFILL: Table = {
    "min above requested": (
        prefill(min=101),
        "prefill.min: expected min of at most requested 100, got 101",
    ),
    "step 0": (prefill(step=0), "prefill.step: expected a whole number of at least 1, got 0"),
    "too fine a step": (
        small(prefill={"requested": 10**9, "min": 1}),
        "prefill.step: expected at most 65536 chunks, got a step of 1",
    ),
    "chunks beside step": (
        prefill(chunks=[1], step=1),
        "prefill.chunks: expected either chunks or min and step, got both",
    ),
    "no chunks": (prefill(chunks=[]), "prefill.chunks: expected 1 to 65536 chunks, got 0"),
    "chunks not sorted": (
        prefill(chunks=[1, 5, 5]),
        "prefill.chunks[2]: expected chunks in increasing order, got 5 after 5",
    ),
    "chunks above requested": (
        prefill(chunks=[1, 101]),
        "prefill.chunks[1]: expected chunks of at most requested 100, got 101",
    ),
    "staging of no form": (
        prefill(staging=[{"name": "s"}]),
        "prefill.staging[0]: expected base/per_token, a table, per_token_context or "
        "context_table, got none",
    ),
    "staging of both forms": (
        prefill(staging=[{"name": "s", "base": 1, "table": [[100, 1]]}]),
        "prefill.staging[0]: expected either base/per_token or a table, got both",
    ),
    "staging unit": (
        prefill(staging=[{"name": "s", "per_token": "64XB"}]),
        f"prefill.staging[0].per_token: expected {BYTES}, got '64XB'",
    ),
    "negative staging": (
        prefill(staging=[{"name": "s", "per_token": "-64KiB"}]),
        "prefill.staging[0].per_token: expected bytes of at least 0, got '-64KiB'",
    ),
    "short table": (
        prefill(staging=[{"name": "s", "table": [[99, 1]]}]),
        "prefill.staging[0].table: expected a table up to requested 100 tokens, "
        "got one that ends at 99",
    ),
    "table not sorted": (
        prefill(staging=[{"name": "s", "table": [[100, 1], [50, 2]]}]),
        "prefill.staging[0].table[1]: expected tokens in increasing order, got 50 after 100",
    ),
    "falling table": (
        prefill(staging=[{"name": "s", "table": [[50, 3], [100, 2]]}]),
        "prefill.staging[0].table[1]: expected non-decreasing bytes, got 2 after 3",
    ),
    "table entry": (
        prefill(staging=[{"name": "s", "table": [[50, 3], [100, "x"]]}]),
        f"prefill.staging[0].table[1][1]: expected {BYTES}, got 'x'",
    ),
    "table of one column": (
        prefill(staging=[{"name": "s", "table": [50, 100]}]),
        "prefill.staging[0].table[0]: expected [count, bytes], got 50",
    ),
    "staging beyond 2^63": (
        prefill(staging=[{"name": "s", "per_token": "1000PiB"}]),
        "prefill.staging[0]: expected bytes below 2^63 at the requested chunk, got more",
    ),
    "two staging entries of a name": (
        prefill(staging=[{"name": "s", "base": 1}, {"name": "s", "base": 2}]),
        "prefill.staging[1].name: expected a unique name on this stage, got 's' again",
    ),
    "staging of an unknown stage": (
        prefill(staging=[{"name": "s", "base": 1, "stage": 3}]),
        "prefill.staging[0].stage: expected a stage of a rank: one of 0, got 3",
    ),
}


@each_of(PREFILL)
def test_a_mistake_in_the_prefill_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
