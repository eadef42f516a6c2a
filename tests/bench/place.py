"""Speed of placement: medians in one run, JSON on standard output.

python tests/bench/place.py [--rounds N]
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable
from functools import partial

from timing import interleaved

from kvplan.solver.cpsat.place_program import best_spreading
from kvplan.solver.place.search.device_order import best_order
from kvplan.solver.place.search.pipeline_stages import Stages, best_partition
from kvplan.solver.place.search.slices import shortest
from kvplan.solver.place.search.spread import Slot, Space, Spread, Tensor

GIB, MIB = 2**30, 2**20
PIPELINES = ((61, 4), (80, 8), (94, 8))


def pipeline(layers: int, stages: int, seed: int) -> Stages:
    """Uneven layers and stages, with ends."""
    draw = random.Random(seed)
    sizes = tuple(draw.randint(800, 1200) * MIB for _ in range(layers))
    least = sum(sizes) // GIB // stages
    limits = tuple(draw.randint(least + 4, 2 * least + 8) * GIB for _ in range(stages))
    return Stages(sizes, ((131_072,) * layers,), limits, GIB, GIB)


def mixture(layers: int, cards: int, kinds: int) -> Spread:
    """Layers with experts of some sizes, half of which fit on unequal cards."""
    draw = random.Random(layers + cards + kinds)
    sizes = [draw.randint(50, 100) * MIB for _ in range(kinds)]
    slots = []
    for _ in range(layers):
        dense = draw.randint(80, 140) * MIB
        size = sizes[draw.randrange(kinds)]
        slots.append(Slot(dense, dense, dense, (Tensor(size, (size // 16,)),) * 3))
    whole = sum(slot.held + sum(t.bytes for t in slot.experts) // 2 for slot in slots)
    spaces = [Space("host", 2**45, 2**45, 0, 60 * 10**9)]
    for at in range(cards):
        room = whole // cards + draw.randint(0, 4) * GIB
        rate = draw.choice((360, 616, 936, 1008, 1792)) * 10**9
        spaces.append(Space(f"gpu{at}", room, room, 600 * MIB, rate))
    return Spread(tuple(slots), tuple(spaces), 0)


def with_shares(layers: int, cards: int, kinds: int, *, hop: int = 0) -> Spread:
    """The same, of whose sizes a token reads unequal shares; a change of space may cost time."""
    spread = mixture(layers, cards, kinds)
    sizes = sorted({t.bytes for slot in spread.slots for t in slot.experts})
    reads = {size: size // (8, 16, 32)[at % 3] for at, size in enumerate(sizes)}
    slots = [
        slot._replace(experts=tuple(Tensor(t.bytes, (reads[t.bytes],)) for t in slot.experts))
        for slot in spread.slots
    ]
    return spread._replace(slots=tuple(slots), hop=hop)


def reaching(layers: int, cards: int) -> Spread:
    """Experts of one size that may lie on any card."""
    return mixture(layers, cards, 1)._replace(reach="any")


def proven(spread: Spread) -> bool:
    """Whether an answer is proven, by the path or by CP-SAT from it."""
    found = shortest(spread)
    if found.is_proof:
        return True
    answer = best_spreading(spread, found.answer)
    return answer is not None and answer.is_proven


def jobs() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    found: dict[str, Callable[[], object]] = {}
    for layers, stages in PIPELINES:
        line = pipeline(layers, stages, seed=layers)
        found[f"pipeline {layers} x {stages}"] = partial(best_partition, line)
        found[f"pipeline {layers} x {stages}, any order"] = partial(best_order, line)
    for layers, cards in ((61, 4), (94, 8)):
        found[f"own card {layers} x {cards}"] = partial(shortest, mixture(layers, cards, 1))
        found[f"mixed sizes {layers} x {cards}, proven"] = partial(
            proven, mixture(layers, cards, 3)
        )
        found[f"unequal shares {layers} x {cards}, proven"] = partial(
            proven, with_shares(layers, cards, 8)
        )
        found[f"hops {layers} x {cards}, proven"] = partial(
            proven, with_shares(layers, cards, 3, hop=20 * 10**6)
        )
        found[f"any {layers} x {cards}, proven"] = partial(proven, reaching(layers, cards))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    times = interleaved(jobs(), parser.parse_args().rounds)
    print(json.dumps({name: round(value, 3) for name, value in times.items()}, indent=2))


if __name__ == "__main__":
    main()
