"""Bytes by layout, what budgets leave, and one pool raised, against plain sums and scans."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.kernels.bytes import pool_bytes
from kvplan.kernels.evaluate import Evaluator
from kvplan.models import Problem
from support.instance import instance_of
from support.micro import micro, one


def staged(**sections: Any) -> Problem:
    """Two stages that hold different bytes, the second of them on two ranks."""
    ranks = [
        {"name": "a", "stage": 0, "quota": 5000},
        {"name": "b", "stage": 1, "quota": 4000},
        {"name": "c", "stage": 1, "quota": 3000},
    ]
    pools = [
        {
            "name": "p",
            "buffers": [{"bytes": {"0": 10, "1": 7}, "granule": 64}, {"bytes": 3, "granule": 5}],
            "reserved_blocks": 2,
        },
        {"name": "q", "bytes": {"0": 4, "1": 0}, "multiple_of": 3, "max_blocks": 40},
    ]
    caches = [{"name": f"of {name}", "pool": name, "kind": "full"} for name in "pq"]
    return micro(ranks=ranks, pools=pools, caches=caches, **one(20), **sections)


EXTRAS: dict[str, Any] = {
    "prefill": {
        "requested": 40,
        "min": 20,
        "step": 20,
        "staging": [{"name": "s", "per_token": 5}],
    },
    "experts": {
        "slot_bytes": 30, "layers": 2, "granule": 64, "max_slots": 20,
        "lend": {"keep": 2, "fraction": "1/2"},
    },
    "choices": [{"name": "x", "options": [{"name": "y", "bytes": 100}, {"name": "z", "bytes": 9}]}],
    "consumers": [{"name": "w", "bytes": {"b": 700}}],
}  # fmt: skip


def test_bytes_of_every_layout_are_those_of_its_pools() -> None:
    evaluator = Evaluator(instance_of(staged()))
    assert [len(pools) for pools in evaluator.buffers] == [0, 2, 2]  # the load phase has none
    for usable in ((0, 0), (5, 3), (19, 7), (-2, 0)):
        expected = [
            sum(
                pool_bytes(blocks + reserved, mine)
                for blocks, reserved, mine in zip(usable, (2, 0), buffers, strict=bool(buffers))
            )
            for buffers in evaluator.buffers
        ]
        assert evaluator.pool_bytes(usable) == expected


def test_pool_limits() -> None:
    evaluator = Evaluator(instance_of(staged()))
    assert evaluator.within_limits((10**9, 40))
    assert not evaluator.within_limits((0, 41))


@pytest.mark.parametrize("slots", [0, 3, 9])
@pytest.mark.parametrize("chunk", [0, 1])
@pytest.mark.parametrize("option", [0, 1])
def test_the_tightest_budget_of_a_layout_is_what_its_pools_get(
    slots: int, chunk: int, option: int
) -> None:
    """Stage 1 is bounded by the rank of 3,000 bytes; consumers, staging and slots come first."""
    evaluator = Evaluator(instance_of(staged(**EXTRAS)))
    limits = [budget.limit_bytes for budget in evaluator.instance.budgets]
    found = evaluator.rests(limits, chunk, (option,), slots)
    option_bytes, staging = (100, 9)[option], (100, 200)[chunk]
    kept = max(min(slots, 2), slots - slots // 2)

    def expert_bytes(held: int) -> int:
        return -(-2 * held * 30 // 64) * 64

    taken = option_bytes + max(expert_bytes(slots), staging + expert_bytes(kept))
    assert found == [3000 - option_bytes, 5000 - taken, min(3000, 4000 - 700) - taken]


def raised_by_one(evaluator: Evaluator, pool: int, usable: list[int], rests: list[int]) -> int:
    """The most legal blocks of a pool, tried one by one."""
    rule, best = evaluator.instance.pools[pool], usable[pool]
    before = evaluator.pool_bytes(usable)
    for blocks in range(usable[pool], rule.most + 1 if rule.most is not None else 600):
        trial = [*usable]
        trial[pool] = blocks
        grown = [a - b for a, b in zip(evaluator.pool_bytes(trial), before, strict=True)]
        if blocks % rule.multiple == 0 and all(g <= r for g, r in zip(grown, rests, strict=True)):
            best = blocks
    return best


def test_a_pool_is_raised_to_what_every_layout_leaves() -> None:
    evaluator, rng = Evaluator(instance_of(staged())), random.Random(3)
    for _ in range(200):
        usable = [rng.randint(0, 30), 3 * rng.randint(0, 9)]
        rests = [0, rng.randint(0, 900), rng.randint(0, 900)]
        pool = rng.randrange(2)
        expected = raised_by_one(evaluator, pool, usable, rests)
        left = [a + b for a, b in zip(rests, evaluator.pool_bytes(usable), strict=True)]
        evaluator.raise_pool(pool, usable, rests)
        assert usable[pool] == expected
        assert rests == [a - b for a, b in zip(left, evaluator.pool_bytes(usable), strict=True)]
