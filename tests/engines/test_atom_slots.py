"""ATOM --optimize: state slots against blocks, and the trade that its users measured."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.atom import FLAGS, build
from kvplan.models.engines.atom.pools import open_split
from kvplan.models.engines.registry import Settings
from kvplan.solver import oracle, plan
from kvplan.solver.advise.advice import held, serving
from kvplan.solver.advise.atom_slots import optimize
from support.shapes import architecture

KIMI: dict[str, Any] = {
    "tensor_parallel_size": 8,
    "kv_cache_dtype": "fp8",
    "block_size": 128,
    "available": (44_900_000_000,),
}


def flags(**given: Any) -> Settings:
    """ATOM's flags for Kimi-K3."""
    return Settings(FLAGS, KIMI | given)


def test_fewer_slots_hold_more_requests() -> None:
    """A guide cut 512 slots of Kimi-K3 to 384; here the best count is proven for a mean length."""
    kimi, settings = architecture("Kimi-K3"), flags(max_num_seqs=512)
    advice = optimize(kimi, settings, 8192)
    assert advice.requests[1] == advice.bound > advice.requests[0]
    assert advice.flags == {"--max-num-seqs": str(advice.bound)}
    assert advice.bound < 512
    problem = serving(open_split(kimi, settings), 8192)
    answer = plan(problem, solver="cp-sat")
    assert answer.proof.status == "optimal"
    assert list(oracle.check(problem, answer)) == []
    assert answer.requests[0].count == advice.bound


@pytest.mark.parametrize("more", [-1, 1])
def test_one_slot_more_or_less_holds_no_more(more: int) -> None:
    kimi = architecture("Kimi-K3")
    best = optimize(kimi, flags(max_num_seqs=512), 8192).bound
    problem = build(kimi, flags(max_num_seqs=best + more))
    assert held(problem, plan(problem), 8192) < best + (more > 0)


def test_short_requests_want_more_slots() -> None:
    kimi = architecture("Kimi-K3")
    short = optimize(kimi, flags(max_num_seqs=64), 1024)
    assert short.requests == (64, short.bound)
    assert short.bound > 64


def test_drafts_take_several_states_a_request() -> None:
    kimi, given = architecture("Kimi-K3"), {"max_num_seqs": 16, "num_speculative_tokens": 7}
    many = optimize(kimi, flags(**given), 8192).bound
    one = optimize(kimi, flags(**given, replay_ssm=True), 8192).bound
    assert one > 2 * many


def test_the_best_setting_is_left_alone() -> None:
    kimi = architecture("Kimi-K3")
    best = optimize(kimi, flags(max_num_seqs=512), 8192).bound
    advice = optimize(kimi, flags(max_num_seqs=best), 8192)
    assert (advice.flags, advice.requests) == ({}, (best, best))


def test_slots_that_leave_no_block_are_refused_and_mended() -> None:
    kimi, settings = architecture("Kimi-K3"), flags(max_num_seqs=5000)
    advice = optimize(kimi, settings, 8192)
    assert advice.requests[0] == 0
    assert advice.before == {"pools": "refused by the engine"}
    assert advice.requests[1] == advice.bound
    assert advice.gain is None


def test_models_without_states_have_no_slots_to_choose() -> None:
    with pytest.raises(InvalidProblem, match="slots cost nothing"):
        optimize(architecture("Meta-Llama-3.1-8B"), flags(), 8192)
