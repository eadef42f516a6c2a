"""Two solvers that have to agree: a proof of CP-SAT beside one of the search."""

from __future__ import annotations

from kvplan.kernels.search.search import Search
from kvplan.models import Disagreement, Plan
from kvplan.solver.answer.assembled_plan import assemble
from kvplan.solver.answer.credit import Credit
from kvplan.solver.formulate.formulation import Formulation
from kvplan.solver.solve.bisect import incumbent_of


def held_against_search(answer: Plan, formulation: Formulation, search: Search) -> Plan:
    """A plan, confirmed by the search where CP-SAT proved it and the search proves its own.

    Raises
    ------
    Disagreement : two proven plans differ; the message prints both.
    """
    if answer.status != "optimal" or answer.proof.certificate != "cp-sat":
        return answer
    incumbent = incumbent_of(search)
    if incumbent is None:
        raise Disagreement(f"cp-sat found a plan where the search found none: {answer.blocks}")
    if not incumbent.exact:
        return answer
    other = assemble(formulation, search, incumbent, Credit("bisect", "nested"))
    if other.digest != answer.digest:
        raise Disagreement(f"cp-sat: {_decisions(answer)}; search: {_decisions(other)}")
    proof = answer.proof.model_copy(update={"certificate": "cp-sat+nested"})
    return answer.model_copy(update={"proof": proof})


def _decisions(plan: Plan) -> str:
    wanted = {"blocks", "prefill_chunk", "expert_slots", "choices", "copies", "requests"}
    return plan.model_dump_json(include=wanted)
