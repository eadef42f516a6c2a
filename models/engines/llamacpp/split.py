"""llama.cpp's layer split: which slots lie on the cards, and which card holds which.

Slots are the repeating layers and, behind them, the output.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class SlotBytes(NamedTuple):
    """A layer, or the output, as the engine places it.

    Attributes
    ----------
    dense : weights but experts, with the cache, which lies with them.
    experts : bytes of the expert tensors up, gate and down.
    """

    dense: int
    experts: tuple[int, ...] = ()


class Device(NamedTuple):
    """Bytes that a card may use, and those of its compute buffer once it holds a slot."""

    target: int
    buffer: int


def offloaded(layers: int, gpu_layers: int) -> tuple[int, int]:
    """First slot on the cards, and how many of them lie there (-ngl).

    act = min(ngl, layers + 1); slots from layers + 1 - act on: front layers go to the host first.
    """
    slots = min(gpu_layers, layers + 1)
    return layers + 1 - slots, slots


def split_slots(shares: Sequence[int], slots: int) -> list[int]:
    """Slots of each device under -ts (llama-model.cpp, upper_bound on cumulated shares).

    Slot i goes to the first device whose cumulated share exceeds i / slots, here exactly; whole
    counts that sum to the slots come out as they are. 5,2 over 95 slots is 68 and 27.
    """
    whole, ends = sum(shares), list(accumulate(shares))
    found = [0] * len(shares)
    for slot in range(slots):
        device = next(at for at, end in enumerate(ends) if end * slots > slot * whole)
        found[device] += 1
    return found


def device_bytes(
    slots: Sequence[SlotBytes], counts: Sequence[int], devices: Sequence[Device], on_host: range
) -> list[int]:
    """Bytes of each device where the experts of some layers stay on the host.

    Parameters
    ----------
    counts : slots of each device; those before them lie on the host.
    """
    start, found = len(slots) - sum(counts), []
    for count, device in zip(counts, devices, strict=True):
        held = range(start, start + count)
        used = sum(slots[at].dense for at in held) + (device.buffer if count else 0)
        used += sum(sum(slots[at].experts) for at in held if at not in on_host)
        found.append(used)
        start += count
    return found


def least_cpu_moe(
    slots: Sequence[SlotBytes], devices: Sequence[Device]
) -> tuple[int, list[int]] | None:
    """--n-cpu-moe on the default split (by free bytes): the smallest N that fits, and the split.

    The first N layers keep their experts on the host, whatever card they lie on. None where none
    does.
    """
    counts = split_slots([device.target for device in devices], len(slots))
    for number in range(len(slots)):
        used = device_bytes(slots, counts, devices, range(number))
        if all(u <= d.target for u, d in zip(used, devices, strict=True)):
            return number, counts
    return None


def slices_on_host(counts: Sequence[int], number: int) -> list[int]:
    """Layers whose experts ik_llama.cpp's --n-cpu-moe keeps on the host, in order.

    On several cards the last N / cards layers of each slice (ik_llama.cpp #1464), on one the last N
    (#2262): the early layers keep theirs. A remainder goes to the first slices, which is assumed:
    the threads show even numbers.

    Parameters
    ----------
    counts : layers of each card, in order from layer 0.
    """
    each, more = divmod(number, len(counts))
    found, end = list[int](), 0
    for at, count in enumerate(counts):
        end += count
        away = min(count, each + (at < more))
        found += range(end - away, end)
    return found
