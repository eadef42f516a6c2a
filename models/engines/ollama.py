"""ollama's layer estimates: the old one (to 0.11), and its own engine's whole layers.

From 0.30 on ollama starts llama-server, with that one's --fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from kvplan.models.engines.llamacpp.split import Device, SlotBytes

CAPACITY_STEP = Fraction(1, 2**20)
MINIMUM_BYTES = 457 * 2**20
"""What the old estimator keeps on a CUDA card (discover/gpu.go)."""


def estimated_layers(
    free_bytes: Sequence[int],
    layer_bytes: Sequence[int],
    graph_bytes: int,
    output_bytes: int = 0,
    minimum_bytes: int = MINIMUM_BYTES,
) -> list[int]:
    """Layers of each card by the old estimator (llm/memory.go), the output counted as one.

    A card takes part if it holds the graph, the minimum and two layers. Of each the minimum and one
    layer are kept as a buffer. Layers are dealt round robin, from the last one on; a card without
    room for the next drops out. The output comes last. (ollama #9181: 11 each of 80.)

    Parameters
    ----------
    layer_bytes : by layer, cache included.
    graph_bytes : on every card.
    """
    buffer = layer_bytes[0] if layer_bytes else 0
    least = graph_bytes + minimum_bytes + 2 * buffer
    open_cards = [at for at, free in enumerate(free_bytes) if free >= least]
    used = [minimum_bytes + buffer + graph_bytes] * len(free_bytes)
    counts = [0] * len(free_bytes)
    for index, size in enumerate(
        [*reversed(layer_bytes), *([output_bytes] if output_bytes else [])]
    ):
        while open_cards:
            card = open_cards[index % len(open_cards)]
            if free_bytes[card] > used[card] + size:
                used[card] += size
                counts[card] += 1
                break
            open_cards.remove(card)
    return counts


def whole_layers(slots: Sequence[SlotBytes], devices: Sequence[Device]) -> list[int]:
    """Slots of each card in ollama's own engine: whole layers, from the output down.

    (assignLayers and findBestFit, llm/server.go.) The first cards are tried alone, so list them by
    free bytes; of them the last is filled first, at the smallest share of all free bytes that holds
    as many slots. What no card holds stays on the host. Where not everything fits, a second pass
    leaves the output there and places layers alone. Experts are never apart.
    """
    counts = [0] * len(devices)
    for tried in (slots, slots[:-1]):
        for used in range(1, len(devices) + 1):
            counts = [*_evened(tried, devices[:used]), *([0] * (len(devices) - used))]
            if sum(counts) == len(tried):
                break
        if sum(counts) == len(slots):
            break
    return counts


def _evened(slots: Sequence[SlotBytes], devices: Sequence[Device]) -> list[int]:
    """As many slots as all free bytes hold, in the smallest share of them (to 2^-20)."""
    low, high = Fraction(0), Fraction(1)
    best = _filled(slots, devices, high)
    while high - low > CAPACITY_STEP:
        middle = (low + high) / 2
        counts = _filled(slots, devices, middle)
        if sum(counts) == sum(best):
            high, best = middle, counts
        else:
            low = middle
    return best


def _filled(slots: Sequence[SlotBytes], devices: Sequence[Device], capacity: Fraction) -> list[int]:
    """Slots of each card, from the last slot and the last card on, in a share of its free bytes."""
    left, counts = len(slots), [0] * len(devices)
    for at in reversed(range(len(devices))):
        room = int((devices[at].target - devices[at].buffer) * capacity)
        while left and room >= _whole(slots[left - 1]):
            room -= _whole(slots[left - 1])
            left -= 1
            counts[at] += 1
    return counts


def _whole(slot: SlotBytes) -> int:
    return slot.dense + sum(slot.experts)
