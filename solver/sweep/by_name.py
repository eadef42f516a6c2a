"""Many scenarios of one problem by name, in groups that the kernels solve at once.

Groups differ in "auto" granules (at most five classes of a rank's quota) and in requested chunks
that are no candidates of the problem; within one, `kernels.arrays` answers. What it rejects is
solved scenario by scenario, with a note that says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from kvplan.kernels.arrays import Fits, RefusedError, Scenarios
from kvplan.kernels.arrays.scalar import from_points, instance_at
from kvplan.kernels.instance import Instance
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Point
from kvplan.models import InvalidProblem, Problem
from kvplan.models.messages import shown
from kvplan.solver.formulate.budgets import GIB, auto_granule
from kvplan.solver.formulate.formulation import Formulation, Held, formulate
from kvplan.solver.solve.integers import answered
from kvplan.solver.solve.on_device import Device, Kernel, check_device, fits_on
from kvplan.solver.sweep.named_scenarios import (
    check_ends,
    columns_of,
    declared,
    followed_figures,
    quotas_of,
    scenarios_of,
    with_figure,
    with_requested,
)

Array = Any
Progress = Callable[[int, int], None]
_STEPS = tuple(GIB << doublings for doublings in range(1, 5))
"""Quotas from which the "auto" granule doubles."""


@dataclass(frozen=True)
class Sweep:
    """Decisions of every scenario, 0 where nothing fits; columns in the problem's order."""

    feasible: Array  # bool [scenario]
    proven: Array  # bool [scenario]: the optimum, or that nothing fits
    capacities: Array  # tokens [scenario, fitted request]
    counts: Array  # requests [scenario, fitted request]
    prefill: Array  # tokens [scenario]; 0 without a prefill section
    options: Array  # index of the option [scenario, choice]
    experts: Array  # slots [scenario]
    kept: Array  # slots that stay during prefill [scenario]
    blocks: Array  # allocated, reserved ones included [scenario, pool]
    notes: tuple[str, ...]


def fit(
    problem: Problem,
    vary: Mapping[str, Sequence[Any]],
    *,
    device: Any = None,
    kernel: str = "arrays",
    progress: Progress | None = None,
) -> Sweep:
    """Solve a problem in many scenarios, each exactly as `plan` would.

    Parameters
    ----------
    problem : what all scenarios have in common.
    vary : equally long columns by name: "quota" (every rank) or "quota:<rank>" in bytes (declared,
        a rank's `memory` no longer counts),
        "capacity:<request>" (tokens asked; the tokens in flight stay), "count:<request>",
        "prefill" (the requested chunk), "resume_utilization".
    device : None: NumPy on the host; "cpu", "cuda", ...: torch tensors there.
    kernel : "arrays", or "triton": one fused launch where it takes the problem.

    Raises
    ------
    InvalidProblem : an unknown name or an ambiguous one, columns of different lengths,
        a figure out of its bounds, no such device or kernel.
    """
    _check_where(device, kernel)
    columns = columns_of(problem, vary)
    problem = declared(problem, columns)
    check_ends(problem, columns)
    number = len(next(iter(columns.values()))) if columns else 0
    notes: dict[str, None] = {}
    parts = []
    for group in groups_of(problem, columns, number):
        parts.append((group.rows, group.solve(problem, columns, device, kernel, notes)))
        if progress is not None:
            progress(sum(len(rows) for rows, _ in parts), number)
    return _merged(parts, number, tuple(notes))


def _check_where(device: Any, kernel: str) -> None:
    if kernel not in get_args(Kernel):
        raise InvalidProblem.at("kernel", "arrays or triton", shown(kernel))
    if device is not None:
        check_device(device)


@dataclass(frozen=True)
class Group:
    """Scenarios with equal granules, candidates and given contexts."""

    rows: Array  # scenarios [member]
    granules: Mapping[str, int]  # "auto", by rank
    requested: int | None  # a chunk that the problem has no candidate for
    followed: Mapping[str, int]  # given capacities and counts that some staging follows

    def scenarios(
        self, problem: Problem, columns: Mapping[str, Any]
    ) -> tuple[Formulation, Instance, Scenarios]:
        """The group's formulation, and its scenarios with the instance that they vary."""
        if self.requested is not None:
            problem = with_requested(problem, self.requested)
        for column, figure in self.followed.items():
            problem = with_figure(problem, column, figure)
        formulation = formulate(problem, Held(self.granules, {}))
        mine = {
            name: [column[row] for row in self.rows]
            if isinstance(column, list)
            else column[self.rows]
            for name, column in columns.items()
        }
        has_candidate = self.requested is None
        instance, scenarios = scenarios_of(formulation, mine, len(self.rows), has_candidate)
        return formulation, instance, scenarios

    def solve(
        self,
        problem: Problem,
        columns: Mapping[str, Any],
        device: Any,
        kernel: str,
        notes: dict[str, None],
    ) -> Sweep:
        """Every scenario of the group at once, or one by one where that is refused."""
        _, instance, scenarios = self.scenarios(problem, columns)
        proven = np.ones(len(self.rows), dtype=np.bool_)
        try:
            fits = _batched(instance, scenarios, device, kernel, notes)
        except RefusedError as refusal:
            notes[f"scenarios solved one by one: {refusal}"] = None
            fits, proven = _one_by_one(instance, scenarios)
        return _named(instance, fits, proven)


