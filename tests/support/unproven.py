"""Problems that the search proves, bounds, or cannot mend; and a search that is blind."""

from __future__ import annotations

import pytest

from kvplan.kernels.search.ordered import solve
from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Plan, Problem
from kvplan.solver.solve import choose, confirm
from support.micro import micro, one

SLOTS = {"slot_bytes": 7, "max_slots": 12}


def plain() -> Problem:
    """Ordered goals: the search proves its answer."""
    return micro(100, experts=SLOTS, **one(40, fit="capacity"))


def weighted() -> Problem:
    """Two wide variables, one of whose worth may fall: the search proves nothing."""
    curves = {"experts": [[0, 0], [3, 21], [5, 20], [12, 69]]}
    goal = {"maximize": {"count:q": 10, "experts": 1}, "curves": curves}
    return micro(100, experts=SLOTS, goals=[goal], fill="none", **one(4, fit="count", count=9))


def tied() -> Problem:
    """Two constraints that tie three variables to each other."""
    ties = [
        {"terms": {"blocks:p": 5, "experts": -5, "count:q": -2}, "min": 5, "max": 5},
        {"terms": {"count:q": 1, "experts": -2}, "min": -2, "max": -1},
    ]
    return micro(100, experts=SLOTS, constraints=ties, **one(4, fit="count", count=9))


def blind_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the search know nothing of linear constraints: it obeys them by chance."""

    def search(whole: Search) -> Answer | None:
        found = solve(whole)
        if found is None:
            return None
        first, *rest = found.bounds
        return found._replace(bounds=(first, *(None for _ in rest)), exact=False)

    for module in (choose, confirm):
        monkeypatch.setattr(module, "incumbent_of", search)


def with_fields(answer: Plan) -> tuple[str, str, str]:
    """Status, solver and certificate."""
    return answer.status, answer.proof.solver, answer.proof.certificate
