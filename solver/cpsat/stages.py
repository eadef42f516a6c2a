"""Pipeline partitions as an integer program: the second opinion, and the one for linear rows.

y[l, s] = 1 where layer l lies on stage s or a later one; y falls along the stages and rises along
the layers, so no symmetry of layers is left. The count of blocks is fixed: it is never multiplied
with y in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ortools.sat.python import cp_model

from kvplan.models.errors import SolverError
from kvplan.solver.cpsat.configurations import Configuration, configured
from kvplan.solver.place.search.pipeline_stages import Stages

SLICE, WALL_S = 30.0, 60.0


class LayerRow(NamedTuple):
    """least <= sum of coefficient x layers of a stage <= most, by position in the pipeline."""

    coefficients: tuple[int, ...]
    least: int | None = None
    most: int | None = None


class _Program:
    """Layers of each stage of a pipeline at a count of blocks."""

    def __init__(
        self, stages: Stages, order: Sequence[int], blocks: int, rows: Sequence[LayerRow]
    ) -> None:
        self.model, self.stages, self.blocks = cp_model.CpModel(), stages, blocks
        self.from_: list[list[cp_model.IntVar | int]] = []
        layers, last = range(len(stages.layer_bytes)), len(order) - 1
        for _ in layers:
            later = [self.model.new_bool_var("") for _ in order[1:]]
            self.from_.append([1, *later, 0])
            for one, other in pairwise(later):
                self.model.add_implication(other, one)
        for before, after in pairwise(self.from_):
            for s in range(1, len(order)):
                self.model.add(before[s] <= after[s])
        for at, stage in enumerate(order):
            self._limit(at, stages.limits[stage], first=not at, last=at == last)
        for row in rows:
            self._row(row)

    def on(self, layer: int, at: int) -> cp_model.LinearExprT:
        """Whether a layer lies on a stage."""
        return self.from_[layer][at] - self.from_[layer][at + 1]

    def count(self, at: int) -> cp_model.LinearExprT:
        """Layers on a stage."""
        return sum(self.on(layer, at) for layer in range(len(self.from_)))

    def _limit(self, at: int, limit: int, *, first: bool, last: bool) -> None:
        """Layers, ends and, for each column, blocks within the limit; an anchor on the stage."""
        stages, layers = self.stages, range(len(self.from_))
        held = list(stages.anchors or layers)
        self.model.add(sum(self.on(layer, at) for layer in held) >= 1)
        limit -= first * stages.first + last * stages.last
        drafts = stages.draft_columns or (0,) * len(stages.columns)
        for column, draft in zip(stages.columns, drafts, strict=True):
            each = [w + self.blocks * c for w, c in zip(stages.layer_bytes, column, strict=True)]
            used = sum(each[layer] * self.on(layer, at) for layer in layers)
            self.model.add(used <= limit - last * self.blocks * draft)

    def _row(self, row: LayerRow) -> None:
        told = sum(c * self.count(at) for at, c in enumerate(row.coefficients))
        if row.least is not None:
            self.model.add(told >= row.least)
        if row.most is not None:
            self.model.add(told <= row.most)

    def evened(self) -> None:
        """Minimise the layer bytes of the largest stage."""
        whole, places = sum(self.stages.layer_bytes), len(self.from_[0]) - 1
        largest = self.model.new_int_var(0, whole, "")
        for at in range(places):
            sizes = enumerate(self.stages.layer_bytes)
            self.model.add(sum(size * self.on(layer, at) for layer, size in sizes) <= largest)
        self.model.minimize(largest)

    def solved(self) -> tuple[int, ...] | None:
        """Layers by stage; None where the program is proven to have no solution.

        Raises
        ------
        SolverError : neither was found in time.
        """
        for configuration in Configuration:
            solver = configured(SLICE, WALL_S, configuration)
            status = solver.solve(self.model)
            if status == cp_model.INFEASIBLE:
                return None
            if status == cp_model.OPTIMAL:
                return tuple(solver.value(self.count(at)) for at in range(len(self.from_[0]) - 1))
        raise SolverError("cp-sat neither found nor ruled out a partition in time")


def partition_with(
    stages: Stages, order: Sequence[int], blocks: int, rows: Sequence[LayerRow] = ()
) -> tuple[int, ...] | None:
    """Layers by stage that hold so many blocks; None where no partition does, proven.

    Raises
    ------
    SolverError : CP-SAT decided neither in time.
    """
    return _Program(stages, order, blocks, rows).solved()


def even_partition(
    stages: Stages, order: Sequence[int], blocks: int, rows: Sequence[LayerRow] = ()
) -> tuple[int, ...] | None:
    """The same with the smallest largest stage, in layer bytes.

    Raises
    ------
    SolverError : CP-SAT decided neither in time.
    """
    program = _Program(stages, order, blocks, rows)
    program.evened()
    return program.solved()
