"""What may vary from scenario to scenario, by position in the instance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Column = Any
"""Integers [scenario], of any array library."""


class RefusedError(ValueError):
    """A problem, or scenarios, that the batched search cannot answer."""


@dataclass(frozen=True)
class Given:
    """A request of a batch whose figures vary; it is not among the instance's fixed requests."""

    batch: int
    capacity: Column  # tokens [scenario]; 0 is a placeholder
    history: Column  # tokens [scenario]
    count: Column  # requests [scenario]
    caches: tuple[int, ...] | None = None  # those that it uses; None: all


@dataclass(frozen=True)
class Scenarios:
    """Columns of what differs from the instance; everything left out is as in the instance."""

    number: int
    quotas: Any = None  # bytes [scenario, rank]
    capacities: Mapping[int, Column] = field(default_factory=dict)  # tokens asked, by fitted
    counts: Mapping[int, Column] = field(default_factory=dict)  # requests asked, by fitted
    chunks: Column | None = None  # index of the requested chunk among instance.chunks [scenario]
    use: tuple[Any, Any] | None = None  # resume utilization: numerators, denominators, each
    # [scenario, pool]; 1 and 1 for a pool without headroom
    given: tuple[Given, ...] = ()

    @property
    def only_quotas(self) -> bool:
        """Whether nothing but quotas varies."""
        return not (self.capacities or self.counts or self.given) and (
            self.chunks is None and self.use is None
        )

    def part(self, start: int, stop: int) -> Scenarios:
        """Scenarios start .. stop - 1."""
        return self._at(slice(start, stop), stop - start)

    def picked(self, rows: Column) -> Scenarios:
        """Scenarios by index."""
        return self._at(rows, len(rows))

    def _at(self, rows: Any, number: int) -> Scenarios:
        return Scenarios(
            number=number,
            quotas=None if self.quotas is None else self.quotas[rows, ...],
            capacities={i: column[rows] for i, column in self.capacities.items()},
            counts={i: column[rows] for i, column in self.counts.items()},
            chunks=None if self.chunks is None else self.chunks[rows],
            use=None if self.use is None else (self.use[0][rows, ...], self.use[1][rows, ...]),
            given=tuple(
                Given(g.batch, g.capacity[rows], g.history[rows], g.count[rows]) for g in self.given
            ),
        )
