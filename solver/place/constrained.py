"""Partitions under linear rows on layers: blocks bisected, each count decided by CP-SAT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kvplan.solver.place.search.pipeline_stages import Partition, Pipeline, Stages, most_blocks

if TYPE_CHECKING:
    from kvplan.solver.cpsat.stages import LayerRow


def best_under(
    stages: Stages, rows: Sequence[LayerRow], order: Sequence[int] | None = None
) -> Partition | None:
    """The partition with the most blocks that keeps all rows; the largest stage is the smallest.

    The search without the rows bounds the count. None where no partition keeps them.

    Raises
    ------
    SolverError : OR-Tools failed, or CP-SAT decided neither in time.
    """
    from kvplan.solver.cpsat.stages import even_partition, partition_with

    order = range(len(stages.limits)) if order is None else order
    high = most_blocks(Pipeline(stages), order)
    if high is None or partition_with(stages, order, 0, rows) is None:
        return None
    low = 0
    while low < high:
        middle = (low + high + 1) // 2
        if partition_with(stages, order, middle, rows) is None:
            high = middle - 1
        else:
            low = middle
    return Partition(even_partition(stages, order, low, rows) or (), low)
