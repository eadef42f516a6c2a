"""The random instances: valid, small, two in three feasible, and of all kinds."""

from collections import Counter

from hypothesis import HealthCheck, given, settings

from kvplan.models import Problem
from kvplan.solver.oracle import best
from support.draw import Data
from support.instances import problems, random_problem, small_problem


def test_equal_seeds_give_equal_problems() -> None:
    assert random_problem(7) == random_problem(7) != random_problem(8)


def test_switches_force_a_feature() -> None:
    for seed in range(40):
        data = random_problem(seed, prefill=True, constraints=False, experts=False, memory=True)
        assert "prefill" in data
        assert not data["constraints"]
        assert "experts" not in data
        assert all("memory" in rank for rank in data["ranks"])


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(problems())
def test_every_instance_is_valid(data: Data) -> None:
    problem = Problem.model_validate(data)
    assert 1 <= len(problem.pools) <= 3
    assert all(request.capacity <= 120 for b in problem.batches for request in b.requests)


def features(problem: Problem) -> set[str]:
    """What a problem exercises."""
    found = {f"kind {cache.retention}" for cache in problem.caches}
    found |= {f"utilization {problem.resume_utilization}"}
    for cache in problem.caches:
        found |= {name for name in ("shards", "sink", "scratch") if getattr(cache, name)}
        found |= {"groups"} if cache.groups > 1 else set()
        found |= {"extra"} if cache.extra_blocks else set()
        found |= {f"flight of the {cache.in_flight_per}"} if cache.in_flight_per else set()
        found |= {"flight of the prefill"} if cache.in_flight == "prefill" else set()
    for batch in problem.batches:
        found |= {"prefix"} if batch.shared_prefix else set()
        for request in batch.requests:
            found |= {"placeholder"} if request.capacity == 0 else set()
            found |= {f"fit {request.fit}"} if request.fit != "none" else set()
            found |= {"open count"} if request.fit == "count" and request.count is None else set()
    for pool in problem.pools:
        for name in ("reserved_blocks", "min_blocks", "max_blocks"):
            found |= {name} if getattr(pool, name) else set()
        found |= {"multiple_of"} if pool.multiple_of > 1 else set()
        found |= {"no headroom"} if not pool.resume_headroom else set()
        found |= {"buffers"} if pool.buffers else set()
        found |= {"auto"} if any(buffer.granule == "auto" for buffer in pool.layout) else set()
    fitted = {**problem.fitted("capacity"), **problem.fitted("count")}
    if len(fitted) == 2:
        found |= {f"fits in {len({batch.name for batch, _ in fitted.values()})} batches"}
    return found | _elastic(problem)


def _elastic(problem: Problem) -> set[str]:
    found = {"ranks"} if len(problem.ranks) > 1 else set()
    found |= {"stages"} if len(problem.stages) > 1 else set()
    found |= {"from_staging" for rank in problem.ranks if _headroom(rank) == "from_staging"}
    for entry in problem.prefill.staging if problem.prefill else ():
        found |= {"table"} if entry.table else {"line"}
        found |= {name for name in ("stage", "group") if getattr(entry, name) is not None}
    found |= {"chunks"} if problem.prefill and problem.prefill.chunks else set()
    if problem.experts is not None:
        found |= {"lend"} if problem.experts.lend else set()
        found |= {"sized"} if isinstance(problem.experts.slot_bytes, tuple) else set()
    found |= {"choices"} if problem.choices else set()
    found |= {"consumers"} if problem.consumers else set()
    found |= {"constraints"} if problem.constraints else set()
    found |= {"curves" for goal in problem.goals if goal.curves}
    found |= {"weighted" for goal in problem.goals if goal.single is None}
    fill = problem.fill
    forms = ("batch", "pools", "shares", "none")
    return found | ({form for form in forms if getattr(fill, form)} if fill else {"no fill"})


def _headroom(rank: object) -> object:
    return getattr(getattr(rank, "memory", None), "prefill_headroom", None)


EXPECTED = """
kind full,kind peak,kind live,kind in_flight,kind chunked,kind state,utilization 1/2,
utilization 19/20,utilization 97/100,utilization 1,shards,sink,scratch,groups,extra,
flight of the batch,flight of the prefill,prefix,placeholder,fit capacity,fit count,open count,
reserved_blocks,min_blocks,max_blocks,multiple_of,no headroom,buffers,auto,fits in 1 batches,
fits in 2 batches,ranks,stages,from_staging,table,line,stage,group,chunks,lend,sized,choices,
consumers,constraints,curves,weighted,batch,pools,shares,none,no fill
"""


def test_all_kinds_appear_and_two_in_three_are_feasible() -> None:
    seen: Counter[str] = Counter()
    feasible = 0
    for seed in range(300):
        problem = small_problem(seed)
        if best(problem) is not None:
            feasible += 1
            seen.update(features(problem))
    assert 0.6 <= feasible / 300 <= 0.8
    expected = {name.strip() for name in EXPECTED.replace("\n", "").split(",")}
    assert {name for name in expected if seen[name] < 5} == set()