def _batched(
    instance: Instance, scenarios: Scenarios, device: Any, kernel: str, notes: dict[str, None]
) -> Fits:
    """By the fused kernel where it is wanted and takes the problem, else over arrays."""
    fits, why = fits_on(
        Device(device, "triton" if kernel == "triton" else "arrays"), instance, scenarios
    )
    if why is not None:
        notes[f"arrays instead of the fused kernel: {why}"] = None
    return fits


def groups_of(problem: Problem, columns: Mapping[str, Any], number: int) -> list[Group]:
    """Scenarios by what a formulation decides: granules, staging of chunks and of contexts.

    They are the "auto" granules of all ranks, a requested chunk that is no candidate, and given
    capacities that staging follows.
    """
    quotas = quotas_of(problem, columns, number)
    is_auto = problem.has_auto_granules
    keys: list[Array] = []
    if quotas is not None and is_auto:
        steps = np.asarray(_STEPS)
        keys += [np.searchsorted(steps, column, side="right") for column in quotas.T]
    requested = np.zeros(number, dtype=np.int64)
    if "prefill" in columns and problem.prefill is not None:
        known = np.isin(columns["prefill"], np.asarray(problem.prefill.candidates))
        requested = np.where(known, 0, columns["prefill"])
        keys.append(requested)
    followed = followed_figures(problem, columns)
    keys += followed.values()
    groups = []
    for rows in _alike(keys, number):
        granules: dict[str, int] = {}
        if quotas is not None and is_auto:
            granules = {
                rank.name: auto_granule(int(quota))
                for rank, quota in zip(problem.ranks, quotas[rows[0]], strict=True)
            }
        mine = {name: int(column[rows[0]]) for name, column in followed.items()}
        groups.append(Group(rows, granules, int(requested[rows[0]]) or None, mine))
    return groups


def _alike(keys: Sequence[Array], number: int) -> list[Array]:
    """Scenarios with equal keys, each group in order."""
    if not number:
        return []
    label = np.zeros(number, dtype=np.int64)
    for key in keys:
        if (key == key[0]).all():
            continue
        _, code = np.unique(key, return_inverse=True)
        # Labels stay below the number of scenarios, so the product is an int64.
        _, label = np.unique(label * (int(code.max()) + 1) + code, return_inverse=True)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(label[order])) + 1)


def _one_by_one(instance: Instance, scenarios: Scenarios) -> tuple[Fits, Array]:
    """Every scenario by itself, and where its answer is a proof."""
    points: list[Point | None] = []
    proven = np.ones(scenarios.number, dtype=np.bool_)
    for index in range(scenarios.number):
        answer, proven[index] = answered(Search(instance_at(instance, scenarios, index)))
        points.append(None if answer is None else answer.point)
    return from_points(instance, points), proven


def _named(instance: Instance, fits: Fits, proven: Array) -> Sweep:
    """On the host, chunks in tokens and blocks as allocated."""
    host = fits.mapped(lambda array: np.asarray(array.cpu() if hasattr(array, "cpu") else array))
    reserved = np.asarray([pool.reserved for pool in instance.named_pools], dtype=np.int64)
    feasible = host.feasible
    return Sweep(
        feasible=feasible,
        proven=proven,
        capacities=host.capacities,
        counts=host.counts,
        prefill=np.where(feasible, np.asarray(instance.chunks, dtype=np.int64)[host.chunk], 0),
        options=host.options,
        experts=host.experts,
        kept=host.kept,
        blocks=host.usable[:, : len(reserved)] + reserved * feasible[:, None],
        notes=(),
    )


def _merged(parts: list[tuple[Array, Sweep]], number: int, notes: tuple[str, ...]) -> Sweep:
    """Groups put back in the scenarios' order."""
    if not parts:
        raise InvalidProblem.at("vary", "at least one scenario", "none")
    first = parts[0][1]
    merged = {}
    for name, column in vars(first).items():
        if name == "notes":
            continue
        merged[name] = np.empty((number, *column.shape[1:]), dtype=column.dtype)
        for rows, part in parts:
            merged[name][rows] = getattr(part, name)
    return Sweep(**merged, notes=notes)
