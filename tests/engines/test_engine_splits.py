"""Splits of engines that count layers alike, against the best split by their bytes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.models.engines.llamacpp.split import Device, SlotBytes, slices_on_host
from kvplan.models.engines.ollama import estimated_layers, whole_layers
from kvplan.models.engines.partitions import largest_remainder
from kvplan.solver import plan
from kvplan.solver.oracle.pipeline_cuts import blocks_of
from kvplan.solver.place.search.pipeline_stages import Stages, best_partition
from support.placement import public_cases

GIB, MIB = 2**30, 2**20
CROSS = public_cases()["ollama/ollama#12010"]
LAYERS, CROSS_EVERY, CROSS_FIRST = 100, 5, 3
ROW_BYTES = 8 * 128 * 2 * 2
LAYER_BYTES, OUTPUT_BYTES, PROJECTOR_BYTES, GRAPH_BYTES = 547 * MIB, 860 * MIB, 2 * GIB, GIB
IMAGE_TOKENS = 4 * 1601


def is_cross(layer: int) -> bool:
    """Llama-3.2-90B-Vision: every fifth layer from the fourth on attends to the image."""
    return layer % CROSS_EVERY == CROSS_FIRST


def vision_model(card_bytes: int) -> Stages:
    """Four cards; a cross-attention layer keeps the image's rows, whatever the context.

    The report has no sizes: those of a 4-bit file of Llama-3.2-90B-Vision stand in, with a graph
    of 1 GiB on each card, the projector on the first.
    """
    state = IMAGE_TOKENS * ROW_BYTES
    return Stages(
        layer_bytes=tuple(LAYER_BYTES + (state if is_cross(at) else 0) for at in range(LAYERS)),
        columns=(tuple(0 if is_cross(at) else ROW_BYTES for at in range(LAYERS)),),
        limits=(card_bytes - GRAPH_BYTES,) * 4,
        first=PROJECTOR_BYTES,
        last=OUTPUT_BYTES,
    )


def tokens(stages: Stages, counts: list[int]) -> int:
    layers = list(zip(stages.layer_bytes, zip(*stages.columns, strict=True), strict=True))
    return blocks_of(layers, stages.limits, tuple(counts), (stages.first, stages.last), ())


def slots_to_layers(split: list[int]) -> list[int]:
    """ollama counts the output as a slot; it lies on the last card."""
    return [*split[:-1], split[-1] - 1]


def test_layers_are_dealt_round_robin_as_reported() -> None:
    """26, 25, 25, 25 of 101: all fit, so each card takes its turn and the output comes first."""
    figures = CROSS["figures"]
    free = [each * 10**9 for each in figures["cards_GB"]]
    slots = figures["layers"] - 1
    counts = estimated_layers(free, [LAYER_BYTES] * slots, GRAPH_BYTES, OUTPUT_BYTES)
    assert counts == CROSS["engine"]["split"]


def test_a_split_by_bytes_holds_more_than_by_hand_and_by_count() -> None:
    """The report: 14,094 tokens by the heuristic, 29,700 by hand (24, 27, 27, 23)."""
    stages = vision_model(CROSS["figures"]["cards_GB"][0] * 10**9)
    engine = tokens(stages, slots_to_layers(CROSS["engine"]["split"]))
    by_hand = tokens(stages, slots_to_layers(CROSS["best"]["split"]))
    best = best_partition(stages)
    assert best is not None
    assert best.blocks == tokens(stages, list(best.layers))
    assert best.blocks >= by_hand > engine
    assert best.layers[0] < min(best.layers[1:3])  # the projector's card holds fewer


def test_one_problem_asks_for_the_context_and_the_split() -> None:
    """The same question in a problem file: cross layers have a state, the others a cache."""
    card, state = 22 * 10**9, IMAGE_TOKENS * ROW_BYTES
    full = {"dense": LAYER_BYTES, "cache": {"kv": ROW_BYTES}}
    fixed = {"dense": LAYER_BYTES, "state": state}
    names = [f"gpu{at}" for at in range(4)]
    problem = Problem.model_validate(
        {
            "ranks": [{"name": name, "stage": at, "quota": card} for at, name in enumerate(names)],
            "tokens_per_block": 1,
            "pools": [{"name": "kv", "bytes": 1}],
            "caches": [{"name": "kv", "kind": "full"}],
            "batches": [
                {"name": "b", "requests": [{"name": "r", "capacity": 2**20, "fit": "capacity"}]}
            ],
            "place": {
                "layers": [fixed if is_cross(at) else full for at in range(LAYERS)],
                "ends": {"first": {"bytes": PROJECTOR_BYTES}, "last": {"bytes": OUTPUT_BYTES}},
                "used": {name: {"base": GRAPH_BYTES} for name in names},
            },
            "goals": ["capacity:r"],
            "fill": "none",
        }
    )
    best = best_partition(vision_model(card))
    assert best is not None
    assert plan(problem).requests[0].capacity == best.blocks


def test_the_graph_is_the_lever_not_the_split() -> None:
    """ollama #9181: 44 of 81 layers at 64,000 tokens, beside a graph of 8.2 GiB on each card.

    With half a GiB there all layers and the output fit, at about 44,000 tokens.
    """
    figures = public_cases()["ollama/ollama#9181"]["figures"]
    layers, card = figures["layers"], figures["available_GiB"][0] * GIB
    held = int(figures["layer_GiB_with_cache"] * GIB) - int(figures["cache_GiB"] * GIB) // layers
    kept = GIB // 2 + figures["minimum_MiB"] * MIB
    stages = Stages((held,) * layers, ((ROW_BYTES,) * layers,), (card - kept,) * 4, 0, GIB)
    best = best_partition(stages)
    assert best is not None
    assert best.layers == (20, 20, 20, 20)
    assert 44_000 <= best.blocks < 45_000
    less = Stages(*stages[:2], (card - int(8.2 * GIB) - figures["minimum_MiB"] * MIB,) * 4, 0, GIB)
    most = best_partition(less)
    assert most is None or most.blocks < 1


def gemma(overhead_gib: int) -> tuple[list[SlotBytes], list[Device]]:
    """gemma3-27b in fp16 on 30.9 and 30.8 GiB (ollama #11162): 62 alike layers and a wide head."""
    layer = 2 * (2 * 5376 * 4096 + 2 * 5376 * 2048 + 3 * 5376 * 21504)
    slots = [*[SlotBytes(layer)] * 62, SlotBytes(2 * 262_144 * 5376)]
    free = (309 * GIB // 10, 308 * GIB // 10)
    return slots, [Device(each, overhead_gib * GIB) for each in free]


def test_the_output_stays_on_the_host_before_a_layer_does() -> None:
    """31, 31 with the output on the host, as reported, once overheads leave no room for it."""
    assert whole_layers(*gemma(6)) == [31, 31]
    assert sum(whole_layers(*gemma(5))) == 63


def test_slots_are_evened_over_the_cards_that_are_needed() -> None:
    """As few cards as hold everything; on those the smallest share of the free bytes."""
    slots = [SlotBytes(10)] * 6
    assert whole_layers(slots, [Device(100, 0), Device(100, 0), Device(100, 0)]) == [6, 0, 0]
    assert whole_layers(slots, [Device(40, 0), Device(40, 0), Device(40, 0)]) == [3, 3, 0]
    assert whole_layers(slots, [Device(40, 0), Device(20, 0), Device(20, 0)]) == [4, 2, 0]


def test_no_engine_holds_more_whole_layers_than_the_planner() -> None:
    draw = random.Random(11162)
    for _ in range(40):
        count, cards = draw.randint(2, 6), draw.randint(1, 3)
        sizes = [draw.randint(1, 9) for _ in range(count)]
        rooms = sorted((draw.randint(4, 30) for _ in range(cards)), reverse=True)
        engine = whole_layers(
            [*map(SlotBytes, sizes), SlotBytes(0)], [Device(room, 0) for room in rooms]
        )
        assert sum(engine) <= 1 + _layers_on_cards(sizes, rooms)


def _layers_on_cards(sizes: list[int], rooms: list[int]) -> int:
    names = [f"gpu{at}" for at in range(len(rooms))]
    place: dict[str, Any] = {
        "order": ["host", *names],
        "host": "host",
        "layers": [{"dense": size} for size in sizes],
        "experts": "none",
    }
    problem = Problem.model_validate(
        {
            "ranks": [
                *({"name": n, "quota": room} for n, room in zip(names, rooms, strict=True)),
                {"name": "host", "quota": 10**6},
            ],
            "place": place,
            "goals": ["layers_on_gpu"],
            "fill": "none",
        }
    )
    placement = plan(problem).placement
    assert placement is not None
    return sum(space.layers for space in placement.spaces if space.name != "host")


@pytest.mark.parametrize(
    ("memory", "layers"), [((128, 128, 256, 24), 60), ((50, 30, 20), 33), ((96, 24, 8), 40)]
)
def test_exo_overfills_where_a_partition_by_bytes_does_not(
    memory: tuple[int, ...], layers: int
) -> None:
    """Largest remainder looks at memory alone (exo #2227): caps by what fits hold every node."""
    each = 100 * sum(memory) * 95 // 100 // layers  # hundredths: 95 % of all memory
    counts = largest_remainder(layers, memory)
    over = [at for at, n in enumerate(counts) if n * each > 100 * memory[at]]
    stages = Stages((each,) * layers, ((1,) * layers,), tuple(100 * size for size in memory))
    best = best_partition(stages)
    assert over  # the engine's split does not fit
    assert best is not None
    assert best.blocks >= 0
    for count, size in zip(best.layers, memory, strict=True):
        assert count * each <= 100 * size


@pytest.mark.parametrize(
    ("counts", "number", "host"),
    [
        ([24, 24], 24, [*range(12, 24), *range(36, 48)]),  # ik_llama.cpp #1464
        ([40], 22, list(range(18, 40))),  # ik_llama.cpp #2262
        ([3, 2], 3, [1, 2, 4]),
        ([4, 1], 6, [1, 2, 3, 4]),  # a slice gives no more than it has
        ([4, 4], 0, []),
    ],
)
def test_ik_keeps_the_early_layers_of_each_slice(
    counts: list[int], number: int, host: list[int]
) -> None:
    assert slices_on_host(counts, number) == host


@pytest.mark.parametrize("kept", [0, 4, 8])
def test_ktransformers_keeps_every_expert_on_the_host(kept: int) -> None:
    """The host needs as much whatever --kt-num-gpu-experts says (ktransformers #2084)."""
    layers, experts, size = 3, 8, 5
    problem = Problem.model_validate(
        {
            "ranks": [
                {"name": "gpu", "quota": 10 * layers + layers * kept * size},
                {"name": "host", "quota": layers * experts * size},
            ],
            "place": {
                "engine": "ktransformers",
                "order": ["host", "gpu"],
                "host": "host",
                "layers": [{"count": layers, "dense": 10, "experts": [size] * experts}],
                "unit": "expert",
                "mirror": True,
            },
            "goals": ["layers_on_gpu", "experts_on_gpu"],
            "fill": "none",
        }
    )
    placement = plan(problem).placement
    assert placement is not None
    host = next(space for space in placement.spaces if space.name == "host")
    assert host.expert_bytes == layers * experts * size
    card = next(space for space in placement.spaces if space.name == "gpu")
    assert card.experts == layers * kept
