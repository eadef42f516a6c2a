"""llama.cpp's split, --fit and --n-cpu-moe on published cases."""

from __future__ import annotations

import random

import pytest

from kvplan.models.engines.llamacpp.fit import fit
from kvplan.models.engines.llamacpp.split import (
    Device,
    SlotBytes,
    device_bytes,
    least_cpu_moe,
    offloaded,
    split_slots,
)
from support.placement import public_cases
from support.spreads import layers_of

CASES = {source: c for source, c in public_cases().items() if "gpu_GBps" in c["figures"]}
MIB = 2**20


def slots_of(source: str) -> tuple[list[SlotBytes], list[Device]]:
    figures = CASES[source]["figures"]
    slots = [SlotBytes(e["dense"] + e["cache"], tuple(e["experts"])) for e in layers_of(figures)]
    cards = zip(figures["gpu_quota"], figures["fixed_when_used"], strict=True)
    return [*slots, SlotBytes(figures["output"])], [Device(*card) for card in cards]


@pytest.mark.parametrize("source", CASES)
def test_fit_as_published(source: str) -> None:
    want = CASES[source]["engine"]["fit_port"]
    slots, devices = slots_of(source)
    found = fit(slots, devices)
    cards = [[card.layers, card.part, card.first] for card in found.cards]
    assert cards == want["per_gpu_layers_part_type"]
    assert list(found.experts) == want["expert_tensors"]
    over = max(used - device.target for used, device in zip(found.used, devices, strict=True))
    assert round(max(over, 0) / MIB) == want["over_target_MiB"]


@pytest.mark.parametrize("source", CASES)
def test_n_cpu_moe_on_the_default_split_as_published(source: str) -> None:
    want = CASES[source]["engine"]["default_split_n_cpu_moe"]
    slots, devices = slots_of(source)
    found = least_cpu_moe(slots, devices)
    assert found is not None
    number, counts = found
    assert number == want["N"]
    own = [at for at, count in enumerate(counts) for _ in range(count)]
    held = [0] * len(devices)
    for layer, at in enumerate(own):
        held[at] += len(slots[layer].experts) if layer >= number else 0
    assert held == want["expert_tensors"]


def test_fit_keeps_the_first_layer_of_the_last_card() -> None:
    """17,709 MiB in the dense pass of #22319: 43 x 152 + 3,264 of experts + 6,897 + 1,010 + 1."""
    slots, devices = slots_of("ggml-org/llama.cpp#22319 (a log in the thread)")
    alone = devices[-1]._replace(target=25_000 * MIB)
    found = fit(slots, [alone])
    assert (found.cards[0].layers, found.cards[0].full) == (44, 3)
    least = fit(slots, [alone._replace(target=17_709 * MIB + MIB)])
    assert (least.cards[0].full, least.experts[0]) == (1, 3)
    assert round(least.used[0] / MIB) == 17_708


def test_a_split_by_counts_comes_out_as_written() -> None:
    draw = random.Random(4)
    for _ in range(2000):
        counts = [draw.randint(0, 40) for _ in range(draw.randint(1, 8))]
        if sum(counts):
            assert split_slots(counts, sum(counts)) == counts


def test_a_split_by_shares() -> None:
    assert split_slots([5, 2], 95) == [68, 27]
    assert split_slots([1, 1], 5) == [3, 2]


def test_front_layers_go_to_the_host_first() -> None:
    assert offloaded(94, 99) == (0, 95)
    assert offloaded(94, 95) == (0, 95)
    assert offloaded(94, 40) == (55, 40)
    assert offloaded(94, 0) == (95, 0)


def test_bytes_of_each_device() -> None:
    slots = [SlotBytes(10, (5, 5)), SlotBytes(10, (5, 5)), SlotBytes(7)]
    devices = [Device(100, 3), Device(100, 4)]
    assert device_bytes(slots, [1, 2], devices, range(1)) == [13, 31]
    assert device_bytes(slots, [0, 2], devices, range(0)) == [0, 31]
