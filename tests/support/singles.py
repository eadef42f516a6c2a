"""Single changes of a problem's plain data, tried one by one: what an explanation must not miss.

It knows the format of a problem and nothing of the explanation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kvplan.models import Problem
from support.draw import Data
from support.infeasible import works

HUGE = 2**52


def nearest_working(data: Data, path: str, values: Iterable[object]) -> object | None:
    """The first of some values with which the problem has a plan."""
    return next((value for value in values if works(data, f"{path}={value}")), None)


def wanted(data: Data) -> Iterator[tuple[str, object]]:
    """Every field that can mend the problem alone, with the nearest value that does.

    Where more of a change always helps more, the extreme is tried first to save time.
    """
    for path, values, is_monotone in _fields(data):
        if not values or (is_monotone and not works(data, f"{path}={values[-1]}")):
            continue
        found = nearest_working(data, path, values)
        if found is not None:
            yield path, found


def extremes(data: Data) -> Iterator[str]:
    """Fields that can mend the problem alone when they are turned as far as they go."""
    turned = [*_of_ranks(data)]
    for pool in data["pools"]:
        if "max_blocks" in pool:
            turned.append((f"pools.{pool['name']}.max_blocks", 2**40))
    for consumer in data.get("consumers", ()):
        if isinstance(consumer["bytes"], int):
            turned.append((f"consumers.{consumer['name']}.bytes", 0))
    yield from (path for path, value in turned if works(data, f"{path}={value}"))


def _of_ranks(data: Data) -> Iterator[tuple[str, object]]:
    for rank in data["ranks"]:
        path, memory = f"ranks.{rank['name']}", rank.get("memory", {})
        if "quota" in rank:
            yield f"{path}.quota", HUGE
            continue
        yield path, f"{{name: {rank['name']}, stage: {rank['stage']}, quota: {HUGE}}}"
        if "utilization" in memory:
            yield f"{path}.memory.utilization", 1
        if "free" in memory:
            yield f"{path}.memory.free", memory["total"]
        for field in ("prefill_headroom", "safety"):
            given = memory.get(field)
            inner = f"{path}.memory.{field}"
            if given:
                yield (f"{inner}.fraction" if isinstance(given, dict) else inner), 0


def _fields(data: Data) -> Iterator[tuple[str, list[object], bool]]:
    """Path, values from the nearest to the furthest, and whether the furthest is the best."""
    plain = not data["constraints"]
    for batch in data["batches"]:
        for request in batch["requests"]:
            path = f"batches.{batch['name']}.requests.{request['name']}"
            yield from _of_request(data, request, path)
    if "prefill" in data:
        least = Problem.model_validate(data).prefill.candidates[0]  # type: ignore[union-attr]
        field = "prefill.chunks[0]" if "chunks" in data["prefill"] else "prefill.min"
        yield field, list(range(least - 1, 0, -1)), plain
    if data.get("experts", {}).get("min_slots"):
        yield "experts.min_slots", list(range(data["experts"]["min_slots"] - 1, -1, -1)), True
    use = str(data["resume_utilization"])
    first = {"1/2": 51, "19/20": 96, "97/100": 98}.get(use, 101)
    yield "resume_utilization", [f"0.{k}" for k in range(first, 100)] + ["1"] * (first < 101), True
    for pool in data["pools"]:
        path = f"pools.{pool['name']}"
        yield f"{path}.min_blocks", list(range(pool.get("min_blocks", 0) - 1, -1, -1)), True


def _of_request(data: Data, request: Data, path: str) -> Iterator[tuple[str, list[object], bool]]:
    fit, count = request.get("fit", "none"), request.get("count", 1)
    if fit == "count":
        yield f"{path}.min_count", list(range(request.get("min_count", 1) - 1, 0, -1)), True
    elif count:
        least = 0 if fit == "none" else 1
        yield f"{path}.count", list(range(count - 1, least - 1, -1)), False
    if fit == "capacity":
        least = request.get("min_capacity", 1)
        yield f"{path}.min_capacity", list(range(least - 1, 0, -1)), True
    elif request["capacity"] and count:
        least = max(1, request.get("history", 1))
        yield f"{path}.capacity", list(range(request["capacity"] - 1, least - 1, -1)), False
