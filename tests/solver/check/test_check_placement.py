"""Each rule of a placement broken in turn: the check finds it out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.models.plan import PlacementPlan
from kvplan.solver import plan
from kvplan.solver.check.placement import placement_faults
from support.micro import micro
from support.placement import small_mixture

PROBLEM = Problem.model_validate(small_mixture())
Change = Callable[[PlacementPlan], PlacementPlan]


@pytest.fixture(scope="module")
def right() -> PlacementPlan:
    """Three layers on the host, two on gpu0, one on gpu1; some experts lie on each."""
    placement = plan(PROBLEM).placement
    assert placement is not None
    assert [space.layers for space in placement.spaces] == [3, 2, 1]
    return placement


def space(at: int, **more: Any) -> Change:
    """A space whose figures are larger by so much, or which is named otherwise."""

    def change(right: PlacementPlan) -> PlacementPlan:
        old, spaces = right.spaces[at], [*right.spaces]
        added = {k: v if isinstance(v, str) else getattr(old, k) + v for k, v in more.items()}
        spaces[at] = old.model_copy(update=added)
        return right.model_copy(update={"spaces": tuple(spaces)})

    return change


def experts(layer: int, lies: tuple[str, ...]) -> Change:
    def change(right: PlacementPlan) -> PlacementPlan:
        placed = (*right.experts[:layer], lies, *right.experts[layer + 1 :])
        return right.model_copy(update={"experts": placed})

    return change


BROKEN: dict[str, tuple[Change, str]] = {
    "another rank": (space(1, name="gpu7"), "are not the ranks"),
    "out of order": (
        lambda right: right.model_copy(update={"spaces": right.spaces[::-1]}),
        "are not in the order",
    ),
    "a gap between spaces": (space(1, first=1), "begins with layer 4, not 3"),
    "a layer too many": (space(2, layers=1), "7 layers are placed, not 6"),
    "experts of a layer left out": (
        lambda right: right.model_copy(update={"experts": right.experts[1:]}),
        "experts of 5 layers, not 6",
    ),
    "an expert left out": (experts(2, ("host", "host")), "layer 2 has 2 experts placed"),
    "an expert on another card": (
        experts(3, ("gpu1", "host", "host")),
        "an expert of layer 3 (gpu0) may not lie on gpu1",
    ),
    "an expert of the host on a card": (
        experts(2, ("gpu0", "host", "host")),
        "an expert of layer 2 (host) may not lie on gpu0",
    ),
    "weights": (space(0, layer_bytes=-90), "host holds (490, 0, 10, 3700), not (400,"),
    "states": (space(1, state_bytes=1), "gpu0 holds (200, 0, 1, 400), not (200, 1,"),
    "a count of experts": (space(1, experts=-1), "gpu0 holds (200, 0, 1, 400), not (200, 0, 0"),
    "bytes of experts": (space(2, expert_bytes=1), "gpu1 holds (150, 0, 1, 300), not"),
    "buffers": (space(2, buffer_bytes=-1), "gpu1 has buffers of 196 B, not 195"),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_broken_placement_is_found_out(rule: str, right: PlacementPlan) -> None:
    change, expected = BROKEN[rule]
    assert placement_faults(PROBLEM, right) == []
    assert any(expected in line for line in placement_faults(PROBLEM, change(right)))


def test_a_stage_without_layers_is_found_out(right: PlacementPlan) -> None:
    place = {"engine": "vllm", "host": None}
    problem = PROBLEM.model_copy(
        update={"place": PROBLEM.place and PROBLEM.place.model_copy(update=place)}
    )
    empty = space(2, layers=-1)(right)
    assert any("stage gpu1 holds no layer" in line for line in placement_faults(problem, empty))


def test_experts_may_lie_on_the_next_card_alone(right: PlacementPlan) -> None:
    for reach, layer, lies, is_right in (
        ("next", 3, "gpu1", True),
        ("next", 5, "gpu0", False),
        ("any", 5, "gpu0", True),
    ):
        problem = Problem.model_validate(small_mixture(experts=reach))
        moved = experts(layer, (lies, "host", "host"))(right)
        found = placement_faults(problem, moved)
        assert any("may not lie" in line for line in found) != is_right, (reach, layer)


def test_a_placement_that_nobody_asked_for_is_found_out(right: PlacementPlan) -> None:
    assert placement_faults(micro(), right) == ["placement: the problem asks for none"]
