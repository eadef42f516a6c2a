"""Bounds of needs that never fall, and the range that they leave of a capacity."""

from __future__ import annotations

import random

import pytest

from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.moving import Moving
from kvplan.kernels.narrow import narrowed, term_bound
from kvplan.kernels.need import NeedTerm, blocks, need_term, prefix_term
from support.instance import instance_of, rule
from support.micro import micro, one

SPAN = 260


def terms(rng: random.Random, flight: int) -> list[NeedTerm]:
    """A live window, perhaps with sinks, scratch and a shared prefix, which is a term of its own.

    The prefix counts once and the window's own blocks for up to two alike requests.
    """
    prefix_blocks = rng.choice((0, 0, 1, 5))
    fields = {"reach": rng.randint(1, 50), "sink_blocks": rng.choice((0, 0, 1, 3))}
    if rng.random() < 0.6:
        den = rng.randint(1, 4)
        fields |= {"scratch": (rng.randint(1, den), den), "rewind": rng.randint(0, 20)}
    live = rule("live", rng.randint(1, 9), **fields)
    own = need_term(live, flight, prefix_blocks)
    shared = prefix_term(live, prefix_blocks)
    return [own._replace(groups=rng.choice((1, 1, 2))), *([shared] if shared else [])]


@pytest.mark.parametrize("seed", range(400))
def test_bounds_never_fall_and_enclose_the_need(seed: int) -> None:
    rng = random.Random(seed)
    flight = rng.choice((0, 1, 3, 40, 90))
    low = rng.randint(max(1, flight), SPAN - 1)
    high = rng.randint(low, SPAN)
    for term in terms(rng, flight):
        less, more = (
            [
                blocks(term_bound(term, flight, low, high, above), capacity, capacity - flight)
                for capacity in range(low, high + 1)
            ]
            for above in (0, 1)
        )
        need = [blocks(term, capacity, capacity - flight) for capacity in range(low, high + 1)]
        assert less == sorted(less)
        assert more == sorted(more)
        assert all(map(int.__le__, less, need))
        assert all(map(int.__le__, need, more))


@pytest.mark.parametrize("seed", range(300))
def test_the_range_holds_the_largest_capacity_that_fits(seed: int) -> None:
    rng = random.Random(seed)
    flight = rng.choice((1, 1, 20))
    mine = [term for _ in range(2) for term in terms(rng, flight)]
    if rng.random() < 0.7:
        mine.append(NeedTerm(0, 1, rng.choice((1, 7, 16))))
    evaluator = Evaluator(instance_of(micro(10**6, **one(1))))
    moving = Moving(evaluator, [(0, 0, tuple(mine), 0)], [0], flight)
    low = rng.randint(flight, 60)
    rests = moving.at(rng.randint(low, SPAN))[1]
    fitting = [value for value in range(low, SPAN + 1) if moving.fits(rests, value)]
    found = narrowed(moving, rests, low, SPAN)
    assert found.best is None or found.best in fitting
    assert (found.best or 0) <= max(fitting, default=0)
    assert found.end >= max(fitting, default=low - 1)


def test_a_long_capacity_is_narrowed_to_less_than_a_block_of_each_window() -> None:
    """Whatever the residue, two windows move by one block each: 2 of 1 token each in `full`."""
    live = [rule("live", tokens, reach=5000) for tokens in (127, 31)]
    full = NeedTerm(0, 1, 1)
    evaluator = Evaluator(instance_of(micro(10**6, **one(1))))
    mine = (*[need_term(each, 1) for each in live], full)
    moving = Moving(evaluator, [(0, 0, mine, 0)], [0], 1)
    rests = list(moving.at(200_000)[1])
    found = narrowed(moving, rests, 1, 400_000)
    assert found.best is not None
    assert found.best <= 200_000 <= found.end <= found.best + 2
