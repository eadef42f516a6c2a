"""What is known of a problem answers for another one only where they differ in quotas alone."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.kernels.direct import Direct
from kvplan.models import CheckFailed, Infeasible, InvalidProblem, Problem
from kvplan.models.ranks import RankMemory
from kvplan.solver import plan
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.known import forget, shape_of
from kvplan.solver.shape import Shape, quotas_of
from support.cases import load
from support.explored import RICH
from support.instances import random_problem
from support.micro import micro, one
from support.straight import straight_problem

Data = Any


def outcome(problem: Problem, solver: Any = "auto") -> Any:
    """A plan as data, or what its refusal says."""
    try:
        return plan(problem, solver=solver).model_dump(mode="json")
    except Infeasible as refusal:
        return str(refusal), refusal.shortfall


def requoted(data: Data, rng: random.Random) -> Data:
    """The same problem with other declared quotas."""
    ranks = [
        {**rank, "quota": rank["quota"] * rng.randint(30, 400) // 100} if "quota" in rank else rank
        for rank in data["ranks"]
    ]
    return {**data, "ranks": ranks}


def straight_data(seed: int) -> Data:
    return straight_problem(seed).model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize("kind", [random_problem, straight_data])
@pytest.mark.parametrize("part", range(2))
def test_other_quotas_give_the_plans_of_problems_read_anew(kind: Any, part: int) -> None:
    fitting = 0
    for seed in range(60 * part, 60 * part + 60):
        rng = random.Random(seed)
        try:
            data = kind(seed)
            shape = shape_of(Problem.model_validate(data))
        except InvalidProblem:
            continue
        for _ in range(3):
            other = Problem.model_validate(requoted(data, rng))
            assert shape_of(other) is shape or shape.has_auto  # whose granules may differ now
            mine = outcome(other)
            forget()
            assert mine == outcome(other), seed
            forget()
            shape = shape_of(Problem.model_validate(data))
            fitting += isinstance(mine, dict)
    assert fitting > 40


@pytest.mark.parametrize("solver", ["cp-sat", "bisect"])
def test_every_solver_starts_from_the_shape(solver: Any) -> None:
    for seed in range(12):
        data = random_problem(seed, constraints=False, weighted=False)
        plan_or_not = outcome(Problem.model_validate(data))
        other = Problem.model_validate(requoted(data, random.Random(seed)))
        mine = outcome(other, solver)
        forget()
        assert mine == outcome(other, solver), (seed, plan_or_not)


def leaves(data: Data) -> Iterator[tuple[Any, Any]]:
    """Every list or mapping with a key of it that holds a plain value."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        if isinstance(value, dict | list):
            yield from leaves(value)
        else:
            yield data, key


def others(value: Any) -> list[Any]:
    """Values that may stand in a field instead of one."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1]
    if isinstance(value, str):
        return ["none", "capacity", "live", "full", "1/3", f"{value}1"]
    return [3, "auto"]


@pytest.mark.parametrize(
    "drawn",
    [
        straight_data(1),
        random_problem(3, prefix=True, prefill=False, fit=True),
        random_problem(6, prefill=True, staging=True, experts=True),
        random_problem(7, choices=True, consumers=True, goals=True, constraints=True),
    ],
)
def test_a_change_of_any_field_is_seen(drawn: Data) -> None:
    """Whatever is known, a problem is answered as if nothing was."""
    data = Problem.model_validate(drawn).model_dump(mode="json")
    before = outcome(Problem.model_validate(data))
    tried = seen = 0
    for place, key in [*leaves(data)]:
        kept = place[key]
        for value in others(kept):
            place[key] = value
            try:
                changed = Problem.model_validate(data)
                mine = outcome(changed)
                forget()
                theirs = outcome(changed)
            except InvalidProblem:
                continue
            finally:
                place[key] = kept
                forget()
                outcome(Problem.model_validate(data))
            tried += 1
            seen += mine != before
            assert mine == theirs, (key, value)
    assert tried > 60
    assert seen > 10


@pytest.mark.parametrize("change", [{"fill": "none"}, {"shared_prefix": 12}])
def test_a_change_of_what_few_problems_write_is_seen(change: Data) -> None:
    def written(fill: Data = None, shared_prefix: int = 8) -> Problem:
        requests = [{"name": "q", "capacity": 400, "fit": "capacity"}, {"capacity": 40}]
        batch = {"name": "b", "shared_prefix": shared_prefix, "requests": requests}
        return micro(304, batches=[batch], fill=fill)

    before, mine = outcome(written()), outcome(written(**change))
    forget()
    assert mine == outcome(written(**change)) != before


def test_a_granule_that_follows_the_quota_is_another_shape() -> None:
    pools = [{"name": "p", "bytes": "256KiB", "granule": "auto"}]
    shape = shape_of(micro("1GiB", pools=pools, **one(8)))  # type: ignore[arg-type]
    assert shape_of(micro("1900MiB", pools=pools, **one(8))) is shape  # type: ignore[arg-type]
    assert shape_of(micro("2GiB", pools=pools, **one(8))) is not shape  # type: ignore[arg-type]


def test_ranks_with_readings_are_known_with_the_same_readings_alone() -> None:
    readings = {"total": 800, "free": 500, "utilization": "1/2"}
    ranks: Any = [{"name": "m", "memory": readings}, {"name": "r1", "quota": 700}]
    shape = shape_of(micro(ranks=ranks))
    other = micro(ranks=[ranks[0], {"name": "r1", "quota": 300}])
    assert shape_of(other) is shape
    mine = outcome(other)
    forget()
    assert mine == outcome(other)
    for changed in ({"free": 300}, {"safety": 10}):
        assert shape_of(
            micro(ranks=[{"name": "m", "memory": readings | changed}, ranks[1]])
        ) is not (shape)
    assert shape_of(micro(ranks=[{"name": "m", "quota": 400}, ranks[1]])) is not shape


def test_plans_of_one_shape_are_written_and_resized_apart() -> None:
    problems = [load("trtllm_fit_to_quota", f"ranks.*.quota={quota}") for quota in ("8GiB", "9GiB")]
    first, second = map(plan, problems)
    assert [found.ranks[0].quota for found in (first, second)] == [8 * 2**30, 9 * 2**30]
    assert first.resize("9GiB").requests == first.requests
    assert second.resize("8704MiB").ranks[0].quota == 8704 * 2**20


def test_a_wrong_answer_of_a_known_shape_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check looks at the quotas of the problem at hand."""
    request = one(400, fit="capacity")
    plan(micro(500, **request))
    real = Direct.answer
    monkeypatch.setattr(Direct, "answer", lambda self, rooms: real(self, [r + 50 for r in rooms]))
    with pytest.raises(CheckFailed, match="exceeds its quota"):
        plan(micro(60, **request))


