"""Layout questions: what is refused, in a line with its path."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
from kvplan.models.layouts.question import EXAMPLE
from kvplan.solver.layout import layout
from kvplan.solver.layout.layout_candidates import arrangements, ways_of

FULL: dict[str, Any] = {"name": "full", "kind": "full", "layers": 4, "token_bytes": 8}
STATE: dict[str, Any] = {"name": "s", "kind": "state", "layers": 4, "state_bytes": 100}


def asked(*buckets: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"buckets": list(buckets), "requests": [{"capacity": 64}], **more}


def dump(**changes: Any) -> dict[str, Any]:
    """One full layer as vLLM describes it."""
    spec = {"kind": "full", "block_size": 16, "num_kv_heads": 1, "head_size": 64}
    return {
        "specs": {"a": {**spec, "dtype": "bfloat16", **changes}},
        "layers": ["a"],
        "max_model_len": 4096,
        "max_num_batched_tokens": 512,
        "available": [2**30],
    }


def test_specs_of_one_layer_are_answered() -> None:
    assert layout(dump()).figures.bytes == 4096 * 2 * 64 * 2


def test_the_example_is_answered() -> None:
    found = layout(EXAMPLE)
    assert found.figures.bytes == found.proof.bound
    assert LayoutAnswer.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (asked(), "buckets: expected at least one, got an empty list"),
        (asked(FULL, requests=[]), "requests: expected at least one, got an empty list"),
        (asked(FULL, FULL), "buckets[1].name: expected a name of its own"),
        (
            asked({**FULL, "state_bytes": 3}),
            "buckets[0]: expected either token_bytes or state_bytes, got both",
        ),
        (
            asked({**STATE, "token_bytes": 3, "state_bytes": None}),
            "buckets[0].state_bytes: expected state_bytes on a state",
        ),
        (asked({**FULL, "token_bytes": 0}), "buckets[0].token_bytes: expected at least 1 byte"),
        (
            asked({**FULL, "tokens_per_block": 24}),
            "buckets[0].tokens_per_block: expected a multiple of kernel_tokens 16, got 24",
        ),
        (
            asked({**FULL, "tokens_per_block": 32, "max_tokens_per_block": 16}),
            "buckets[0].max_tokens_per_block: expected at least tokens_per_block 32, got 16",
        ),
        (asked({**FULL, "groups": 2}), "buckets[0].groups: expected no groups"),
        (
            asked({**FULL, "hold_full": True}),
            "buckets[0].hold_full: expected hold_full on a window or chunked bucket",
        ),
        (asked({**FULL, "layers": 0}), "buckets[0].layers: expected 1 to 1024 layers, got 0"),
        (asked({**FULL, "layers": 9999}), "buckets[0].layers: expected 1 to 1024 layers, got 9999"),
        (
            asked({**FULL, "max_tokens_per_block": 10**9}),
            "buckets[0].max_tokens_per_block: expected at most 65536 multiples of 16 tokens",
        ),
        (
            asked(FULL, max_prefix_tokens=10**9),
            "max_prefix_tokens: expected at most 8192 times the least kernel_tokens 16",
        ),
        (
            asked({**FULL, "positions": [0, 1]}),
            "buckets[0].positions: expected 4 positions, one a layer, got 2",
        ),
        (
            asked({**FULL, "positions": [0, 1, 2, 2]}),
            "buckets: expected positions that name each layer once, got 2 twice",
        ),
        (
            asked({**FULL, "positions": [0, 1, 2, 3]}, STATE),
            "buckets[1].positions: expected positions, as on the other buckets, got none",
        ),
        (asked(FULL, objective="copies"), "ranks: expected ranks with a quota"),
        (
            asked(
                FULL,
                objective="copies",
                ranks=[{"name": "r", "quota": 9}],
                requests=[{"capacity": 9, "weight": "1/2"}],
            ),
            "requests[0].weight: expected a whole number beside objective copies, got 1/2",
        ),
        (
            asked({**FULL, "layers": {"0": 2, "3": 2}}, ranks=[{"name": "r", "quota": 9}]),
            "ranks: expected a rank on every stage, got none on stage 3",
        ),
        (
            asked({**FULL, "kind": "window", "window": 8, "keep": "live"}),
            "buckets[0].keep: expected a window that keeps peak or in_flight, got live",
        ),
        (
            asked({**FULL, "kind": "window", "window": 8, "in_flight": "prefill"}),
            "buckets[0].in_flight: expected tokens in flight",
        ),
        (asked(FULL, width=3), "width: expected"),
    ],
)
def test_bad_questions_are_refused_with_their_path(data: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidProblem) as error:
        LayoutQuestion.model_validate(data)
    assert str(error.value.faults[0]).startswith(line)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (asked(FULL, STATE, max_groups=1), "buckets: expected max_groups that leave a layout"),
        (
            asked({**FULL, "pad": False}, {**STATE, "pad": False}),
            "buckets: expected block tokens that give one page to all",
        ),
        (
            asked(*({**FULL, "name": f"f{n}", "own_pool": True} for n in range(13))),
            "buckets: expected at most 4,096 ways to share groups and to leave the shared pool, "
            "got 8,192",
        ),
        (asked(FULL, engine={"version": "0.1"}), "engine.version: expected a vLLM version"),
        ({"specs": {}, "layers": ["a"]}, "layers[0]: expected a known name"),
        ({"specs": {}, "layers": []}, "layers: expected a list of names of specs, got []"),
        ({"specs": [], "layers": ["a"]}, "specs: expected a mapping of names to specs, got []"),
        (dump(kind="fool"), "specs.a.kind: expected one of full, window"),
        (dump(block_size=0), "specs.a.block_size: expected a whole number of at least 1, got 0"),
        (dump(dtype="float4"), "specs.a.dtype: expected 'float32', got 'float4'"),
        (dump(kind="window"), "specs.a.window: expected a whole number of at least 1"),
        (dump(kind="mamba", shapes=[[1]], dtypes=[]), "specs.a.dtypes: expected 1 dtypes"),
        (dump(kind="mamba", shapes="x"), "specs.a.shapes: expected a list of shapes"),
        (
            dump(kind="mamba", shapes=[], dtypes=[], mamba_cache_mode="zzz"),
            "specs.a.mamba_cache_mode: expected one of none, align, all",
        ),
        ({**dump(), "stages": [3, 4]}, "stages: expected layers by stage that sum to 1"),
        ({**dump(), "max_model_len": "x"}, "max_model_len: expected a whole number"),
        ({**dump(), "available": []}, "available: expected a list of bytes, one a rank, got []"),
    ],
)
def test_what_permits_no_layout_is_refused(data: dict[str, Any], line: str) -> None:
    with pytest.raises(InvalidProblem) as error:
        layout(data)
    assert str(error.value.faults[0]).startswith(line)


def test_weights_are_shares_of_a_mix() -> None:
    """Twice the weight of a request is twice its bytes; scaling all weights changes no layout."""
    mix = [{"capacity": 640, "weight": "1/3"}, {"capacity": 64, "weight": "2/3"}]
    thrice = [{"capacity": 640}, {"capacity": 64, "weight": 2}]
    shares, whole = (layout(asked(FULL, STATE, requests=rows)) for rows in (mix, thrice))
    assert shares.figures.bytes * 3 == whole.figures.bytes
    assert shares.layout == whole.layout


def test_more_permission_never_takes_more() -> None:
    question = asked(
        {**FULL, "tokens_per_block": 64, "split": False},
        {**STATE, "blocks": 3},
        {**FULL, "name": "w", "kind": "window", "window": 40, "token_bytes": 24},
    )
    found = layout(question)
    assert len(found.freedom) == 5
    assert all(entry.bytes <= found.figures.bytes for entry in found.freedom)
    assert found.freedom[-1].bytes == min(entry.bytes for entry in found.freedom)
    costs = [found.figures.bytes, *(entry.bytes for entry in found.fewer_groups)]
    assert costs == sorted(costs)


def test_plain_integers_take_over_where_64_bits_end() -> None:
    """Bytes scaled by 10^9 leave 2^63; the layout stays and its bytes scale."""
    factor = 10**9
    small = layout(asked(FULL, STATE, requests=[{"capacity": 64_000}]), freedom=False)
    large = layout(
        asked(
            {**FULL, "token_bytes": 8 * factor},
            {**STATE, "state_bytes": 100 * factor},
            requests=[{"capacity": 64_000}],
        ),
        freedom=False,
    )
    assert large.figures.bytes == factor * small.figures.bytes
    assert large.figures.groups == small.figures.groups


def test_lengths_at_the_end_of_the_format() -> None:
    found = layout(asked(FULL, requests=[{"capacity": 2**57}]), freedom=False)
    assert found.figures.bytes == found.proof.bound == found.proof.floor_bytes == 2**62
    with pytest.raises(InvalidProblem, match=r"requests: expected a longest request below 2\^63"):
        layout(asked(FULL, requests=[{"capacity": 2**63 - 1}]), freedom=False)


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("free", [0, 1, 3])
def test_ways_to_share_and_to_leave_are_those_that_are_enumerated(share: bool, free: int) -> None:
    """Four full buckets and a state: 15 ways to share the four, and each that is free may leave."""
    full = [{**FULL, "name": f"f{n}", "own_pool": n < free} for n in range(4)]
    question = LayoutQuestion.model_validate(asked(*full, STATE, share_groups=share))
    assert ways_of(question) == len(list(arrangements(question)))


def test_many_buckets_are_answered_without_the_permissions_that_span_too_many_ways() -> None:
    """Seven rules of their own: leaving alone spans 128 ways, twelve buckets 4,096."""
    rows = [
        {"name": f"w{n}", "kind": "window", "window": 16 + n, "layers": 2, "token_bytes": 8 + n}
        for n in range(12)
    ]
    few, many = layout(asked(*rows[:7])), layout(asked(*rows))
    own = "a pool of its own for any bucket"
    assert own in [entry.permission for entry in few.freedom]
    assert own not in [entry.permission for entry in many.freedom]
    assert many.freedom


def test_a_cap_above_all_groups_caps_nothing() -> None:
    free, capped = (
        layout(asked(FULL, STATE, pages="packed", max_groups=most), freedom=False)
        for most in (None, 10**9)
    )
    assert free.figures == capped.figures
