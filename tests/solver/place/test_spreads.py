"""Layers and experts on cards and host: published cases, the oracle, CP-SAT."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.solver.cpsat.place_program import best_spreading
from kvplan.solver.oracle.placements import best_cost
from kvplan.solver.place.search.clock import clock_of
from kvplan.solver.place.search.over_cards import best_over_cards
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
from support.placement import public_cases
from support.spreads import drawn_spreads, spread_of

CASES = {source: c for source, c in public_cases().items() if "gpu_GBps" in c["figures"]}
SMALL = [source for source, c in CASES.items() if len(c["figures"]["gpu_quota"]) < 3]


def held(spread: Spread, answer: Spreading) -> list[int]:
    """Expert tensors by card."""
    return [sum(lies.count(at) for lies in answer.experts) for at in spread.cards]


@pytest.mark.parametrize("source", CASES)
def test_published_cases_to_the_picosecond(source: str) -> None:
    case = CASES[source]
    spread = spread_of(case["figures"])
    found = shortest(spread)
    assert found.is_proof
    assert found.answer is not None
    measures = measure(spread, found.answer)
    assert measures.picoseconds == case["best"]["own"]["ps"]
    assert sum(held(spread, found.answer)) == sum(case["best"]["own"]["expert_tensors"])
    assert not any(short_by(spread, measures))


@pytest.mark.parametrize("source", CASES)
def test_whole_layers_to_the_picosecond(source: str) -> None:
    case = CASES[source]
    spread = spread_of(case["figures"], whole_layers=True)
    found = shortest(spread).answer
    assert found is not None
    assert measure(spread, found).picoseconds == case["best"]["own_whole_layers"]["ps"]


@pytest.mark.parametrize("source", SMALL)
@pytest.mark.parametrize("reach", ["own", "any"])
def test_cpsat_proves_the_published_best(source: str, reach: Any) -> None:
    case = CASES[source]
    spread = spread_of(case["figures"], reach=reach)
    start = shortest(spread._replace(reach="own")).answer
    answer = best_spreading(spread, start)
    assert answer is not None
    assert answer.is_proven
    measures = measure(spread, answer)
    assert measures.picoseconds == case["best"][reach]["ps"]
    assert not any(short_by(spread, measures))


def want_of(spread: Spread) -> tuple[int, ...] | None:
    return best_cost(
        spread.slots,
        spread.spaces,
        spread.host,
        spread.reach,
        spread.objectives,
        hop=spread.hop,
        mirror=spread.mirror,
    )


@pytest.mark.parametrize("hard", [False, True])
def test_the_oracle_agrees_with_the_path(hard: bool) -> None:
    proofs = refusals = 0
    for spread in drawn_spreads(50 if hard else 150, seed=11, hard=hard):
        want, found = want_of(spread), shortest(spread)
        if found.answer is None:
            assert not (found.is_proof and want is not None)
            refusals += want is None
            continue
        measures = measure(spread, found.answer)
        cost = measures.cost(spread.objectives)
        assert not any(short_by(spread, measures))
        assert want is not None
        assert cost >= want
        assert cost == want or not found.is_proof
        proofs += found.is_proof
    assert proofs > (3 if hard else 100)
    assert refusals > 3


def test_the_path_proves_mixed_sizes_of_one_share() -> None:
    """The most bytes on the cards save the most time, and time is not rounded."""
    proofs = 0
    for spread in drawn_spreads(300, seed=13, hard=True):
        if spread.host is None or spread.mirror:
            continue
        slots = [s._replace(experts=tuple(map(one_share, s.experts))) for s in spread.slots]
        plain = {"reach": "own", "hop": 0, "objectives": ("speed",)}
        alike = spread._replace(slots=tuple(slots), **plain)
        host, *cards = spread.spaces
        if any(card.rate < host.rate for card in cards):
            continue
        alike = alike._replace(spaces=(host._replace(room=1000, load_room=1000), *cards))
        found = shortest(alike)
        assert found.answer is not None
        if len({t for s in slots for t in s.experts}) < 2:
            continue
        assert found.is_proof
        assert measure(alike, found.answer).cost(alike.objectives) == want_of(alike)
        proofs += 1
    assert proofs > 20


def test_the_path_proves_experts_on_any_card() -> None:
    """Where cards take no more experts than their layers have; elsewhere CP-SAT decides."""
    proofs = foreign = 0
    for spread in drawn_spreads(400, seed=14, hard=True):
        free = spread._replace(reach="any", hop=0, objectives=("speed",))
        answer = best_over_cards(free)
        if answer is None:
            continue
        measures = measure(free, answer)
        assert measures.cost(free.objectives) == want_of(free)
        assert not any(short_by(free, measures))
        assert shortest(free).is_proof
        proofs += 1
        own = zip(answer.spaces(), answer.experts, strict=True)
        foreign += any(place not in (at, free.host) for at, lies in own for place in lies)
    assert proofs > 20
    assert foreign > 3


def test_unequal_shares_are_weighed_by_what_they_save() -> None:
    """Room for one of two tensors: the smaller one, which is read more, saves more."""
    slots = (Slot(2, 2, 2, (Tensor(6, (1,)), Tensor(4, (4,)))),)
    spaces = (Space("host", 100, 100, 0, 1), Space("gpu", 8, 8, 0, 2))
    spread = Spread(slots, spaces, 0)
    for answer in (shortest(spread).answer, best_spreading(spread)):
        assert answer is not None
        assert answer.experts == ((0, 1),)
    assert shortest(spread).is_proof


def test_wide_denominators_round_to_picoseconds() -> None:
    """Ticks of two large primes would not fit in 64 bits."""
    exact, rounded = (
        clock_of((10**9, 3), (rate, other), 0) for rate, other in ((4, 6), (2**61 - 1, 2**31 - 1))
    )
    assert (exact.of(0, 4), exact.of(1, 4), exact.seconds(12)) == (12, 8, 1)
    assert not rounded.is_exact
    assert rounded.of(1, 10**9) == 10**21 // (2**31 - 1)


def one_share(tensor: Tensor) -> Tensor:
    """A tensor of which a token reads a third."""
    return Tensor(3 * tensor.bytes, (tensor.bytes,))


def test_the_oracle_agrees_with_cpsat() -> None:
    """Mixed sizes, hops, foreign experts, a mirror, a host that is too small."""
    refusals = 0
    for spread in drawn_spreads(30, seed=12, hard=True):
        want, answer = want_of(spread), best_spreading(spread)
        if answer is None:
            assert want is None
            refusals += 1
            continue
        measures = measure(spread, answer)
        assert answer.is_proven
        assert not any(short_by(spread, measures))
        assert measures.cost(spread.objectives) == want
    assert 3 < refusals < 20


TWO = Tensor(4, (1,))


def one_card(room: int, **fields: Any) -> Spread:
    """Two layers of 2 and 4 + 4 bytes on one card and a host half as fast."""
    slots = (Slot(2, 2, 2, (TWO, TWO)), Slot(2, 2, 2, (TWO, TWO)))
    spaces = (Space("host", 100, 100, 0, 10), Space("gpu", room, room, 1, 20))
    return Spread(slots, spaces, 0, **fields)


def test_early_layers_keep_their_experts() -> None:
    """More prefill than the other way round (ik_llama.cpp #2262)."""
    answer = shortest(one_card(4 + 1 + 12)).answer
    assert answer is not None
    assert answer.experts == ((1, 1), (1, 0))


def test_a_byte_less_keeps_one_tensor_less() -> None:
    answer = shortest(one_card(4 + 1 + 11)).answer
    assert answer is not None
    assert answer.experts == ((1, 1), (0, 0))


def test_a_mirror_leaves_every_expert_on_the_host() -> None:
    spread = one_card(100, mirror=True)
    answer = best_spreading(spread)
    assert answer is not None
    assert measure(spread, answer).used == (16, 21)


def test_a_hop_keeps_layers_together() -> None:
    """Free hops: experts fill the card; a dear one: no layer has experts elsewhere."""
    cheap = best_spreading(one_card(4 + 1 + 12))
    dear = best_spreading(one_card(4 + 1 + 12, hop=10**13))
    assert cheap is not None
    assert dear is not None
    assert cheap.experts == ((1, 1), (1, 0))
    assert len({*dear.spaces(), *dear.experts[0], *dear.experts[1]}) == 1


def test_a_card_of_experts_alone_pays_its_buffer() -> None:
    slots = (Slot(2, 2, 2, (TWO,)),)
    spaces = (Space("host", 9, 9, 0, 1), Space("a", 3, 3, 0, 9), Space("b", 4, 4, 1, 9))
    spread = Spread(slots, spaces, 0, "any")
    answer = best_spreading(spread)
    assert answer is not None
    assert answer.experts == ((0,),)
