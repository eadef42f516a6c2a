"""Experts on other cards, pipelined input copies, single experts, mirrors: from problem to plan."""

from __future__ import annotations

from typing import Any

from kvplan.models import Problem
from kvplan.models.plan import PlacementPlan
from kvplan.solver import plan
from kvplan.solver.verify import violations

MIB = 2**20


def problem(**changes: Any) -> Problem:
    """Six layers, a small fast card, a large slow one."""
    place = {
        "engine": "llama.cpp",
        "order": ["host", "fast", "slow"],
        "host": "host",
        "layers": [
            {"count": 6, "dense": 100, "experts": [400, 400, 400], "active": "1/4", "state": 20}
        ],
        "ends": {"last": {"bytes": 50}},
        "read": {"fast": 8000, "slow": 4000, "host": 1000},
    }
    return Problem.model_validate(
        {
            "ranks": [
                {"name": "fast", "quota": 1700},
                {"name": "slow", "quota": 3000},
                {"name": "host", "quota": 20000},
            ],
            "place": {**place, **changes},
        }
    )


def placed(**changes: Any) -> PlacementPlan:
    asked = problem(**changes)
    answer = plan(asked, solver="cp-sat")
    assert violations(asked, answer) == []
    assert answer.placement is not None
    assert answer.placement.proven
    return answer.placement


def test_more_reach_is_never_slower() -> None:
    own, next_, any_ = (placed(experts=reach).picoseconds or 0 for reach in ("own", "next", "any"))
    assert own >= next_ >= any_


def test_experts_overflow_to_the_next_card_by_name() -> None:
    wide = problem(experts="any")
    answer = plan(wide)
    assert answer.placement is not None
    foreign = [
        at
        for space in answer.placement.spaces
        for lies in answer.placement.experts[space.first : space.first + space.layers]
        for at in lies
        if at not in (space.name, "host")
    ]
    words = " ".join(answer.placement.flags)
    assert ("=CUDA" in words) == bool(foreign)


def test_an_override_saves_the_input_copies() -> None:
    """All on cards: copies where they fit; where they do not, an override that moves nothing."""
    used = {"fast": {"base": 10}, "slow": {"base": 10}, "pipelined": {"base": 100}}
    layers = [{"count": 6, "dense": 100}]
    roomy = placed(layers=layers, used=used, ends={})
    assert roomy.pipelined
    assert not any("-ot" in flag for flag in roomy.flags)
    used["pipelined"]["base"] = 5000
    tight = placed(layers=[{"count": 30, "dense": 100}], used=used, ends={})
    assert not tight.pipelined
    assert tight.flags[-1] == '-ot "^$=CPU"'
    assert any("inputs are not copied" in note for note in tight.notes)


def test_the_hottest_experts_stay() -> None:
    heat = ["1/2", "1/8", "3/4", "1/16"]
    layers = [{"count": 1, "dense": 100, "experts": [1000] * 4, "frequency": heat}]
    one = {"read": {"fast": 8000, "slow": 1, "host": 1000}}
    found = placed(layers=layers, unit="expert", ends={}, **one)
    (lies,) = found.experts
    assert [at != "host" for at in lies] == [False, False, True, False]


def test_a_layer_moves_as_one() -> None:
    for lies in placed(unit="layer").experts:
        assert len(lies) == 1


def test_a_mirror_keeps_every_expert_on_the_host() -> None:
    found = placed(mirror=True)
    (host,) = [space for space in found.spaces if space.name == "host"]
    assert host.expert_bytes == 6 * 3 * 400
    assert host.experts < 18


def test_a_measured_hop_counts() -> None:
    free, dear = placed(), placed(read={"fast": 8000, "slow": 4000, "host": 1000, "hop": "10ms"})
    assert (dear.picoseconds or 0) > (free.picoseconds or 0)
    assert any("no read.hop" in note for note in free.notes)
    assert not any("no read.hop" in note for note in dear.notes)
