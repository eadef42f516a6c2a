"""Small random placement programs, and the public ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kvplan.solver.place.search.spread import Objective, Slot, Space, Spread, Tensor

ORDERS: tuple[tuple[Objective, ...], ...] = (
    ("speed",),
    ("layers_on_gpu", "speed"),
    ("experts_on_gpu", "speed"),
    ("layers_on_gpu", "experts_on_gpu"),
    ("speed", "experts_on_gpu"),
)


def drawn_spreads(count: int, seed: int, *, hard: bool) -> Iterator[Spread]:
    """Programs of a few slots: with `hard` mixed sizes, hops, foreign experts, a small host."""
    draw = random.Random(seed)
    for _ in range(count):
        cards, kinds = draw.randint(1, 3), draw.randint(1, 2) if hard else 1
        sizes = [(draw.randint(2, 9), (draw.randint(1, 5),)) for _ in range(kinds)]
        slots = [drawn_slot(draw, sizes) for _ in range(draw.randint(2, 4))]
        slots.append(Slot(1, 1, 1, (), is_layer=False))
        host = 0 if draw.random() < 0.85 else None
        room = draw.randint(5, 60) if hard else 10**6
        spaces = [Space("host", room, room, 0, draw.randint(1, 3))] if host == 0 else []
        for at in range(cards):
            room = draw.randint(2, 40)
            load = draw.randint(2, 40) if draw.random() < 0.2 else room
            spaces.append(Space(f"gpu{at}", room, load, draw.randint(0, 3), draw.randint(2, 12)))
        reach: Any = draw.choice(("own", "next", "any")) if hard else "own"
        yield Spread(
            tuple(slots),
            tuple(spaces),
            host,
            reach,
            hop=draw.choice((0, 10**11)) if hard else 0,
            mirror=hard and host == 0 and draw.random() < 0.2,
            objectives=draw.choice(ORDERS),
        )


def drawn_slot(draw: random.Random, sizes: list[tuple[int, tuple[int, ...]]]) -> Slot:
    """A layer with up to two expert tensors."""
    fixed = draw.randint(1, 8)
    held = fixed + draw.randint(0, 4)
    experts = tuple(Tensor(*draw.choice(sizes)) for _ in range(draw.randint(0, 2)))
    return Slot(fixed, held, draw.randint(0, held), experts)


def spread_of(figures: dict[str, Any], *, whole_layers: bool = False, **fields: Any) -> Spread:
    """The program of a public case: the output behind the layers, the host first."""
    slots = [
        Slot(each["dense"], held, held, tuple(_experts(each, whole=whole_layers)))
        for each in layers_of(figures)
        for held in (each["dense"] + each["cache"],)
    ]
    output = figures["output"]
    cards = zip(figures["gpu_quota"], figures["fixed_when_used"], figures["gpu_GBps"], strict=True)
    spaces = [Space("host", 2**50, 2**50, 0, figures["host_GBps"] * 10**9)]
    spaces += [
        Space(f"gpu{at}", quota, quota, base, rate * 10**9)
        for at, (quota, base, rate) in enumerate(cards)
    ]
    end = Slot(output, output, output, (), is_layer=False)
    return Spread((*slots, end), tuple(spaces), 0, **fields)


def layers_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Layers of a case, one by one."""
    layers = figures["layers"]
    if isinstance(layers, list):
        return [run for run in layers for _ in range(run["count"])]
    return [layers["then_by_index_mod_4"][str(i % 4)] for i in range(figures["layer_count"])]


def _experts(layer: dict[str, Any], *, whole: bool) -> Iterator[Tensor]:
    share = Fraction(layer["active"])
    reads = tuple(int(size * share) for size in layer["experts"])
    if whole and reads:
        yield Tensor(sum(layer["experts"]), reads)
    elif reads:
        yield from (Tensor(size, (r,)) for size, r in zip(layer["experts"], reads, strict=True))
