"""Ladders: the needs of a residue class as straight lines, and the last rung that fits."""

from __future__ import annotations

from itertools import count, takewhile
from random import Random

import pytest

from kvplan.kernels.instance import CacheRule
from kvplan.kernels.ladder import UNBOUNDED, Ladder, Rise, Step, rise_of
from kvplan.kernels.need import request_blocks
from support.instance import rule

PERIOD = 24
RULES = [
    rule("full", 6, groups=2),
    rule("live", 4, reach=30, sink_blocks=2),
    rule("live", 8, reach=1),
    rule("peak", 3, reach=17, sink_blocks=1, groups=3),
    rule("flight", 8, reach=20),
    rule("flight", 4, reach=20, flight_per_batch=True),
]


@pytest.mark.parametrize("of", RULES)
@pytest.mark.parametrize("first", [1, 7, 24, 91])
def test_a_cache_rises_in_a_straight_line_to_its_cap(of: CacheRule, first: int) -> None:
    for in_flight in (0, 1, first):
        for flight in (1, 9):
            rise = rise_of(of, first, in_flight, flight, PERIOD, 2)
            for k in range(12):
                capacity = first + k * PERIOD
                need = 2 * request_blocks(of, capacity, capacity - in_flight, flight, 0)
                assert rise.times * min(rise.start + k * rise.step, rise.cap) == need


def random_ladder(rng: Random, last: int) -> tuple[Ladder, list[int]]:
    """Two pools of capped and open lines in one or two rows, often with coarse pages."""
    steps = tuple(
        Step(
            pool=number,
            raw=rng.randint(0, 9),
            rises=tuple(
                Rise(rng.randint(1, 3), rng.randint(0, 5), rng.randint(1, 4), cap)
                for cap in rng.choices((UNBOUNDED, 8, 30), k=rng.randint(1, 3))
            ),
            least=rng.randint(0, 12),
            use_num=rng.choice((1, 97, 19)),
            use_den=rng.choice((100, 100, 97)),
            multiple=rng.choice((1, 1, 4)),
            most=rng.choice((UNBOUNDED, 60)),
            reserved=rng.randint(0, 2),
        )
        for number in range(2)
    )
    rows = tuple(
        tuple(
            tuple((rng.randint(1, 9), rng.choice((1, 5, 128, 700))) for _ in range(buffers))
            for buffers in rng.choices(range(3), k=2)
        )
        for _ in range(rng.randint(1, 2))
    )
    return Ladder(steps, rows, last), [rng.randint(0, 4000) for _ in rows]


@pytest.mark.parametrize("seed", range(600))
def test_the_last_rung_that_fits_is_found(seed: int) -> None:
    rng = Random(seed)
    ladder, rooms = random_ladder(rng, rng.choice((0, 1, 7, 200)))
    fitting = [*takewhile(lambda k: ladder.excess(k, rooms) <= 0, range(ladder.last + 1))]
    assert ladder.climb(rooms) == (fitting[-1] if fitting else None)


def test_few_rungs_are_looked_at() -> None:
    """A million rungs, pages of 2 MiB, two pools that grow."""
    line = Rise(1, 1, 1, UNBOUNDED)
    steps = tuple(Step(number, 0, (line,), 0, 97, 100, 1, UNBOUNDED) for number in range(2))
    ladder = Ladder(steps, ((((540_672, 2**21),), ((7_000, 2**21),)),), 10**6)
    rooms = [123_456 * 2**20]
    looked = count()
    real = ladder.excess
    ladder.excess = lambda k, rooms: (next(looked), real(k, rooms))[1]  # type: ignore[method-assign]
    found = ladder.climb(rooms)
    assert found is not None
    assert real(found, rooms) <= 0 < real(found + 1, rooms)
    assert next(looked) < 12