def test_a_shape_is_of_its_own_problem_whatever_its_name() -> None:
    problem = micro(**one(33))
    assert Shape(problem).is_of(problem.model_copy(update={"name": "the same"}))


def shared(order: str) -> Problem:
    """Three pools of which the first has more than its share by its floor."""
    pools = [{"name": n, "bytes": 10, "min_blocks": 20 if n == "a" else 0} for n in "abc"]
    return micro(300, pools=pools, caches=[], fill={"shares": dict.fromkeys(order, "1/3")})


def weighted(order: str) -> Problem:
    pools = [{"name": name, "bytes": 10} for name in "abc"]
    weights = {f"blocks:{name}": 1 for name in order}
    return micro(300, pools=pools, caches=[], goals=[{"maximize": weights}])


@pytest.mark.parametrize("written", [shared, weighted])
def test_the_order_of_shares_and_weights_counts(written: Any) -> None:
    first, mine = outcome(written("abc")), outcome(written("acb"))
    forget()
    assert mine == outcome(written("acb")) != first


class Labelled(Problem):
    """A user's own problem."""

    label: str = ""


def test_a_problem_with_more_fields_is_planned() -> None:
    problem = micro(**one(33))
    before = outcome(problem)
    data = problem.model_dump(mode="json")
    assert outcome(problem.model_copy(update={"label": "mine"})) == before
    assert outcome(Labelled.model_validate(data)) == before


@pytest.mark.parametrize("odd", [1.0, Fraction(1)])
def test_what_was_never_validated_answers_for_no_other_problem(odd: Any) -> None:
    problem = micro(2**62, **one(33))
    pool = problem.pools[0].model_copy(update={"multiple_of": odd})
    plan(problem.model_copy(update={"pools": (pool,)}))
    mine = plan(problem)
    forget()
    assert repr(mine) == repr(plan(problem))


def test_a_rank_with_a_quota_and_readings_answers_for_no_other_problem() -> None:
    problem = micro(300, **one(33))
    memory = RankMemory.model_validate({"free": 400})
    both = problem.ranks[0].model_copy(update={"memory": memory, "quota": 500})
    plan(problem.model_copy(update={"ranks": (both,)}))
    mine = outcome(problem)
    forget()
    assert mine == outcome(problem)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.integers(0, 2**40), st.integers(0, 2**40), st.integers(0, 2**40))
def test_new_quotas_in_a_formulation_are_a_new_formulation(old: int, new: int, other: int) -> None:
    memory = {"total": 10**9, "utilization": 0.9, "free": 10**8}
    shared = {"name": "c", "stage": 1, "memory": {**memory, "prefill_headroom": "from_staging"}}

    def quoted(a: int, b: int) -> Problem:
        ranks = [{"name": "a", "quota": a}, {"name": "b", "quota": b}, shared]
        return Problem.model_validate({**RICH, "ranks": ranks})

    shape, changed = Shape(quoted(old, old)), quoted(new, other)
    assert shape.is_of(changed)
    moved, fresh = shape.at(quotas_of(changed), changed)[0], formulate(changed)
    assert moved._replace(check=fresh.check) == fresh
