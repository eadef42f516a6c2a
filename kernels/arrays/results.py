"""Decisions of many scenarios."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point

Array = Any


@dataclass(frozen=True)
class Fits:
    """Every decision of every scenario; 0 throughout where nothing fits."""

    feasible: Array  # bool [scenario]
    capacities: Array  # tokens [scenario, fitted]
    counts: Array  # requests [scenario, fitted]
    chunk: Array  # index into instance.chunks [scenario]
    options: Array  # index of the option [scenario, choice]
    experts: Array  # slots [scenario]
    kept: Array  # slots that stay during prefill [scenario]
    usable: Array  # blocks, reserved ones apart [scenario, pool]

    def mapped(self, change: Callable[[Array], Array]) -> Fits:
        """The same with every array changed."""
        return Fits(*(change(getattr(self, each.name)) for each in fields(self)))

    def point(self, index: int) -> Point | None:
        """The decisions of one scenario as plain integers; None where nothing fits."""
        if not bool(self.feasible[index]):
            return None

        def row(array: Array) -> tuple[int, ...]:
            return tuple(int(value) for value in array[index, ...])

        return Point(
            capacities=row(self.capacities),
            counts=row(self.counts),
            chunk=int(self.chunk[index]),
            options=row(self.options),
            experts=int(self.experts[index]),
            kept=int(self.kept[index]),
            usable=row(self.usable),
        )


def widths(instance: Instance) -> dict[str, int | None]:
    """Length of the second axis of every array; None where there is none."""
    fitted, choices = len(instance.fitted), len(instance.choices)
    return {
        "feasible": None,
        "capacities": fitted,
        "counts": fitted,
        "chunk": None,
        "options": choices,
        "experts": None,
        "kept": None,
        "usable": len(instance.pools),
    }
