"""llama.cpp's --fit at a given context (common/fit.cpp), with its two faults.

Dense parts fill the cards from the last one forward, with all experts on the host. If all of them
fit, layers are taken from the back and become full ones on the first card, until it is full; one
more is tried in part; then the next card.

The faults are kept, since this says what the engine does: the slots of a card that are "full" come
first, so on the last one, where the output is meant, the first layer keeps its experts (a log of
#22319 agrees to the MiB); and a part is tested on its own and the next card alone, so the last card
may end above its target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from kvplan.models.engines.llamacpp.split import Device, SlotBytes

Part = Literal["MOE", "ATTN", "UP", "GATE"]
_KEPT: dict[Part, int] = {"MOE": 0, "ATTN": 0, "UP": 1, "GATE": 2}
"""How many of up, gate and down the first partial layer keeps."""


@dataclass(frozen=True)
class Fitted:
    """One card: slots, how many of them are partial, and what the first of those keeps."""

    layers: int = 0
    part: int = 0
    first: Part = "MOE"

    @property
    def full(self) -> int:
        """Slots with all of their experts."""
        return self.layers - self.part


@dataclass(frozen=True)
class FitResult:
    """What --fit arrives at.

    Attributes
    ----------
    cards : by device.
    used : bytes by device.
    experts : expert tensors by device, those that overflow from the card before included.
    """

    cards: tuple[Fitted, ...]
    used: tuple[int, ...]
    experts: tuple[int, ...]


class _Fit:
    """The measurements and the steps of one call."""

    def __init__(self, slots: Sequence[SlotBytes], devices: Sequence[Device]) -> None:
        self.slots, self.devices = slots, devices
        self.last = len(devices) - 1
        self.is_mixture = any(slot.experts for slot in slots)
        self.cards = [Fitted() for _ in devices]
        self.overflows = [at + 1 for at in range(self.last)] + [-1]

    def measured(self, cards: Sequence[Fitted]) -> tuple[list[int], list[int]]:
        """Bytes and expert tensors of each device."""
        used = [d.buffer if c.layers else 0 for d, c in zip(self.devices, cards, strict=True)]
        held = [0] * len(cards)
        start = len(self.slots) - sum(card.layers for card in cards)
        for at, card in enumerate(cards):
            first_part = start + card.full
            for slot in range(start, start + card.layers):
                used[at] += self.slots[slot].dense
                for index, size in enumerate(self.slots[slot].experts):
                    place = at if slot < first_part else -1
                    if slot == first_part and card.first != "MOE":
                        place = at if index < _KEPT[card.first] else self.overflows[at]
                    if place >= 0:
                        used[place] += size
                        held[place] += 1
            start += card.layers
        return used, held

    def dense(self) -> None:
        """Fill dense parts from the last card forward, by false position."""
        for at in range(self.last, -1, -1):
            left = len(self.slots) - sum(card.layers for card in self.cards[at + 1 :])
            low = self._false_position(at, left, partial(self._with_dense, at))
            self.cards = self._with_dense(at, low)

    def _false_position(
        self, at: int, most: int, cards_with: Callable[[int], Sequence[Fitted]]
    ) -> int:
        """A number whose cards fit, next to one whose do not: all at once first, then between.

        What a number takes is not monotone (the first layer of the last card may have no experts),
        so the way to it decides.
        """
        target = self.devices[at].target
        low, high = 0, most
        used_low = self.measured(cards_with(low))[0][at]
        used_high = self.measured(cards_with(high))[0][at]
        if used_high <= target:
            return high
        while high - low > 1:
            step = (high - low) * (target - used_low) // (used_high - used_low)
            middle = low + min(max(step, 1), high - low - 1)
            used = self.measured(cards_with(middle))[0][at]
            if used <= target:
                low, used_low = middle, used
            else:
                high, used_high = middle, used
        return low

    def _with_dense(self, at: int, layers: int) -> list[Fitted]:
        """So many slots on a card, all partial but for the output on the last one."""
        part = layers - (at == self.last and layers > 0) if self.is_mixture else 0
        cards = list(self.cards)
        cards[at] = Fitted(layers, part)
        return cards

    def full(self) -> None:
        """Turn layers from the back into full ones, card by card from the first on."""
        start = next(at for at, card in enumerate(self.cards) if card.layers)
        for at in range(len(self.cards)):
            if at > start:
                break
            most = sum(card.part for card in self.cards[start:])
            low = self._false_position(at, most, partial(self._full_ones, at, start))
            self.cards, start = self._converted(at, start, low)
            start = self._one_more(at, start)

    def _converted(self, at: int, start: int, number: int) -> tuple[list[Fitted], int]:
        """Take partial layers from the cards from `start` on, and make them full on a card."""
        cards = list(self.cards)
        while start < len(cards):
            moved = min(number, cards[start].part)
            card = cards[start]
            cards[start] = replace(card, layers=card.layers - moved, part=card.part - moved)
            cards[at] = replace(cards[at], layers=cards[at].layers + moved)
            number -= moved
            if cards[start].part > 0 or start == self.last:
                break
            start += 1
        return cards, start

    def _full_ones(self, at: int, start: int, number: int) -> list[Fitted]:
        """The cards with so many layers more that are full."""
        return self._converted(at, start, number)[0]

    def _one_more(self, at: int, start: int) -> int:
        """Try one more layer in part: up, then up and gate; else attention alone."""
        if self.cards[start].layers <= (0 if at < self.last else 1) or not self.cards[start].part:
            return start
        cards = list(self.cards)
        card = cards[start]
        cards[start] = replace(card, layers=card.layers - 1, part=card.part - 1)
        cards[at] = replace(cards[at], layers=cards[at].layers + 1, part=cards[at].part + 1)
        behind = start + (cards[start].part == 0 and start < self.last)
        tried: tuple[Part, ...] = ("UP", "GATE")
        if not self._keeps(at, cards, "UP"):
            tried = ("ATTN",)
        for part in tried:
            if self._keeps(at, cards, part):
                cards = list(cards)
                cards[at] = replace(cards[at], first=part)
                self.cards, start = cards, behind
        return start

    def _keeps(self, at: int, cards: Sequence[Fitted], part: Part) -> bool:
        """Whether a card and the next one stay below their targets; others are not looked at."""
        tried = list(cards)
        tried[at] = replace(tried[at], first=part)
        used, _ = self.measured(tried)
        near = [at, at + 1] if at < self.last else [at]
        return all(used[each] < self.devices[each].target for each in near)


def fit(slots: Sequence[SlotBytes], devices: Sequence[Device]) -> FitResult:
    """What --fit chooses, the context given.

    Parameters
    ----------
    slots : layers and the output, in model order.
    devices : what each may use (free bytes less the margin, 1,024 MiB by default).
    """
    run = _Fit(slots, devices)
    run.dense()
    if run.is_mixture and sum(card.layers for card in run.cards) == len(slots):
        run.full()
    used, held = run.measured(run.cards)
    return FitResult(tuple(run.cards), tuple(used), tuple(held))
