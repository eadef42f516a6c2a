"""The largest value that still fits: exact whatever the guess, quick where the guess is good."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.kernels.largest import GUESSES, Guess, Sample, bisect_largest, largest


class Line:
    """Everything up to a limit fits; a probe must be new and lie within what is still open."""

    def __init__(self, limit: int, low: int, high: int) -> None:
        self.limit, self.low, self.high = limit, low, high
        self.asked: list[int] = []

    def sample(self, at: int) -> Sample:
        return Sample(at, at <= self.limit, (at,), (10 * at,))

    def probe(self, at: int, low: Sample, high: Sample) -> Sample:
        assert self.low == low.at < at < high.at == self.high
        assert at not in self.asked
        self.asked.append(at)
        found = self.sample(at)
        if found.fits:
            self.low = at
        else:
            self.high = at
        return found

    def largest(self, guess: Guess, known: int | None = None) -> int:
        low, high = self.sample(self.low), self.sample(self.high)
        last = None if known is None else self.probe(known, low, high)
        return largest(self.probe, low, high, guess, last).at


FOOLS: dict[str, Callable[[random.Random, int], Guess]] = {
    "none": lambda _, __: lambda a, b: None,
    "the lowest": lambda _, __: lambda a, b: 0,
    "far below": lambda _, __: lambda a, b: -(10**30),
    "far beyond": lambda _, __: lambda a, b: 10**30,
    "the middle": lambda _, __: lambda a, b: (a.at + b.at) // 2,
    "the first point": lambda _, __: lambda a, b: a.at,
    "the second point": lambda _, __: lambda a, b: b.at,
    "one below": lambda _, limit: lambda a, b: limit - 1,
    "right": lambda _, limit: lambda a, b: limit,
    "one above": lambda _, limit: lambda a, b: limit + 1,
    "two above": lambda _, limit: lambda a, b: limit + 2,
    "by chance": lambda rng, _: lambda a, b: rng.choice((None, rng.randint(-9, 120))),
    "either end": lambda rng, _: lambda a, b: rng.choice((-(10**9), 10**9)),
}


@pytest.mark.parametrize("fool", FOOLS)
@pytest.mark.parametrize("low", [0, 7])
def test_the_answer_is_exact_whatever_the_guess(fool: str, low: int) -> None:
    rng = random.Random(fool)
    for high in range(low + 1, low + 70):
        for limit in range(low, high):
            assert Line(limit, low, high).largest(FOOLS[fool](rng, limit)) == limit


@pytest.mark.parametrize("fool", FOOLS)
def test_a_known_sample_in_between_changes_nothing(fool: str) -> None:
    rng = random.Random(fool)
    for high in range(2, 40):
        for limit in range(high):
            known = rng.randrange(1, high)
            assert Line(limit, 0, high).largest(FOOLS[fool](rng, limit), known) == limit


def test_a_line_that_misses_the_interval_gives_way_to_its_ends() -> None:
    """Far above, everything is full: that line says nothing of what is still open."""
    seen: list[tuple[int, int]] = []

    def guess(a: Sample, b: Sample) -> int:
        seen.append((a.at, b.at))
        return -9 if b.at == 1000 else 70

    assert Line(70, 0, 1000).largest(guess, known=500) == 70
    assert seen[:2] == [(500, 1000), (0, 500)]


@given(st.integers(0, 2**64), st.data())
def test_wide_ranges(limit: int, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.one_of(st.none(), st.integers(-(2**66), 2**66)), min_size=9))
    guesses = iter(wanted)
    line = Line(limit, 0, 2**65)
    assert line.largest(lambda a, b: next(guesses)) == limit
    assert len(line.asked) <= 2 * GUESSES + 2 * 66


def test_a_guess_sees_the_last_sample_and_the_first_that_failed() -> None:
    """The interval itself shrinks to neighbours, which say nothing of the slope."""
    seen: list[tuple[int, int]] = []

    def guess(a: Sample, b: Sample) -> int:
        seen.append((a.at, b.at))
        return 500 + 100 * len(seen)

    assert Line(640, 0, 1000).largest(guess) == 640
    assert seen[:3] == [(0, 1000), (600, 1000), (700, 1000)]


@pytest.mark.parametrize("step", range(-3, 4))
def test_a_good_guess_costs_few_probes(step: int) -> None:
    """The first guess is rough, the second near; a repeated one moves on by one."""
    line = Line(10**6, 0, 10**9)
    guesses = iter([10**6 + 10 * step, *[10**6 + step] * GUESSES])
    assert line.largest(lambda a, b: next(guesses)) == 10**6
    assert len(line.asked) <= 1 + 2 + 2 * abs(step)


def test_a_right_guess_ends_the_search_in_three_probes() -> None:
    for limit in (1, 2, 500, 998):
        line = Line(limit, 0, 1000)
        assert line.largest(lambda a, b, at=limit: at) == limit
        assert len(line.asked) <= 3


def test_after_a_near_miss_the_search_gallops_from_it() -> None:
    """With no second guess a bisection of 2^60 would take 60 probes."""
    for miss in (2**40 - 5, 2**40 + 5):
        line = Line(2**40, 0, 2**60)
        assert line.largest(lambda a, b, at=miss: None if at in (a.at, b.at) else at) == 2**40
        assert len(line.asked) <= 8


@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("limit", [3, 4, 11, 16, 17])
def test_bisection_finds_the_last_that_fits(low: int, limit: int) -> None:
    assert bisect_largest(lambda n: n <= limit, low, 16) == min(limit, 16)
