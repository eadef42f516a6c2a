"""Alike experts on any card: a path that is a proof while the cards are short of room for them.

Where an expert may lie on any card, which layers a card has changes no expert's time: each card
fills what its slice leaves. If the cards take no more than their layers have, nothing is better.
"""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from kvplan.solver.place.search.spread import Spread, Spreading, Tensor, measure, short_by

Cost = tuple[int, int]  # ticks, spaces
Step = tuple[Cost, int]  # cost up to a slot, start of the last slice


class _Card(NamedTuple):
    """What a card takes of one kind of expert."""

    room: int
    load_room: int
    base: int
    expert_bytes: int
    gain: int

    def kept(self, held: int, fixed: int) -> int | None:
        """Experts beside a slice: what it leaves // bytes of one; None where it does not fit."""
        left = min(self.room - held, self.load_room - fixed) - self.base
        if left < 0:
            return None
        return left // self.expert_bytes if self.gain > 0 else 0


class _Cards:
    """Costs of slices, with sums over slots."""

    def __init__(self, spread: Spread, tensor: Tensor) -> None:
        assert spread.host is not None
        self.spread, clock, host = spread, spread.clock(), spread.host
        self.held = [0, *accumulate(slot.held for slot in spread.slots)]
        self.fixed = [0, *accumulate(slot.fixed for slot in spread.slots)]
        away = clock.of_tensor(host, tensor)
        places = range(len(spread.spaces))
        self.reads = [
            [0, *accumulate(clock.of(at, slot.read) for slot in spread.slots)] for at in places
        ]
        self.cards = [
            _Card(s.room, s.load_room, s.base, tensor.bytes, away - clock.of_tensor(at, tensor))
            for at, s in enumerate(spread.spaces)
        ]

    def kept(self, at: int, start: int, end: int) -> int | None:
        """Experts on a space beside its slice; a card without one may hold experts, too."""
        if at == self.spread.host:
            return 0
        held, fixed = self.held[end] - self.held[start], self.fixed[end] - self.fixed[start]
        kept = self.cards[at].kept(held, fixed)
        return 0 if kept is None and start == end else kept

    def cost(self, at: int, start: int, end: int) -> Cost | None:
        """Ticks of a slice less what experts on its space save; and whether it is one."""
        kept = self.kept(at, start, end)
        if kept is None:
            return None
        ticks = self.reads[at][end] - self.reads[at][start] - kept * self.cards[at].gain
        return ticks, int(end > start)

    def ends(self) -> tuple[int, ...] | None:
        """The cheapest path; None where dense parts do not fit."""
        count = len(self.spread.slots)
        before: dict[int, Cost] = {0: (0, 0)}
        steps: list[dict[int, int]] = []
        for at in range(len(self.spread.spaces)):
            reached: dict[int, Step] = {}
            for start, (ticks, spaces) in before.items():
                for end in range(start, count + 1):
                    cost = self.cost(at, start, end)
                    if cost is None:
                        break
                    step = ((ticks + cost[0], spaces + cost[1]), start)
                    reached[end] = min(reached.get(end, step), step)
            before = {end: cost for end, (cost, _) in reached.items()}
            steps.append({end: start for end, (_, start) in reached.items()})
        if count not in before:
            return None
        found, end = list[int](), count
        for one in reversed(steps):
            found.insert(0, end)
            end = one[end]
        return tuple(found)


def best_over_cards(spread: Spread) -> Spreading | None:
    """The fastest answer, a proof; None where this path cannot tell."""
    kinds = {tensor for slot in spread.slots for tensor in slot.experts}
    plain = spread.reach == "any" and spread.host is not None and not spread.hop
    if not plain or spread.objectives != ("speed",) or len(kinds) != 1:
        return None
    (tensor,) = kinds
    if not tensor.bytes:
        return None
    cards = _Cards(spread, tensor)
    ends = cards.ends()
    if ends is None:
        return None
    cuts = enumerate(zip((0, *ends), ends, strict=False))
    kept = [cards.kept(at, *cut) or 0 for at, cut in cuts]
    answer = Spreading(ends, _filled(spread, Spreading(ends, ()).spaces(), [*kept]))
    held = sum(place != spread.host for lies in answer.experts for place in lies)
    fits = not any(short_by(spread, measure(spread, answer)))
    return answer if fits and held == sum(kept) else None


def _filled(spread: Spread, own: list[int], kept: list[int]) -> tuple[tuple[int, ...], ...]:
    """Own cards first, early layers before late ones; then what other cards have left."""
    assert spread.host is not None
    lies = [[spread.host] * len(slot.experts) for slot in spread.slots]
    for mine in (True, False):
        for slot, at in enumerate(own):
            if at == spread.host:
                continue
            for index, place in enumerate(lies[slot]):
                to = at if mine else next((c for c in spread.cards if kept[c]), at)
                if place == spread.host and kept[to]:
                    lies[slot][index], kept[to] = to, kept[to] - 1
    return tuple(tuple(each) for each in lies)
