"""ollama's estimates on published cases."""

from __future__ import annotations

import pytest

from kvplan.models.engines.llamacpp.split import Device, SlotBytes
from kvplan.models.engines.ollama import estimated_layers, whole_layers
from support.placement import public_cases
from support.spreads import layers_of

GIB = 2**30
CASES = {source: c for source, c in public_cases().items() if "gpu_GBps" in c["figures"]}


def test_the_old_estimator_takes_eleven_layers_of_each_card() -> None:
    case = public_cases()["ollama/ollama#9181"]
    figures = case["figures"]
    layer = int(figures["layer_GiB_with_cache"] * GIB)
    free = [each * GIB for each in figures["available_GiB"]]
    graph = int(figures["graph_GiB"] * GIB)
    counts = estimated_layers(free, [layer] * figures["layers"], graph, GIB)
    assert counts == case["engine"]["split"]
    more = estimated_layers(
        free, [layer] * figures["layers"], graph - layer, GIB
    )  # as if no layer were kept as a buffer
    assert more == case["best"]["without_layer_buffer"]


def test_a_small_card_takes_no_part() -> None:
    assert estimated_layers([10 * GIB, GIB], [GIB] * 4, 0) == [4, 0]


@pytest.mark.parametrize("source", CASES)
def test_whole_layers_as_published(source: str) -> None:
    want = CASES[source]["engine"]["whole_layers_ollama"]
    figures = CASES[source]["figures"]
    slots = [SlotBytes(e["dense"] + e["cache"], tuple(e["experts"])) for e in layers_of(figures)]
    cards = zip(figures["gpu_quota"], figures["fixed_when_used"], strict=True)
    counts = whole_layers([*slots, SlotBytes(figures["output"])], [Device(*card) for card in cards])
    assert counts == want["layers"]
    assert len(slots) - sum(counts) == want["on_host"]


def test_everything_that_fits_takes_the_output_too() -> None:
    assert whole_layers([SlotBytes(10)] * 3, [Device(15, 5), Device(30, 5)]) == [1, 2]
