"""Bytes of elastic consumers at their floors, and as asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point
from kvplan.models import Problem
from kvplan.models.goals import Fill
from kvplan.models.plan import LedgerLine, RankPlan
from kvplan.models.ranks import at_rank
from kvplan.solver.answer.ledger import rank_plans
from kvplan.solver.answer.shortages import floor_point
from kvplan.solver.formulate.budgets import lives_in
from kvplan.solver.formulate.formulation import formulate

_NO_FILL = Fill(none=True)


class Range(NamedTuple):
    """Bytes of one elastic consumer of a rank in the phases of one line; None: no limit asked."""

    floor: int
    asked: int | None


class Elastic:
    """Ranges of the solved lines of a ledger, by rank and line."""

    def __init__(self, problem: Problem) -> None:
        formulation = formulate(problem.model_copy(update={"goals": (), "fill": _NO_FILL}))
        floor = floor_point(formulation.instance)
        asked = _asked_point(formulation.instance, floor)
        self._choices = {choice.name for choice in problem.choices}
        self._open = _open_consumers(problem, formulation.instance)
        self._floors = self._by_phase(rank_plans(formulation, floor)) | _least_options(problem)
        self._asked = self._by_phase(rank_plans(formulation, asked))

    def range_of(self, rank: str, line: LedgerLine) -> Range | None:
        """Floor and request of a line that the solver decided; None for any other."""
        if line.source != "solved" or not line.phases:
            return None
        key = (rank, self._consumer(line.consumer), line.phases[0])
        if key not in self._floors and key not in self._asked:
            return None
        asked = None if key[1] in self._open else self._asked.get(key, 0)
        return Range(self._floors.get(key, 0), asked)

    def _by_phase(self, ranks: tuple[RankPlan, ...]) -> dict[tuple[str, str, str], int]:
        return {
            (rank.name, self._consumer(line.consumer), phase): line.bytes
            for rank in ranks
            for line in rank.ledger
            if line.source == "solved"
            for phase in line.phases
        }

    def _consumer(self, consumer: str) -> str:
        """The choice of a line `choice=option`; any other name unchanged."""
        choice = consumer.partition("=")[0]
        return f"{choice}=" if choice in self._choices else consumer


def _least_options(problem: Problem) -> dict[tuple[str, str, str], int]:
    """Bytes of the option that takes least, by rank, choice and phase; where none lives, 0."""
    return {
        (rank.name, f"{choice.name}=", phase): min(
            at_rank(option.bytes, rank) if lives_in(option, phase) else 0
            for option in choice.options
        )
        for rank in problem.ranks
        for choice in problem.choices
        for phase in problem.phases
    }


def _open_consumers(problem: Problem, instance: Instance) -> set[str]:
    """Consumers that only the quota bounds: slots without a limit, pools of open counts."""
    named = {"experts"} if instance.experts is not None and instance.experts.most is None else set()
    if any(fitted.is_count and fitted.most is None for fitted in instance.fitted):
        named.update(pool.name for pool in problem.pools)
    return named


def _asked_point(instance: Instance, floor: Point) -> Point:
    """Everything as asked; what was left open stays at its floor."""
    fitted = tuple(zip(instance.fitted, floor.capacities, floor.counts, strict=True))
    capacities = tuple(c if f.is_count or f.most is None else f.most for f, c, _ in fitted)
    counts = tuple(f.most if f.is_count and f.most is not None else n for f, _, n in fitted)
    chunk = len(instance.chunks) - 1
    most = instance.experts.most if instance.experts else None
    experts = floor.experts if most is None else most
    return Point(
        capacities=capacities,
        counts=counts,
        chunk=chunk,
        options=tuple(0 for _ in instance.choices),
        experts=experts,
        kept=experts,
        usable=tuple(Demand(instance).floors(chunk, capacities, counts)),
    )


def budget_lines(ranks: tuple[RankPlan, ...], problem: Problem) -> Iterator[dict[str, Any]]:
    """Every line of every budget with its floor and what was asked, for machines."""
    elastic = Elastic(problem)
    for rank in ranks:
        for line in rank.ledger:
            between = elastic.range_of(rank.name, line)
            yield {
                "rank": rank.name,
                **line.model_dump(mode="json"),
                "share_of_quota": f"{line.bytes}/{rank.quota}" if rank.quota > 0 else None,
                "floor": None if between is None else between.floor,
                "requested": None if between is None else between.asked,
            }
