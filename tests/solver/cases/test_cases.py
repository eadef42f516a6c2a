"""Every shipped case: it names its source, and its plan is proven and withstands the oracle."""

from __future__ import annotations

import re

import pytest

from kvplan.solver import oracle, plan
from support.cases import CASES, load

SOURCE = re.compile(r"# Source: [\w.-]+/[\w.-]+\b")


@pytest.mark.parametrize("name", CASES)
def test_a_case_names_its_public_source_in_its_first_line(name: str) -> None:
    assert SOURCE.match(CASES[name].read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_a_case_is_planned_with_a_proof_and_the_oracle_finds_nothing(name: str) -> None:
    problem = load(name)
    answer = plan(problem)
    assert answer.status == "optimal"
    assert list(oracle.check(problem, answer)) == []
    assert all(rank.used <= rank.quota for rank in answer.ranks)


@pytest.mark.parametrize("name", CASES)
def test_all_engines_give_the_same_plan_of_a_case(name: str) -> None:
    problem = load(name)
    digests = {plan(problem, solver=solver).digest for solver in ("auto", "cp-sat", "bisect")}
    assert len(digests) == 1
