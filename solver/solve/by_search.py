"""A formulation answered by the host's search alone, as solver bisect does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvplan.kernels.search.search import Search
from kvplan.kernels.values import Answer
from kvplan.models import Plan, Undecided
from kvplan.models.plan import Solver
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.solve.bisect import incumbent_of, mended, obeys

if TYPE_CHECKING:
    from kvplan.models import Infeasible


def plan_by_search(formulation: Formulation, search: Search, notes: tuple[str, ...]) -> Plan:
    """What solver bisect answers on the host, with notes that say why it was asked there."""
    found = incumbent_of(search)
    if found is None:
        raise refusal_of(formulation, search)
    return searched_plan(formulation, search, found, "bisect", notes)


def searched_plan(
    formulation: Formulation,
    search: Search,
    found: Answer,
    solver: Solver,
    notes: tuple[str, ...] = (),
) -> Plan:
    """The search's answer, mended where it breaks a linear constraint."""
    answer = found if obeys(search, found.point) else mended(search, found)
    if answer is None:
        why = "".join(f" ({note})" for note in notes)
        raise Undecided(
            "the search found no plan that obeys the linear constraints, and cannot "
            f"prove that there is none{why}; solver cp-sat can"
        )
    certificate = "nested" if answer.exact else "search"
    return assemble(formulation, search, answer, Credit(solver, certificate, notes=notes))


def refusal_of(formulation: Formulation, search: Search) -> Infeasible:
    """Why nothing fits; loaded on first use."""
    from kvplan.solver.answer.refusal import infeasible

    return infeasible(formulation, search)
