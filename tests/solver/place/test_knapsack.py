"""Experts that fit into a room: every choice enumerated; branch, bits and table agree."""

from __future__ import annotations

import random
from itertools import product

import pytest

from kvplan.solver.place.search import knapsack
from kvplan.solver.place.search.knapsack import Item, best_choice


@pytest.mark.parametrize("nodes", [0, 3, 2_000])
def test_every_choice_is_no_better(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no node left to branch, the bits and the table decide."""
    monkeypatch.setattr(knapsack, "MOST_NODES", nodes)
    draw = random.Random(nodes)
    for _ in range(400):
        alike, unit = draw.random() < 0.3, draw.choice((1, 6))
        items = []
        for _ in range(draw.randint(1, 4)):
            size = draw.randint(int(alike), 12) * unit
            gain = 3 * size if alike else draw.randint(1, 20)
            items.append(Item(size, gain, draw.randint(0, 4)))
        room = draw.randint(0, 90)
        found = best_choice(items, room)
        choices = product(*(range(item.number + 1) for item in items))
        fitting = [c for c in choices if taken(items, c, "bytes") <= room]
        assert found.taken in fitting
        assert found.is_exact
        assert found.gain == taken(items, found.taken, "gain")
        assert found.gain == max(taken(items, c, "gain") for c in fitting)


def taken(items: list[Item], counts: tuple[int, ...], field: str) -> int:
    return sum(getattr(i, field) * n for i, n in zip(items, counts, strict=True))


def test_what_no_table_holds_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Odd bytes without a common divisor, and no work left: an answer and a bound above it."""
    monkeypatch.setattr(knapsack, "MOST_NODES", 0)
    monkeypatch.setattr(knapsack, "MOST_BITS", 0)
    monkeypatch.setattr(knapsack, "MOST_UNITS", 0)
    items = [Item(2**30 + 1, 2**20, 3), Item(2**29 + 3, 2**19, 3)]
    found = best_choice(items, 3 * 2**30)
    assert not found.is_exact
    assert found.gain < found.bound
