"""A plan replayed by the oracle before it is returned."""

from __future__ import annotations

from kvplan.models import CheckFailed, Plan, Problem


def replayed(answer: Plan, problem: Problem) -> Plan:
    """The plan, whose proof says that the oracle replayed it block by block.

    Raises
    ------
    CheckFailed : the oracle objects; the message has every violation.
    """
    from kvplan.solver.oracle import check  # loaded where a replay is asked for

    violations = check(problem, answer)
    if violations:
        texts = "; ".join(map(str, violations))
        raise CheckFailed(f"the replay found a wrong plan, which was not returned: {texts}")
    proof = answer.proof.model_copy(update={"replayed": True})
    return answer.model_copy(update={"proof": proof})
