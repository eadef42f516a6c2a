"""Flags of random placements, read back by llama.cpp's rules, come to the same placement."""

from __future__ import annotations

import random
import re
import shlex
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem
from kvplan.models.engines.llamacpp.offload import EXPERTS
from kvplan.models.engines.llamacpp.split import offloaded, split_slots
from kvplan.models.plan import PlacementPlan
from kvplan.solver import plan
from support.placement import small_mixture


def drawn(seed: int) -> Problem:
    """A mixture of up to twelve layers in runs, one to three cards, room for a part."""
    draw = random.Random(seed)
    cards = [f"gpu{at}" for at in range(draw.randint(1, 3))]
    sizes = [draw.randint(50, 400) for _ in range(2)]
    layers: list[dict[str, Any]] = [{"count": draw.randint(1, 2), "dense": 100, "cache": "full"}]
    for _ in range(draw.randint(1, 3)):
        experts = [draw.choice(sizes) for _ in range(draw.choice((2, 3, 3)))]
        run = {"count": draw.randint(1, 4), "dense": draw.randint(50, 150), "cache": "full"}
        layers.append({**run, "experts": experts, "active": draw.choice(("1/4", "1/8"))})
    data = small_mixture(
        order=["host", *cards],
        layers=layers,
        experts=draw.choice(("own", "next", "any")),
        unit=draw.choice(("tensor", "tensor", "layer")),
        engine=draw.choice(("llama.cpp", "ik_llama.cpp")),
        used={name: {"base": 60} for name in cards},
        read={**{name: draw.randint(2, 9) * 1000 for name in cards}, "host": 1_000},
    )
    data["ranks"] = [{"name": name, "quota": draw.randint(300, 3_000)} for name in cards]
    data["ranks"].append({"name": "host", "quota": 90_000})
    data["batches"] = [{"name": "b", "requests": [{"name": "r", "capacity": 64}]}]
    data["goals"] = ["speed"]
    return Problem.model_validate(data)


def read_back(
    words: list[str], names: list[tuple[str, ...]], cards: list[str]
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Spaces of all slots and of each layer's tensors by the engine's rules."""
    given = dict(zip(words[::2], words[1::2], strict=True))
    layers = len(names)
    first, slots = offloaded(layers, int(given["-ngl"]))
    shares = [int(share) for share in given.get("-ts", "1").split(",")]
    counts = split_slots(shares, slots) if slots else [0]
    where = ["host"] * first
    where += [card for card, n in zip(cards, counts, strict=False) for _ in range(n)]
    rules = [entry.rpartition("=")[::2] for entry in given.get("-ot", "").split(",") if entry]
    rules += [
        (rf"blk\.{layer}{EXPERTS}", "CPU") for layer in range(int(given.get("--n-cpu-moe", 0)))
    ]
    found = []
    for layer, tensors in enumerate(names):
        lies = []
        for tensor in tensors:
            name = f"blk.{layer}.ffn_{tensor}_exps.weight"
            rule = next((buffer for pattern, buffer in rules if re.search(pattern, name)), None)
            buffers = {"CPU": "host", **{f"CUDA{at}": card for at, card in enumerate(cards)}}
            lies.append(where[layer] if rule is None else buffers[rule])
        found.append(tuple(lies))
    return where, found


def told(problem: Problem, placement: PlacementPlan) -> tuple[list[str], list[tuple[str, ...]]]:
    """The same of a plan."""
    where = [space.name for space in placement.spaces for _ in range(space.layers)]
    assert problem.place is not None
    runs = problem.place.each
    lies = [
        at * len(run.experts) if problem.place.unit == "layer" else at
        for run, at in zip(runs, placement.experts, strict=True)
    ]
    return [*where, placement.last], lies


@pytest.mark.parametrize("first", range(0, 120, 20))
def test_flags_come_to_the_placement(first: int) -> None:
    planned = 0
    for seed in range(first, first + 20):
        problem = drawn(seed)
        try:
            placement = plan(problem).placement
        except Infeasible:
            continue
        assert placement is not None
        assert problem.place is not None
        words = shlex.split(" ".join(placement.flags))
        words = words[2:] if words[:2] == ["-fit", "off"] else words
        cards = [space.name for space in placement.spaces if space.name != "host"]
        names = [run.names for run in problem.place.each]
        assert read_back(words, names, cards) == told(problem, placement), (seed, words)
        planned += 1
    assert planned > 10


def test_the_host_comes_first() -> None:
    with pytest.raises(InvalidProblem, match=r"place\.order: expected the host first"):
        Problem.model_validate(small_mixture(order=["gpu0", "gpu1", "host"]))
