"""Changes of a problem that must change its plan in a known way, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from typing import Any

from kvplan.models import Infeasible, Plan, Problem
from kvplan.solver import plan
from support.draw import Data

Rename = Callable[[str], str]


def solved(data: Data) -> Plan | None:
    """The proven plan of plain data, or None where nothing fits."""
    try:
        answer = plan(Problem.model_validate(data))
    except Infeasible:
        return None
    assert answer.status == "optimal"
    return answer


def goal_values(answer: Plan) -> list[Fraction]:
    """Values in the order of the goals."""
    return [goal.value for goal in answer.proof.bound]


def decisions(answer: Plan | None) -> tuple[Any, ...] | None:
    """Every decision in order, names left out."""
    if answer is None:
        return None
    return (
        [*answer.blocks.values()],
        [*answer.floors.values()],
        answer.prefill_chunk,
        answer.expert_slots,
        answer.expert_slots_in_prefill,
        answer.copies,
        sorted((r.capacity, r.history, r.count, r.reduced) for r in answer.requests),
        goal_values(answer),
    )


# --- figures ------------------------------------------------------------------------------------


def without_auto(data: Data) -> Data:
    """Granules that follow the quota replaced by one that does not."""
    data = deepcopy(data)
    for buffer in _buffers(data):
        if buffer.get("granule") == "auto":
            buffer["granule"] = 2**21
    return data


def _buffers(data: Data) -> list[Data]:
    return [buffer for pool in data["pools"] for buffer in pool.get("buffers", [pool])]


def scaled(data: Data, k: int) -> Data:
    """All bytes times k: quotas, blocks, granules, staging, slots, consumers, options."""
    data = deepcopy(data)
    for rank in data["ranks"]:
        rank["quota"] *= k
    for buffer in _buffers(data):
        buffer |= _times(buffer, k, "bytes", "granule")
    for entry in data.get("prefill", {}).get("staging", ()):
        entry |= _times(entry, k, "base", "per_token", "granule")
        entry |= {"granule": entry.get("granule", k)}
        if "table" in entry:
            entry["table"] = [[tokens, k * count] for tokens, count in entry["table"]]
    if "experts" in data:
        data["experts"] |= _times(data["experts"], k, "slot_bytes", "granule")
    for living in _living(data):
        living |= _times(living, k, "bytes")
    return data


def _times(entry: Data, k: int, *fields: str) -> Data:
    return {field: _product(entry[field], k) for field in fields if field in entry}


def _product(value: Any, k: int) -> Any:
    if isinstance(value, dict):
        return {key: k * figure for key, figure in value.items()}
    if isinstance(value, list):  # sized slots
        return [[slots, k * size] for slots, size in value]
    return str(k * Fraction(value)) if isinstance(value, str) else k * value


def _living(data: Data) -> list[Data]:
    options = [option for choice in data.get("choices", ()) for option in choice["options"]]
    return [*data.get("consumers", ()), *options]


# --- ranks --------------------------------------------------------------------------------------


def with_twin(data: Data, index: int) -> Data:
    """A further rank like an existing one, with the same consumers."""
    data = deepcopy(data)
    rank = data["ranks"][index]
    data["ranks"].append({**deepcopy(rank), "name": "twin"})
    for living in _living(data):
        if isinstance(living["bytes"], dict) and rank["name"] in living["bytes"]:
            living["bytes"]["twin"] = living["bytes"][rank["name"]]
    return data


def without_rank(data: Data, index: int) -> Data:
    """One rank fewer; another one of its stage must stay."""
    data = deepcopy(data)
    name = data["ranks"].pop(index)["name"]
    for living in _living(data):
        if isinstance(living["bytes"], dict):
            living["bytes"].pop(name, None)
            living["bytes"] = living["bytes"] or 0
    return data


# --- names --------------------------------------------------------------------------------------


def renamed(data: Data, new: Rename) -> Data:
    """Every name replaced, wherever it stands."""
    data = deepcopy(data)
    ranks = {rank["name"] for rank in data["ranks"]}
    for living in _living(data):
        if isinstance(living["bytes"], dict):
            figures = living["bytes"].items()
            living["bytes"] = {new(k) if k in ranks else k: v for k, v in figures}
    named = [*data["ranks"], *data["pools"], *data["caches"], *data["batches"], *_living(data)]
    named += [request for batch in data["batches"] for request in batch["requests"]]
    named += data.get("choices", [])
    named += data.get("prefill", {}).get("staging", [])
    named += [buffer for pool in data["pools"] for buffer in pool.get("buffers", ())]
    for entry in named:
        entry["name"] = new(entry["name"])
    for cache in data["caches"]:
        cache["pool"] = new(cache["pool"])
    data["goals"] = [_goal(goal, new) for goal in data["goals"]]
    for constraint in data["constraints"]:
        constraint["terms"] = _keys(constraint["terms"], new)
    data["fill"] = _fill(data.get("fill"), new)
    return data


def _variable(name: str, new: Rename) -> str:
    kind, _, rest = name.partition(":")
    if not rest:
        return name
    choice, equals, option = rest.partition("=")
    return f"{kind}:{new(choice)}{equals}{new(option) if equals else ''}"


def _keys(table: Data, new: Rename) -> Data:
    return {_variable(name, new): value for name, value in table.items()}


def _goal(goal: Any, new: Rename) -> Any:
    if isinstance(goal, str):
        return _variable(goal, new)
    return {field: _keys(table, new) for field, table in goal.items()}


def _fill(fill: Any, new: Rename) -> Any:
    if not isinstance(fill, dict):
        return fill
    if "batch" in fill:
        return {"batch": new(fill["batch"])}
    if "pools" in fill:
        return {"pools": [new(pool) for pool in fill["pools"]]}
    return {"shares": {new(pool): share for pool, share in fill["shares"].items()}}


# --- requests -----------------------------------------------------------------------------------


def with_found(data: Data, answer: Plan) -> Data:
    """What was fitted written in as given; goals of it fall away."""
    data = deepcopy(data)
    rows = iter(answer.requests)
    for batch in data["batches"]:
        batch["requests"] = [
            {"name": r.name, "capacity": r.capacity, "history": r.history, "count": r.count}
            for r in (next(rows) for _ in batch["requests"])
        ]
    data["goals"] = [g for g in data["goals"] if not g.startswith(("capacity:", "count:"))]
    return data
