"""Mixed quantisations against llama.cpp's --fit at the same context, by the same roofline."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from kvplan.models import Problem
from kvplan.models.engines.llamacpp.fit import fit
from kvplan.solver import plan
from kvplan.solver.place import engine_default, within_cuts
from kvplan.solver.place.search.slices import shortest
from kvplan.solver.place.search.spread import (
    Slot,
    Space,
    Spread,
    Spreading,
    Tensor,
    measure,
    short_by,
)
from kvplan.solver.place.within_cuts import best_within
from support.placement import small_mixture

MIB = 2**20


def drawn(count: int) -> Iterator[Spread]:
    """Models that need the host: two to five unequal cards, three kinds of tensors."""
    draw = random.Random(7)
    for _ in range(count):
        sizes = [draw.randint(50, 100) * MIB for _ in range(3)]
        slots = []
        for _ in range(draw.randint(12, 30)):
            dense = draw.randint(80, 140) * MIB
            experts = tuple(Tensor(size, (size // 16,)) for size in draw.choices(sizes, k=3))
            slots.append(Slot(dense, dense, dense, experts))
        slots.append(Slot(300 * MIB, 300 * MIB, 300 * MIB, (), is_layer=False))
        whole = sum(slot.held + sum(t.bytes for t in slot.experts) // 2 for slot in slots)
        cards = draw.randint(2, 5)
        spaces = [Space("host", 2**45, 2**45, 0, 60 * 10**9)]
        for at in range(cards):
            room = whole * draw.randint(8, 12) // (10 * cards) + 600 * MIB
            rate = draw.choice((360, 616, 936, 1008, 1792)) * 10**9
            spaces.append(Space(f"gpu{at}", room, room, 600 * MIB, rate))
        yield Spread(tuple(slots), tuple(spaces), 0, "next")


def fitted(spread: Spread) -> Spreading | None:
    """What --fit comes to, where it stays within the cards."""
    chosen = fit(engine_default._slots(spread), engine_default._devices(spread))
    answer = engine_default._of_fit(spread, chosen)
    return None if any(short_by(spread, measure(spread, answer))) else answer


def test_own_cards_alone_do_not_lose_where_most_experts_stay_on_the_host() -> None:
    compared = faster = 0
    for spread in drawn(60):
        theirs, own = fitted(spread), shortest(spread._replace(reach="own"))
        if theirs is None:
            continue
        assert own.is_proof
        assert own.answer is not None
        times = [measure(spread, each).seconds for each in (own.answer, theirs)]
        assert times[0] <= times[1]
        faster += times[0] < times[1]
        compared += 1
    assert compared > 40
    assert faster > compared // 2


def test_next_never_loses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor to own cards alone, however little time CP-SAT has."""
    monkeypatch.setattr(within_cuts, "SLICE", 0.2)
    for spread in drawn(6):
        own, theirs = shortest(spread._replace(reach="own")).answer, fitted(spread)
        assert own is not None
        mine = best_within(spread, own)
        others = [measure(spread, each).seconds for each in (own, theirs) if each is not None]
        assert not any(short_by(spread, measure(spread, mine)))
        assert measure(spread, mine).seconds <= min(others)
        assert mine.is_proven != (mine.gap > 0)


def test_a_note_says_that_next_would_gain() -> None:
    """Few layers, a small card: --fit puts on the next card what one card has no room for."""
    place = {
        "layers": [{"count": 5, "dense": 157, "experts": [120, 120, 120], "active": 1}],
        "used": {},
        "read": {"gpu0": 9_000, "gpu1": 8_000, "host": 100},
        "ends": {"last": {"bytes": 50}},
    }
    times, notes = [], []
    for experts in ("own", "next"):
        data = small_mixture(**place, experts=experts)
        data |= {"pools": [], "caches": [], "batches": [], "goals": ["speed"]}
        quotas = zip(("gpu0", "gpu1", "host"), (1_542, 2_252, 90_000), strict=True)
        data["ranks"] = [{"name": name, "quota": quota} for name, quota in quotas]
        placement = plan(Problem.model_validate(data)).placement
        assert placement is not None
        times.append(placement.picoseconds or 0)
        notes.append([note for note in placement.notes if "experts: next" in note])
    assert len(notes[0]) == 1
    assert notes[0][0].startswith("--fit is faster here, 3.23 tokens/s")
    assert notes[1] == []
    assert times[1] <= 10**12 / 3.23


@pytest.mark.parametrize("hop", [False, True])
def test_fewer_spaces_are_preferred(hop: bool) -> None:
    """Equal cards, and one has room for all: with or without a measured hop it takes all."""
    read = {"gpu0": 4_000, "gpu1": 4_000, "host": 1_000, **({"hop": "1us"} if hop else {})}
    data = small_mixture(read=read, used={})
    for rank in data["ranks"]:
        rank["quota"] = 90_000
    data["batches"][0]["requests"] = [{"name": "r", "capacity": 64}]
    data["goals"] = ["speed"]
    placement = plan(Problem.model_validate(data)).placement
    assert placement is not None
    assert sorted(space.layers for space in placement.spaces) == [0, 0, 6]
