"""SGLang's separate pools for a mix of lengths: its ratio, the best split, and the flags for it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS
from kvplan.models.layouts.pool_split import PoolSplit
from kvplan.solver import plan
from kvplan.solver.advise.sglang_pools import best_pools
from kvplan.solver.managers.workload import Workload
from support.sglang import CASES, architecture_of, settings_of
from support.shapes import architecture

MIX = Workload(mix=[{"capacity": 2000, "share": 0.7}, {"capacity": 12000, "share": 0.3}])
SPLIT = [
    name
    for name, case in CASES.items()
    if name.startswith(("swa", "state")) and not case["schedule"].get("max_total_tokens")
][::3]


def launched(**flags: Any) -> Settings:
    return Settings(FLAGS, {"available": 20 * 2**30, "context_length": 131072, **flags})


def split(name: str) -> PoolSplit:
    return best_pools(architecture_of(CASES[name]), settings_of(CASES[name]), MIX)


@pytest.mark.parametrize("name", SPLIT)
def test_no_rule_beats_the_best_split_and_the_flags_come_close(name: str) -> None:
    found = split(name)
    best = found.best.requests
    held = [each.requests for each in (found.engine, found.pasted) if each is not None]
    assert max(held, default=best) <= best
    assert found.status == "optimal"
    if found.pasted is not None:
        if found.pasted.flags.keys() != {"--max-running-requests"}:  # charges all a whole window
            assert found.pasted.requests >= min(best - 1, best * Fraction(19, 20))
        assert found.engine is None or found.pasted.requests > found.engine.requests
        assert all(f"{flag} {value}" in found.paste for flag, value in found.pasted.flags.items())


def test_the_best_split_is_the_best_of_all_splits() -> None:
    """gpt-oss-120b, one length: every count of full pages with the window pages that are left."""
    length, chunks, eviction, page, window, rest = 3000, 2 * 4096 + 1, 128, 1, 128, 2**30
    flags = launched(available=rest, chunked_prefill_size=4096, page_size=page)
    workload = Workload(requests=[{"capacity": length}])
    found = best_pools(architecture("gpt-oss-120b"), flags, workload).best
    full_bytes, window_bytes = (
        found.bytes[pool] // found.tokens[pool] for pool in ("full", "window")
    )
    of_request = min(window - 1 + eviction, length) + page
    held = Fraction(0)
    for full in range(rest // full_bytes):
        left = (rest - full * full_bytes) // window_bytes - chunks
        held = max(held, min(Fraction(full, length), Fraction(left, of_request)))
    assert found.requests == held


def test_the_ratio_of_a_long_context_is_small_and_of_short_requests_near_one() -> None:
    long, short = (
        best_pools(
            architecture("gpt-oss-120b"), launched(), Workload(requests=[{"capacity": tokens}])
        )
        for tokens in (131_072, 200)
    )
    assert long.engine is not None
    assert dict(long.engine.flags) == {"--swa-full-tokens-ratio": "0.8"}
    assert float(long.paste.split()[-1]) < 0.1
    assert short.pasted is None or float(short.paste.split()[-1]) > 0.8
    assert short.best.tokens["window"] <= short.best.tokens["full"]


def test_states_follow_the_lengths() -> None:
    model = architecture("Qwen3.5-27B")
    ratios = []
    for tokens in (500, 5000, 50_000):
        found = best_pools(model, launched(), Workload(requests=[{"capacity": tokens}]))
        assert found.pasted is not None
        assert found.paste.startswith("--mamba-full-memory-ratio")
        ratios.append(float(found.paste.split()[-1]))
    assert ratios == sorted(ratios, reverse=True)


def test_the_problem_is_solved_to_the_same_split() -> None:
    found = best_pools(architecture("gpt-oss-120b"), launched(), MIX)
    again = plan(found.problem)
    assert again.scale == found.best.requests
    assert PoolSplit.model_validate_json(found.model_dump_json()) == found


def test_one_pool_leaves_no_split() -> None:
    with pytest.raises(InvalidProblem, match="one pool of tokens leaves no split"):
        best_pools(architecture("Meta-Llama-3.1-8B"), launched())
