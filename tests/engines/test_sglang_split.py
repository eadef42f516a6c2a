"""SGLang --optimize: the best split of the same bytes, proven on the engine's own rules."""

from __future__ import annotations

from fractions import Fraction
from statistics import median
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang import FLAGS, build
from kvplan.models.engines.sglang.pools import open_split
from kvplan.solver import oracle, plan
from kvplan.solver.advise.advice import Advice, held, serving
from kvplan.solver.advise.sglang_split import optimize
from support.sglang import CASES, architecture_of, settings_of
from support.shapes import architecture

POINTS = [(name, *point) for name, case in CASES.items() for point in case.get("split", ())]
"""Case, mean length, and requests that the engine's split and the best split hold."""
# The engine's flag is at most 1, so a request that is shorter than its window, which takes a page
# more of window than of full tokens, cannot have the best split.
RATIO_ABOVE_ONE = {
    ("swa-018", 2048): 1526,
    ("swa-021", 2048): 273,
    ("swa-087", 2048): 3561,
    ("swa-117", 2048): 1839,
    ("swa-180", 2048): 959,
    ("swa-282", 2048): 133,
}
# The pools hold more requests than the engine lets run without --max-running-requests.
NONE_BEFORE = Fraction(10**6)
LIMITED = {("swa-165", 2048): 4096, ("swa-165", 8192): 4096}


def advised(name: str, mean_tokens: int) -> Advice:
    """The advice for a case."""
    return optimize(architecture_of(CASES[name]), settings_of(CASES[name]), mean_tokens)


@pytest.mark.parametrize(("name", "mean_tokens", "engine", "best"), POINTS)
def test_requests_before_and_after(name: str, mean_tokens: int, engine: int, best: int) -> None:
    advice = advised(name, mean_tokens)
    before = LIMITED.get((name, mean_tokens), engine)
    after = RATIO_ABOVE_ONE.get((name, mean_tokens), best)
    assert (advice.requests, advice.bound) == ((before, after), after)
    assert bool(advice.flags) == (after > before)


def test_only_the_named_points_differ() -> None:
    points = {(name, mean): (engine, best) for name, mean, engine, best in POINTS}
    assert all(points[point][1] > least for point, least in RATIO_ABOVE_ONE.items())
    assert all(points[point][0] > most for point, most in LIMITED.items())


@pytest.mark.parametrize(
    ("kind", "mean_tokens", "least"),
    [
        ("window", 2048, "1.6"),
        ("window", 8192, "1.7"),
        ("window", 32768, "2.1"),
        ("window", 131072, "2.9"),
        ("state", 2048, "1.9"),
        ("state", 8192, "1.3"),
        ("state", 32768, "1.3"),
        ("state", 131072, "1.6"),
    ],
)
def test_median_gain_over_the_cases(kind: str, mean_tokens: int, least: str) -> None:
    names = [
        name
        for name, mean, _, _ in POINTS
        if mean == mean_tokens and ("state" in CASES[name]) == (kind == "state")
    ]
    gains = [advised(name, mean_tokens).gain for name in names]
    assert median(gain or NONE_BEFORE for gain in gains) >= Fraction(least)


def test_pasted_flags_hold_what_is_promised() -> None:
    """The engine's own sizing, with the flags laid over, has room for the requests."""
    case = CASES["state-030"]
    model, settings = architecture_of(case), settings_of(case)
    advice = optimize(model, settings, 2048)
    pasted = {key.lstrip("-").replace("-", "_"): value for key, value in advice.flags.items()}
    assert [*advice.flags] == ["--max-running-requests", "--mamba-full-memory-ratio"]
    given = {key: settings[key] for key in settings.given}
    given |= {"max_running_requests": int(pasted["max_running_requests"])}
    given |= {"mamba_full_memory_ratio": Fraction(pasted["mamba_full_memory_ratio"])}
    problem = build(model, Settings(FLAGS, given))
    answer = plan(problem)
    assert held(problem, answer, 2048) == 661
    assert list(oracle.check(problem, answer)) == []
    assert advice.after["requests of 2048 tokens"] == "661"
    assert advice.before["requests of 2048 tokens"] == "335"


@pytest.mark.parametrize("name", ["swa-006", "state-033"])
def test_the_bound_is_proven_and_one_more_does_not_fit(name: str) -> None:
    problem = serving(open_split(architecture_of(CASES[name]), settings_of(CASES[name])), 8192)
    answer = plan(problem, solver="cp-sat")
    assert answer.proof.status == "optimal"
    assert list(oracle.check(problem, answer)) == []
    assert answer.requests[0].count == advised(name, 8192).bound


def flags(**given: Any) -> Settings:
    """SGLang's flags."""
    return Settings(FLAGS, given)


def test_states_without_a_radix_cache_follow_the_requests() -> None:
    settings = flags(available=2**36, disable_radix_cache=True)
    advice = optimize(architecture("Qwen3.5-27B"), settings, 16384)
    assert [*advice.flags] == ["--max-running-requests"]
    assert advice.requests[1] == advice.bound > advice.requests[0]


def test_declared_slots_are_declared_anew() -> None:
    settings = flags(available=2**36, max_mamba_cache_size=30)
    advice = optimize(architecture("Qwen3.5-27B"), settings, 16384)
    slots = int(advice.flags["--max-mamba-cache-size"])
    assert slots == 5 * advice.bound  # extra buffers, the default of this class
    assert advice.requests == (6, advice.bound)


def test_the_request_cap_is_chosen_with_its_chunks() -> None:
    """Without a radix cache the window pool follows --max-running-requests (0.5.23)."""
    given = {"available": 2**34, "disable_radix_cache": True, "chunked_prefill_size": 2048}
    settings = flags(**given, max_running_requests=2000, page_size=64)
    advice = optimize(architecture("gpt-oss-120b"), settings, 8192)
    assert [*advice.flags] == ["--max-running-requests"]
    assert advice.requests[1] == advice.bound > advice.requests[0]


def test_drafts_keep_states_for_each_request() -> None:
    given = {"available": 2**36, "speculative_algorithm": "NEXTN", "max_running_requests": 16}
    settings = flags(**given, speculative_num_draft_tokens=4)
    advice = optimize(architecture("Qwen3.5-27B"), settings, 32768)
    assert advice.requests[1] >= advice.requests[0]
    assert advice.requests[1] <= advice.bound


def test_one_pool_leaves_nothing_to_choose() -> None:
    with pytest.raises(InvalidProblem, match="one pool of tokens leaves no split"):
        optimize(architecture("Meta-Llama-3.1-8B"), flags(available=2**34), 8192)


def test_what_is_left_out_is_said() -> None:
    said = " ".join(advised("swa-006", 8192).left_out)
    assert "prefix reuse" in said
    assert "prefill in flight" in said
