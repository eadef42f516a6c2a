"""Plans in a manager with real tensors: what a plan promises fits, one token more does not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import Planner, plan

pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="no tensors without torch")
TESTS = Path(__file__).parents[1]

FULL = {"name": "full", "pool": "full", "kind": "full"}
WINDOW = {"name": "window", "pool": "window", "kind": "window", "window": 37}
STATE = {"name": "state", "pool": "state", "kind": "state", "blocks": 2}
CACHES = {
    "full": [FULL],
    "full and window": [FULL, WINDOW],
    "window and state": [WINDOW, FULL, STATE],
    "one pool": [FULL, {**WINDOW, "pool": "full"}],
}


def problem(caches: list[dict[str, Any]], **changes: Any) -> Problem:
    """Sixteen tokens a block; a long request that shrinks to fit beside three short ones."""
    pools = list(dict.fromkeys(cache["pool"] for cache in caches))
    sizes = {"full": 1024, "window": 1536, "state": 4000}
    return Problem.model_validate(
        {
            "ranks": [{"name": "cpu", "quota": 200_000}],
            "pools": [{"name": pool, "bytes": sizes[pool], "reserved_blocks": 1} for pool in pools],
            "caches": caches,
            "batches": [
                {
                    "name": "together",
                    "requests": [
                        {"name": "long", "capacity": 100_000, "fit": "capacity"},
                        {"name": "short", "capacity": 50, "count": 3},
                    ],
                }
            ],
            **changes,
        }
    )


@pytest.mark.parametrize("name", CACHES)
def test_the_capacity_fits_and_one_token_more_does_not(name: str) -> None:
    from support.reference_manager import Manager, OutOfBlocksError

    asked = problem(CACHES[name])
    answer = plan(asked)
    capacity = answer.requests[0].capacity
    manager = Manager(asked, answer)
    assert manager.bytes == answer.ranks[0].used <= 200_000
    for index in range(3):
        manager.admit(f"short {index}", 50)
    manager.admit("long", capacity)
    with pytest.raises(OutOfBlocksError):
        manager.grow("long", 1)
    manager.retire("long")
    with pytest.raises(OutOfBlocksError):
        manager.admit("long", capacity + 1)
    manager.admit("long", capacity)
    for request in tuple(manager.requests):
        manager.retire(request)
    assert all(pool.used == 0 for pool in manager.pools.values())


def test_requests_grow_retire_and_make_room_for_others() -> None:
    from support.reference_manager import Manager, OutOfBlocksError

    asked = problem(CACHES["full and window"])
    answer = plan(asked)
    manager, capacity = Manager(asked, answer), answer.requests[0].capacity
    manager.admit("a", capacity)
    with pytest.raises(OutOfBlocksError):
        manager.admit("b", capacity)
    manager.retire("a")
    manager.admit("b", 10)
    for _ in range(5):
        manager.grow("b", 20)
    assert manager.requests["b"].tokens == 110
    assert len(manager.requests["b"].held("full")) == 7
    assert len(manager.requests["b"].held("window")) == 3  # tokens 73 to 109


def test_a_resumed_request_finds_the_headroom_that_the_plan_left() -> None:
    """Every block of the floor is in use, and no pool beyond nine tenths."""
    from support.reference_manager import Manager, OutOfBlocksError

    asked = problem(CACHES["full"], resume_utilization="9/10")
    answer = plan(asked)
    capacity = answer.requests[0].capacity
    manager = Manager(asked, answer)
    for index in range(3):
        manager.resume(f"short {index}", 50)
    manager.resume("long", capacity)
    manager.retire("long")
    with pytest.raises(OutOfBlocksError):
        manager.resume("long", capacity + 1)


def test_sleep_shrinks_the_pools_around_what_lives_and_wake_restores_them() -> None:
    from support.reference_manager import Manager

    least = problem(CACHES["full and window"], ranks=[{"name": "cpu", "quota": 120_000}])
    fitted = plan(least).requests[0].capacity
    batch = {"name": "together", "requests": [{"capacity": fitted}, {"capacity": 50, "count": 3}]}
    asked = problem(CACHES["full and window"], batches=[batch])
    awake = plan(asked)
    manager = Manager(asked, awake)
    manager.admit("live", fitted)
    asleep = awake.resize(120_000)
    manager.resize(asleep)
    assert manager.bytes == asleep.ranks[0].used <= 120_000 < awake.ranks[0].used
    manager.grow("live", 0)
    woken = asleep.resize(200_000)
    manager.resize(woken)
    assert dict(woken.blocks) == dict(awake.blocks)
    manager.retire("live")  # every block still holds this request's mark
    assert all(pool.used == 0 for pool in manager.pools.values())
    with pytest.raises(Infeasible):
        awake.resize(sum(awake.floors.values()) * 1024 // 4)


def test_a_planner_sizes_for_every_quota_what_the_tensors_then_take() -> None:
    from support.reference_manager import Manager

    asked = problem(CACHES["window and state"])
    planner = Planner(asked)
    for quota in range(80_000, 200_000, 17_001):
        answer = planner.plan(quota=quota)
        assert Manager(asked, answer).bytes <= quota


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("ranks")
    asked = problem(CACHES["full and window"])
    (folder / "problem.json").write_text(asked.model_dump_json(exclude_unset=True))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable,
        str(TESTS / "support" / "reference_ranks.py"),
        str(port),
        str(folder),
    ]
    local = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **local, "PYTHONPATH": path}
    subprocess.run(command, env=environment, check=True, timeout=100, capture_output=True)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(8)]


def test_eight_processes_allocate_the_same_and_the_rank_with_least_decides(
    ranks: list[dict[str, Any]],
) -> None:
    assert len({told["digest"] for told in ranks}) == 1
    assert len({told["bytes"] for told in ranks}) == 1
    assert {told["tightest"] for told in ranks} == {"r7"}
    assert ranks[0]["bytes"] <= (1 << 20) - 7000


def test_the_death_of_one_is_told_to_all_and_their_pools_live_on(
    ranks: list[dict[str, Any]],
) -> None:
    rest = [told for rank, told in enumerate(ranks) if rank != 5]
    assert len({told["error"] for told in rest}) == 1
    assert "rank 5" in rest[0]["error"]
    assert all(told["free"] for told in rest)
