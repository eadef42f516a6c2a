"""Mistakes in experts, consumers and choices: one line each."""

from __future__ import annotations

from typing import Any

from support.bad import RANK, Table, each_of, refused, small

EXPERTS: Table = {
    "slots of 0 bytes": (
        small(experts={"slot_bytes": 0}),
        "experts.slot_bytes: expected bytes above 0, got 0",
    ),
    "sized slots of 0 bytes": (
        small(experts={"slot_bytes": [[2, 5], [2, 0]]}),
        "experts.slot_bytes[1][1]: expected bytes above 0, got 0",
    ),
    "slots as empty list": (
        small(experts={"slot_bytes": []}),
        "experts.slot_bytes: expected a list of [count, bytes], got []",
    ),
    "min_slots above max_slots": (
        small(experts={"slot_bytes": 1, "min_slots": 5, "max_slots": 4}),
        "experts.min_slots: expected min_slots of at most max_slots 4, got 5",
    ),
    "max_slots beyond the sized": (
        small(experts={"slot_bytes": [[3, 1]], "max_slots": 4}),
        "experts.max_slots: expected max_slots of at most 3, the slots that have a size, got 4",
    ),
    "min_slots beyond the sized": (
        small(experts={"slot_bytes": [[3, 1]], "min_slots": 4}),
        "experts.min_slots: expected min_slots of at most 3, the slots that have a size, got 4",
    ),
    "no layers": (
        small(experts={"slot_bytes": 1, "layers": 0}),
        "experts.layers: expected layers on some stage, got 0 on every stage",
    ),
    "layers of a stage": (
        small(experts={"slot_bytes": 1, "layers": {0: -1}}),
        "experts.layers.0: expected a whole number of at least 0, got -1",
    ),
    "lend above 1": (
        small(experts={"slot_bytes": 1, "lend": {"fraction": 1.5}}),
        "experts.lend.fraction: expected a share from 0 to 1, got 1.5",
    ),
}

CONSUMERS: Table = {
    "no phase": (
        small(consumers=[{"name": "c", "bytes": 1, "phases": []}]),
        "consumers[0].phases: expected at least one phase, got an empty list",
    ),
    "a phase twice": (
        small(consumers=[{"name": "c", "bytes": 1, "phases": ["prefill", "prefill"]}]),
        "consumers[0].phases: expected each phase once, got one twice",
    ),
    "phases as text": (
        small(consumers=[{"name": "c", "bytes": 1, "phases": "prefill"}]),
        "consumers[0].phases: expected a list, got 'prefill'",
    ),
    "key that is no rank": (
        small(consumers=[{"name": "c", "bytes": {"r1": 1}}]),
        "consumers[0].bytes.r1: expected a stage or a rank: one of 0, r0, got 'r1'",
    ),
    "key that is a stage and a rank": (
        small(consumers=[{"name": "c", "bytes": {0: 1}}]) | {"ranks": [RANK | {"name": "0"}]},
        "consumers[0].bytes.0: expected a key that names one thing, got a stage and a rank",
    ),
    "neither bytes nor a fraction": (
        small(consumers=[{"name": "c"}]),
        "consumers[0]: expected bytes, per_request, or fraction with of, got neither",
    ),
    "a fraction of nothing": (
        small(consumers=[{"name": "c", "fraction": 0.5}]),
        "consumers[0].of: expected fraction and of together, got no of",
    ),
    "no fraction": (
        small(consumers=[{"name": "c", "of": "d"}]),
        "consumers[0].fraction: expected fraction and of together, got no fraction",
    ),
    "a fraction of no consumer": (
        small(consumers=[{"name": "d", "bytes": 1}, {"name": "c", "fraction": 0.5, "of": "e"}]),
        "consumers[1].of: expected a consumer with bytes of its own: one of d, got 'e'",
    ),
    "a fraction of itself": (
        small(consumers=[{"name": "d", "bytes": 1}, {"name": "c", "fraction": 0.5, "of": "c"}]),
        "consumers[1].of: expected a consumer with bytes of its own: one of d, got 'c'",
    ),
    "bytes beside a fraction": (
        small(
            consumers=[
                {"name": "d", "bytes": 3},
                {"name": "c", "bytes": 1, "fraction": 0.5, "of": "d"},
            ]
        ),
        "consumers[1].bytes: expected none beside fraction, got 1",
    ),
    "two consumers of a name": (
        small(consumers=[{"name": "c", "bytes": 1}] * 2),
        "consumers[1].name: expected a unique name, got 'c' again",
    ),
    "no options": (
        small(choices=[{"name": "x", "options": []}]),
        "choices[0].options: expected at least one option, got an empty list",
    ),
    "two options of a name": (
        small(choices=[{"name": "x", "options": [{"name": "a"}] * 2}]),
        "choices[0].options[1].name: expected a unique name, got 'a' again",
    ),
    "ambiguous choice": (
        small(choices=[{"name": "x=y", "options": [{"name": "a"}]}]),
        "choices[0].name: expected a name without = (choice:<name>=<option> is a variable), "
        "got 'x=y'",
    ),
}


@each_of({**EXPERTS, **CONSUMERS})
def test_a_mistake_in_what_competes_is_one_line(data: Any, line: str) -> None:
    assert refused(data) == [line]
