"""A minimal set of demands that cannot hold together, by deletion filtering.

Every test is a whole problem, solved exactly: no solver's core is trusted. Halves are deleted
before single demands, so that many harmless ones cost little.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvplan.models import Problem
from kvplan.models.reading.references import figures
from kvplan.solver.answer.shortages import shortage_at_floors
from kvplan.solver.explain.conflict.items import Item, Items, items_of, without
from kvplan.solver.explain.conflict.wording import least_context
from kvplan.solver.explain.feasible import UnprovenError, bare, fits
from kvplan.solver.formulate.formulation import Held, formulate

Broken = Callable[[Items], bool]
MOST_UNDECIDED = 4
"""Questions, of about a second each, that CP-SAT may leave open before no more are asked."""


def minimal_conflict(problem: Problem, held: Held | None = None) -> tuple[Item, ...]:
    """Demands of an infeasible problem that cannot hold together; none can be left out.

    Of several ranks that are short the shortest stays, since it is tried last. A demand stays
    where CP-SAT leaves open whether the problem fits without it.
    """
    items = _worst_last(problem, held, list(items_of(problem, held)))
    everything = frozenset(items)
    undecided: list[Items] = []

    def broken(kept: Items) -> bool:
        """Whether these demands alone have no plan, for sure."""
        if len(undecided) >= MOST_UNDECIDED:
            return False
        try:
            return not fits(*without(problem, held, everything - kept))
        except UnprovenError:
            undecided.append(kept)
            return False

    kept = _filtered(broken, everything, items)
    while True:  # one by one again: where a demand is no pure burden, another may fall after it
        spare = next((item for item in items if item in kept and broken(kept - {item})), None)
        if spare is None:
            return tuple(item for item in items if item in kept)
        kept -= {spare}


def _filtered(broken: Broken, kept: Items, group: Sequence[Item]) -> Items:
    """Delete as much of a group as the conflict does not need."""
    rest = kept.difference(group)
    if broken(rest):
        return rest
    if len(group) == 1:
        return kept
    middle = len(group) // 2
    for half in (group[:middle], group[middle:]):
        kept = _filtered(broken, kept, half)
    return kept


def _worst_last(problem: Problem, held: Held | None, items: list[Item]) -> list[Item]:
    """Sort by weight within a kind, lightest first.

    Quotas weigh what their ranks are short of, consumers and staging their bytes.
    """
    instance = formulate(bare(problem), held).instance
    short = dict.fromkeys(range(len(problem.ranks)), 0)
    for budget, missing in shortage_at_floors(instance).budgets:
        short[budget.rank] = max(short[budget.rank], missing)
    kinds = list(dict.fromkeys(item.kind for item in items))
    if held is not None and "pool minimum" in kinds:  # a resize holds the floors
        kinds.remove("pool minimum")
        kinds.insert(kinds.index("quota"), "pool minimum")

    def weight(item: Item) -> tuple[int, int]:
        amount = 0
        if item.kind == "quota":
            amount = short[item.at[0]]
        elif item.kind == "consumer":
            consumer = problem.consumers[item.at[0]]
            each = [*figures(consumer.bytes), *figures(consumer.per_request)]
            amount = max(each, default=0)
        elif item.kind == "staging" and problem.prefill is not None:
            entry = problem.prefill.staging[item.at[0]]
            context = least_context(problem, entry)
            amount = entry.bytes_of(problem.prefill.candidates[0], context)
        return kinds.index(item.kind), amount

    return sorted(items, key=weight)
