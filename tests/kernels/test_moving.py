"""One variable that moves: blocks, bytes and its largest value against a scan of all values."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import lcm

import pytest

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.evaluate import Evaluator
from kvplan.kernels.instance import Instance
from kvplan.kernels.moving import Evaluated, Moving
from kvplan.kernels.need import NeedTerm, blocks
from support.instance import instance_of
from support.micro import micro, one

SPAN = 160


def instance(rng: random.Random) -> Instance:
    """Two stages and some pools with every limit; its requests do not matter."""
    pools = [
        {
            "name": f"p{index}",
            "buffers": [
                {
                    "bytes": {"0": rng.randint(1, 30), "1": rng.choice((0, 9))},
                    "granule": rng.choice((1, 1, 16, 100)),
                }
                for _ in range(rng.choice((1, 1, 2)))
            ],
            "reserved_blocks": rng.choice((0, 0, 3)),
            "multiple_of": rng.choice((1, 1, 2, 5)),
        }
        | ({"max_blocks": rng.randint(20, 300)} if rng.random() < 0.4 else {})
        for index in range(rng.randint(1, 4))
    ]
    caches = [{"name": f"c{k}", "pool": f"p{k}", "kind": "full"} for k in range(len(pools))]
    ranks = [{"name": f"r{k}", "stage": k, "quota": 10**6} for k in range(2)]
    use = rng.choice(("1", "0.97", "1/2"))
    return instance_of(
        micro(ranks=ranks, pools=pools, caches=caches, resume_utilization=use, **one(1))
    )


def terms(rng: random.Random, pool: int) -> tuple[NeedTerm, ...]:
    """Full caches, windows with a cap, and live windows."""
    found = []
    for _ in range(rng.randint(1, 3)):
        t, groups = rng.choice((1, 2, 4, 8)), rng.randint(1, 3)
        kind = rng.choice(("full", "cap", "live"))
        most = rng.randint(1, 40) if kind == "cap" else None
        stale_from = rng.randint(0, 60) if kind == "live" else None
        found.append(NeedTerm(pool, groups, t, most, stale_from, extra=rng.randint(0, 2)))
    return tuple(found)


class Case:
    """A random variable beside a random rest, and the same by plain sums."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.evaluator = Evaluator(instance(rng))
        pools = range(len(self.evaluator.instance.pools))
        self.usable = [rng.randint(0, 40) for _ in pools]
        moved = sorted(rng.sample(pools, rng.randint(1, len(pools))))
        self.pools = [
            (pool, rng.randint(0, 9), terms(rng, pool), self.usable[pool]) for pool in moved
        ]
        self.flight = rng.randint(0, 9)
        self.period = lcm(*(term.block_tokens for _, _, own, _ in self.pools for term in own))
        self.first = rng.randint(max(1, self.flight), 90)
        self.rests = [rng.randint(0, 6000) for _ in self.evaluator.buffers]
        self.moving = Moving(self.evaluator, self.pools, self.usable, self.flight)

    def held(self, value: int) -> list[int]:
        """Usable blocks by pool."""
        held = list(self.usable)
        for pool, base, mine, least in self.pools:
            rule = self.evaluator.instance.pools[pool]
            raw = base + sum(blocks(term, value, value - self.flight) for term in mine)
            need = max(least, -(-raw * rule.use_den // rule.use_num))
            held[pool] = -(-need // rule.multiple) * rule.multiple
        return held

    def taken(self, held: list[int]) -> list[int]:
        reserved = self.evaluator.reserved
        return [
            sum(
                pool_bytes(own + more, mine)
                for own, more, mine in zip(held, reserved, buffers, strict=bool(buffers))
            )
            for buffers in self.evaluator.buffers
        ]

    def fits(self, value: int) -> bool:
        held = self.held(value)
        limits = [pool.most for pool in self.evaluator.instance.pools]
        return all(m is None or n <= m for n, m in zip(held, limits, strict=True)) and all(
            a <= b for a, b in zip(self.taken(held), self.rests, strict=True)
        )

    def scanned(self, steps: int) -> int | None:
        """The last step that fits before the first that does not."""
        values = [self.first + step * self.period for step in range(steps + 1)]
        fitting = [value for value in values if self.fits(value)]
        assert fitting == values[: len(fitting)]  # along a class nothing fits again
        return fitting[-1] if fitting else None


def test_pools_that_are_equal_at_both_ends_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is full at both ends is not evaluated in between."""
    asked = evaluated(monkeypatch)
    pools = [{"name": name, "bytes": 10} for name in "pqr"]
    caches = [{"name": name, "pool": name, "kind": "full"} for name in "pqr"]
    evaluator = Evaluator(instance_of(micro(pools=pools, caches=caches, **one(1))))
    moved = [(k, 0, (NeedTerm(k, 1, 4, cap),), 0) for k, cap in enumerate((None, 9, 9))]
    moving = Moving(evaluator, moved, [0] * 3)
    assert moving.largest([0, 10 * 718], 4, 4, 1000) == 2800
    assert asked[:2] == [3, 3]  # the top and the middle
    assert set(asked[2:]) == {1}
    for value in range(2000, 4000, 4):
        assert moving.at(value) == Moving(evaluator, moved, [0] * 3).at(value)


@pytest.mark.parametrize("seed", range(60))
def test_blocks_and_bytes_are_the_sums_of_the_terms(seed: int) -> None:
    case = Case(seed)
    for value in range(case.first, case.first + 60, 7):
        held, taken, _ = case.moving.at(value)
        usable = case.held(value)
        reserved = case.evaluator.reserved
        assert list(held) == [usable[pool] + reserved[pool] for pool, *_ in case.pools]
        assert list(taken) == case.taken(usable)
        assert case.moving.fits(case.rests, value) == case.fits(value)


@pytest.mark.parametrize("part", range(4))
def test_the_largest_value_is_the_last_of_a_scan(part: int) -> None:
    inner = 0
    for seed in range(100 * part, 100 * part + 100):
        case = Case(seed)
        expected = case.scanned(SPAN)
        found = case.moving.largest(case.rests, case.first, case.period, SPAN)
        assert found == expected, seed
        if expected is not None and expected < case.first + SPAN * case.period:
            inner += 1
            again = case.moving.largest(case.rests, case.first, case.period, None)
            assert again == expected, seed
    assert inner > 20


@pytest.mark.parametrize("wrong", ["none", "below", "beyond", "chance"])
def test_a_wrong_guess_changes_nothing(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(wrong)
    choose = {
        "none": lambda: None,
        "below": lambda: -(10**20),
        "beyond": lambda: 10**20,
        "chance": lambda: rng.choice((None, rng.randint(-5, SPAN + 5))),
    }[wrong]
    monkeypatch.setattr(Moving, "_guess", lambda *_: choose())
    for seed in range(80):
        case = Case(seed)
        found = case.moving.largest(case.rests, case.first, case.period, SPAN)
        assert found == case.scanned(SPAN), seed


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 6, 7, 8, 1000])
def test_without_an_upper_end_it_is_found_by_doubling(limit: int) -> None:
    evaluator = Evaluator(instance_of(micro(**one(1))))
    moving = Moving(evaluator, [(0, 0, (NeedTerm(0, 1, 1),), 0)], [0])
    assert moving.largest([0, 10 * limit + 9], 0, 1, None) == limit
    assert moving.largest([0, 10 * limit + 9], 0, 1, 5) == min(limit, 5)
    assert moving.largest([0, 10 * limit + 9], limit + 1, 1, None) is None


def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many pools are evaluated from now on, value by value."""
    asked: list[int] = []
    plain = Moving._evaluate

    def noted(self: Moving, value: int, base: Evaluated, slots: Sequence[int]) -> Evaluated:
        asked.append(len(slots))
        return plain(self, value, base, slots)

    monkeypatch.setattr(Moving, "_evaluate", noted)
    return asked


@pytest.mark.parametrize("most", [None, 3000])
def test_one_pool_is_inverted_at_once(most: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends, guess, and the next value: 2^40 tokens in four evaluations, max_blocks or not."""
    asked = evaluated(monkeypatch)
    pools = [{"name": "p", "bytes": 10, "granule": 4096}]
    if most is not None:
        pools[0]["max_blocks"] = most
    evaluator = Evaluator(instance_of(micro(pools=pools, **one(1))))
    moving = Moving(evaluator, [(0, 7, (NeedTerm(0, 3, 16),), 0)], [0])
    blocks_held = 3000 if most else 10**9 // 4096 * 4096 // 10
    expected = (blocks_held - 7) // 3 * 16
    assert moving.largest([0, 10**9], 16, 16, 2**36) == expected
    assert len(asked) <= 5


def test_nine_pools_take_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window that is full at the top and empty below would spoil a plain straight line."""
    asked = evaluated(monkeypatch)
    pools = [{"name": f"p{k}", "bytes": 1000 + 37 * k, "granule": 2**16} for k in range(9)]
    caches = [{"name": f"c{k}", "pool": f"p{k}", "kind": "full"} for k in range(9)]
    evaluator = Evaluator(instance_of(micro(10**9, pools=pools, caches=caches, **one(1))))
    caps = [None, 500, 90, 9000, None, 64, 64, 1024, 300]
    moved = [(k, 3, (NeedTerm(k, 1, 16, cap),), 4) for k, cap in enumerate(caps)]
    moving = Moving(evaluator, moved, [0] * 9)
    asked.clear()
    found = moving.largest([0, 10**9], 16, 16, 2**20)
    assert found is not None
    assert moving.fits([0, 10**9], found)
    assert not moving.fits([0, 10**9], found + 16)
    assert sum(asked) <= 60  # pools, where each value takes nine


def test_limits_are_no_part_of_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other limits reuse what was evaluated."""
    case = Case(4)
    first = case.moving.largest(case.rests, case.first, case.period, SPAN)
    asked = evaluated(monkeypatch)
    assert case.moving.largest(case.rests, case.first, case.period, SPAN) == first
    assert asked == []
    for rest in (0, 900, 10**9):
        case.rests = [rest] * len(case.rests)
        found = case.moving.largest(case.rests, case.first, case.period, SPAN)
        assert found == case.scanned(SPAN)


def test_max_blocks_of_several_pools_are_guessed_as_bytes_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bytes bound nothing here: the first pool's limit alone does."""
    asked = evaluated(monkeypatch)
    pools = [{"name": "p", "bytes": 10, "max_blocks": 5000}, {"name": "q", "bytes": 10}]
    caches = [{"name": f"c{name}", "pool": name, "kind": "full"} for name in "pq"]
    evaluator = Evaluator(instance_of(micro(pools=pools, caches=caches, **one(1))))
    moved = [(k, 0, (NeedTerm(k, 1 + k, 16),), 0) for k in range(2)]
    moving = Moving(evaluator, moved, [0, 0])
    assert moving.largest([0, 10**15], 16, 16, 2**30) == 5000 * 16
    assert len(asked) <= 6
