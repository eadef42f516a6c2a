"""NVIDIA/TensorRT-LLM PR #19400: requests that shrink to a quota, to the token."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.solver import oracle, plan
from support.cases import load
from support.solvers import agreed, refusal_of, refused
from support.trtllm import CONFIGS, problem_of

# quota bytes: capacity and slots that FIT_TO_QUOTA (block-aligned) publishes or that follow from it
PUBLISHED = {
    200_000_000: (10_688, {"full": 360, "swa": 33}),
    600_000_000: (34_400, {"full": 1124, "swa": 33}),
    1_000_000_000: (57_984, {"full": 1884, "swa": 33}),
    2_000_000_000: (65_536, {"full": 2127, "swa": 33}),
}
FIXED_BYTES = 1_126_170_624
GRANULE = 2 * 2**20
MARKED = {name: config for name, config in CONFIGS.items() if "fit" in config}


def marked_history(name: str) -> int:
    batch, index = MARKED[name]["fit"]
    return int(MARKED[name]["batches"][batch]["requests"][index][1])


SHRINKING = [name for name in MARKED if marked_history(name) > 0]


def slots_for(raw: int) -> int:
    """Slots of which `raw` are 97 % at the most, counted up from there."""
    return next(slots for slots in range(raw, 2 * raw + 2) if 97 * slots >= 100 * raw)


def bytes_needed(capacity: int) -> int:
    """Bytes of the worked example for a long request of so many tokens, the last one in flight.

    Blocks of the window are those of the tokens [capacity - 128, capacity); fifteen short requests
    hold one block each, the context batch 32 of each cache.
    """
    full = (capacity - 1) // 32 + 1 + 15
    window = (capacity - 1) // 32 - max(0, capacity - 128) // 32 + 1 + 15
    allocations = slots_for(max(full, 32)) * 524_288, slots_for(max(window, 32)) * 262_144
    return sum(-(-count // GRANULE) * GRANULE for count in allocations)


@pytest.mark.parametrize("quota", PUBLISHED)
def test_a_long_request_shrinks_to_the_largest_capacity_that_fits(quota: int) -> None:
    published, slots = PUBLISHED[quota]
    answer = plan(load("trtllm_fit_to_quota", f"ranks.gpu.quota={quota}"))
    long = answer.requests[0]
    assert answer.status == "optimal"
    assert long.capacity >= published
    assert long.capacity - long.history == 1
    assert bytes_needed(long.capacity) <= quota
    assert all(bytes_needed(tokens) > quota for tokens in range(long.capacity + 1, 65_537))
    assert long.capacity != published or answer.floors == slots
    assert all(rank.used <= quota for rank in answer.ranks)


def test_the_published_capacities_are_the_token_exact_ones() -> None:
    capacities = {
        quota: plan(load("trtllm_fit_to_quota", f"ranks.gpu.quota={quota}")).requests[0].capacity
        for quota in PUBLISHED
    }
    assert capacities == {quota: capacity for quota, (capacity, _) in PUBLISHED.items()}


def test_a_held_request_is_refused_by_the_bytes_by_which_the_engine_grows() -> None:
    held = "batches.decode.requests.long.fit=none"
    with pytest.raises(Infeasible) as refusal:
        plan(load("trtllm_fit_to_quota", held))
    assert bytes_needed(65_536) == FIXED_BYTES
    assert {short.bytes for short in refusal.value.shortfall} == {FIXED_BYTES - 10**9}
    enough = plan(load("trtllm_fit_to_quota", held, f"ranks.gpu.quota={FIXED_BYTES}"))
    assert enough.ranks[0].slack == 0


@pytest.mark.parametrize("name", [name for name in SHRINKING if MARKED[name]["fitted"]])
def test_a_marked_request_keeps_what_the_engine_leaves_it(name: str) -> None:
    """Block-aligned is token-exact in these: every larger capacity exceeds the quota."""
    config = MARKED[name]
    problem = problem_of(config, quota=config["quota"], fitted=True)
    answer = plan(problem)
    [marked] = [
        request for request in answer.requests if request.name in problem.fitted("capacity")
    ]
    assert answer.status == "optimal"
    assert marked.capacity == config["fitted"]
    assert [*answer.floors.values()] == config["fitted_slots"]
    assert list(oracle.check(problem, answer)) == []


def test_a_request_may_fit_where_its_lower_bound_does_not() -> None:
    """FIT_TO_QUOTA gives up here: in window 1, one token needs a block and 200 need none.

    A raw block takes two slots at 97 %, none takes the structural one; a slot is 2 MiB, as is the
    least allocation of the other two windows.
    """
    layers = [
        {"buffers": [GRANULE], "window": 1},
        {"buffers": [512], "window": 10},
        {"buffers": [4096], "window": 34},
    ]
    batches = [{"requests": [[203, 203]]}]
    config = {"name": "three windows", "tokens_per_block": 8, "layers": layers, "fit": [0, 0]}
    problem = problem_of({**config, "batches": batches}, quota=3 * GRANULE, fitted=True)
    answer = plan(problem)
    assert answer.requests[0].capacity == 200
    assert [*answer.floors.values()] == [1, 3, 6]


@pytest.mark.parametrize("name", [name for name in SHRINKING if not MARKED[name]["fitted"]])
def test_a_batch_that_the_engine_refuses_whatever_shrinks_is_refused(name: str) -> None:
    config = MARKED[name]
    with pytest.raises(Infeasible):
        plan(problem_of(config, quota=config["quota"], fitted=True))


@pytest.mark.parametrize("name", [name for name in MARKED if name not in SHRINKING])
def test_a_marked_request_that_is_all_in_flight_is_a_fixed_one(name: str) -> None:
    config, quota = MARKED[name], MARKED[name]["quota"]
    fixed = problem_of(config, quota=quota, fitted=False)
    if fixed.batches[config["fit"][0]].shared_prefix:
        with pytest.raises(InvalidProblem, match="history of at least shared_prefix"):
            problem_of(config, quota=quota, fitted=True)
        return
    marked = problem_of(config, quota=quota, fitted=True)
    refusal = refusal_of(fixed)
    if refusal is not None:
        assert refused(marked).shortfall == refusal.shortfall
    else:
        assert agreed(marked).blocks == plan(fixed).blocks
