"""What the rows of a grid decide, as columns: whole numbers with a mask, words as codes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvplan.models import Infeasible, Plan, Problem
from kvplan.models.plan import RankPlan


@dataclass(frozen=True, slots=True)
class Numbers:
    """A column of whole numbers; `missing` where a row has none."""

    values: NDArray[np.int64]  # [row]
    missing: NDArray[np.bool_]  # [row]


@dataclass(frozen=True, slots=True)
class Words:
    """A column of codes into names; -1 where a row has none (as pandas has it)."""

    codes: NDArray[np.int32]  # [row]
    names: tuple[str, ...]


Figures = dict[str, Numbers | Words]
"""Columns by name, in the order of the table."""


def empty_figures(problem: Problem, rows: int) -> Figures:
    """Columns without a single value; which there are follows from what a problem decides."""
    return {
        "status": _words(("optimal", "feasible", "infeasible"), rows),
        **{name: _numbers(rows) for name in _decided_numbers(problem)},
        **{
            f"choice:{choice.name}": _words((option.name for option in choice.options), rows)
            for choice in problem.choices
        },
        "slack": _numbers(rows),
        "shortfall": _numbers(rows),
        "tightest_rank": _words((rank.name for rank in problem.ranks), rows),
        "tightest_phase": _words(problem.phases, rows),
    }


def _numbers(rows: int) -> Numbers:
    return Numbers(np.zeros(rows, np.int64), np.ones(rows, np.bool_))


def _words(names: Iterable[str], rows: int) -> Words:
    return Words(np.full(rows, -1, np.int32), tuple(names))


def _decided_numbers(problem: Problem) -> list[str]:
    names = [f"blocks:{pool.name}" for pool in problem.pools]
    names += [f"{what}:{n}" for what in ("capacity", "count") for n in problem.fitted(what)]
    names += ["prefill"] if problem.prefill else []
    if problem.experts is not None:
        names += ["experts", "experts_in_prefill"] if problem.experts.lend else ["experts"]
    if problem.fill is not None and problem.fill.batch is not None:
        names.append(f"copies:{problem.fill.batch}")
    if problem.place is not None:
        names += [f"{what}:{r.name}" for what in ("layers", "experts") for r in problem.ranks]
        names += ["picoseconds"] if problem.place.read else []
    return names


def put(figures: Figures, row: int, entries: Mapping[str, Any]) -> None:
    """Write one row; an entry that has no column, or is None, is passed over."""
    for name, value in entries.items():
        column = figures.get(name)
        if column is None or value is None:
            continue
        if isinstance(column, Words):
            column.codes[row] = column.names.index(value)
        else:
            column.values[row], column.missing[row] = value, False


def entries_of(problem: Problem, answer: Plan | Infeasible) -> dict[str, Any]:
    """A row's entries by column."""
    if isinstance(answer, Infeasible):
        worst = max(answer.shortfall, key=lambda short: short.bytes, default=None)
        if worst is None:  # a pool's max_blocks is too low, whatever the bytes
            return {"status": "infeasible"}
        return {
            "status": "infeasible",
            "shortfall": worst.bytes,
            "tightest_rank": worst.rank,
            "tightest_phase": worst.phase,
        }
    rank = min(answer.ranks, key=lambda rank: rank.slack)
    batch = problem.fill.batch if problem.fill is not None else None
    return {
        "status": answer.status,
        **{f"blocks:{pool}": blocks for pool, blocks in answer.blocks.items()},
        **_fitted(problem, answer),
        "prefill": answer.prefill_chunk,
        "experts": answer.expert_slots,
        "experts_in_prefill": answer.expert_slots_in_prefill,
        f"copies:{batch}": answer.copies,
        **{f"choice:{choice}": option for choice, option in answer.choices.items()},
        **_placed(answer),
        "slack": rank.slack,
        "tightest_rank": rank.name,
        "tightest_phase": _fullest(rank),
    }


def _placed(answer: Plan) -> dict[str, int | None]:
    """Layers and experts by space, and the time of a token."""
    placement = answer.placement
    if placement is None:
        return {}
    figures = {f"layers:{space.name}": space.layers for space in placement.spaces}
    figures |= {f"experts:{space.name}": space.experts for space in placement.spaces}
    return {**figures, "picoseconds": placement.picoseconds}


def _fullest(rank: RankPlan) -> str:
    return max(rank.phases, key=rank.phases.__getitem__)


def _fitted(problem: Problem, plan: Plan) -> dict[str, int]:
    """What the fitted requests get, by column."""
    got = {(request.batch, request.name): request for request in plan.requests}
    return {
        f"{what}:{name}": getattr(got[batch.name, name], what)
        for what in ("capacity", "count")
        for name, (batch, _) in problem.fitted(what).items()
    }
