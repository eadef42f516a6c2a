"""ATOM's pools (plan_pools in atom/model_engine), one manager a rank: agree with plan_together.

Not run: ATOM needs an AMD device. The rules are restated from its source, and tested on figures
that its logs and pull requests record.

    problem = question(specs, available, max_num_seqs=512, block_tokens=16)
    answer = plan(problem)                   # or plan_together(LocalView.of(problem, rank), comm)
    sizes = apply(answer, specs)             # num_kvcache_blocks, pool_entries
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem

PAGE, STATE = "PAGE", "STATE"
SLOTS = "slots"


class Sizes(TypedDict):
    """What ATOM's workers allocate."""

    num_kvcache_blocks: int
    pool_entries: dict[str, int]


def question(
    specs: Iterable[Any],
    available_bytes: Mapping[str, int],
    *,
    max_num_seqs: int,
    block_tokens: int,
) -> Problem:
    """The problem whose plan is what plan_pools allocates: states first, then whole blocks.

    Parameters
    ----------
    specs : pool (PAGE or STATE), name, entry_bytes; of a state entries_per_req, extra_entries and
        staging_entries, too. Specs of one name are one space of indices: their bytes add up.
    available_bytes : by rank name (available_for_kv).

    Raises
    ------
    InvalidProblem : a class of pools that kvplan does not know, several pages, or none.
    """
    pools = _merged(specs)
    pages = [pool for pool in pools if pool["class"] == PAGE]
    if len(pages) != 1:
        raise InvalidProblem.at("specs", "one PAGE pool", f"{len(pages)}")
    return Problem.model_validate(
        {
            "name": "ATOM",
            "ranks": [{"name": name, "quota": each} for name, each in available_bytes.items()],
            "tokens_per_block": block_tokens,
            "pools": [_pool(pool) for pool in pools],
            "caches": [_cache(pool) for pool in pools],
            "batches": [
                {"name": SLOTS, "requests": [{"name": SLOTS, "capacity": 0, "count": max_num_seqs}]}
            ],
            "fill": {"pools": [pages[0]["name"]]},
            "labels": {f"batches.{SLOTS}.requests.{SLOTS}.count": "--max-num-seqs"},
        }
    )


def _merged(specs: Iterable[Any]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for index, spec in enumerate(specs):
        kind = getattr(spec.pool, "name", spec.pool)
        if kind not in (PAGE, STATE):
            raise InvalidProblem.at(f"specs[{index}].pool", f"{PAGE} or {STATE}", str(kind))
        held = 1 if kind == PAGE else int(spec.entries_per_req)
        spare = 0 if kind == PAGE else int(spec.extra_entries) + int(spec.staging_entries)
        rule = {"class": kind, "name": str(spec.name), "held": held, "spare": spare}
        known = found.setdefault(str(spec.name), {**rule, "bytes": 0})
        if {key: known[key] for key in rule} != rule:
            got = f"{held} a request and {spare} more"
            expected = f"{known['held']} entries a request and {known['spare']} more"
            raise InvalidProblem.at(f"specs[{index}]", expected, got)
        known["bytes"] += int(spec.entry_bytes)
    return list(found.values())


def _pool(pool: Mapping[str, Any]) -> dict[str, Any]:
    bounds = {"min_blocks": 1} if pool["class"] == PAGE else {"reserved_blocks": pool["spare"]}
    return {"name": pool["name"], "bytes": pool["bytes"], **bounds}


def _cache(pool: Mapping[str, Any]) -> dict[str, Any]:
    name = pool["name"]
    if pool["class"] == PAGE:
        return {"name": name, "pool": name, "kind": "full"}
    return {"name": name, "pool": name, "kind": "state", "blocks": pool["held"]}


def apply(answer: Plan, specs: Sequence[Any]) -> Sizes:
    """A plan as get_num_blocks() answers and allocate_kv_cache() takes it."""
    pools = _merged(specs)
    (page,) = [pool["name"] for pool in pools if pool["class"] == PAGE]
    states = [pool["name"] for pool in pools if pool["class"] == STATE]
    return {
        "num_kvcache_blocks": answer.blocks[page],
        "pool_entries": {name: answer.blocks[name] for name in states},
    }
