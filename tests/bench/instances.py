"""Problems of the benchmark: the shipped cases, and some that need CP-SAT or are large."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan

CASES = Path(__file__).parent.parent / "cases"
WINDOWS = (None, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
GRANULE = 2 * 2**20
FRACTIONS = ("0.3", "0.45", "0.6", "0.8", "1")


def shipped() -> dict[str, Problem]:
    """Every shipped case."""
    return {path.stem: Problem.load(path) for path in sorted(CASES.glob("*.yaml"))}


def at_fractions() -> dict[str, Problem]:
    """The shipped cases at several fractions of their quota, where they fit."""
    found = {}
    for name, problem in shipped().items():
        for text in FRACTIONS:
            scaled = at_share(problem, Fraction(text))
            try:
                plan(scaled)
            except Infeasible:
                continue
            found[f"{name}@{text}"] = scaled
    return found


def at_share(problem: Problem, share: Fraction) -> Problem:
    """The problem with a share of every rank's quota, rounded down."""
    ranks = [
        {"name": rank.name, "stage": rank.stage, "quota": int(rank.quota_bytes * share)}
        for rank in problem.ranks
    ]
    data = problem.model_dump(mode="json", exclude_unset=True) | {"ranks": ranks}
    return Problem.model_validate(data)


def slot_bytes(index: int) -> tuple[int, int]:
    """Bytes of the two buffers of a life cycle's slot."""
    return 65536 * (index + 1), 4096 * (index + 1)


def nine_caches(requests: int, quota: str) -> Problem:
    """Nine life cycles of TensorRT-LLM V2, all requests distinct, one of them fitted."""
    pools, caches = [], []
    for index, window in enumerate(WINDOWS):
        name = "full" if window is None else f"swa{window}"
        buffers = [{"bytes": size, "granule": GRANULE} for size in slot_bytes(index)]
        pools.append({"name": name, "buffers": buffers})
        cache: dict[str, Any] = {"name": name, "pool": name, "kind": "full"}
        if window is not None:
            cache |= {"kind": "window", "window": window, "keep": "live"}
        caches.append(cache)
    rows: list[dict[str, Any]] = [{"name": "long", "capacity": 2**20, "fit": "capacity"}]
    rows += [
        {"name": f"peer{k}", "capacity": 8 + 3 * k, "history": 3 * k} for k in range(1, requests)
    ]
    return Problem.model_validate(
        {
            "ranks": [{"name": "r0", "quota": quota}],
            "tokens_per_block": 32,
            "resume_utilization": "0.97",
            "pools": pools,
            "caches": caches,
            "batches": [
                {"name": "all", "requests": rows},
                {"name": "one", "requests": [{"name": "one", "capacity": 1024}]},
            ],
        }
    )


def constrained() -> dict[str, Problem]:
    """Ordered goals with linear constraints: ties of pools, a cap on a chunk."""
    found = {}
    base = nine_caches(1, "1500MiB").model_dump(mode="json", exclude_unset=True)
    ties = [
        [{"terms": {"blocks:full": 4, "blocks:swa16384": -5}, "min": 0, "max": 4}],
        [{"terms": {"blocks:swa128": 1, "blocks:swa256": -1}, "min": 0}],
        [
            {"terms": {"blocks:full": 1, "blocks:swa8192": -20}, "max": 0},
            {"terms": {"blocks:swa512": 3, "blocks:swa1024": -2}, "min": -1, "max": 1},
            {"terms": {"capacity:long": 1, "blocks:swa128": -1000}, "max": 0},
        ],
    ]
    for number, constraints in enumerate(ties):
        found[f"nine caches, ties {number}"] = Problem.model_validate(
            base | {"constraints": constraints}
        )
    either = [{"terms": {"blocks:swa128": 1, "blocks:swa256": 1}, "min": 5000}]
    found["nine caches, a floor for two"] = Problem.model_validate(base | {"constraints": either})
    strata = Problem.load(CASES / "strata_765.yaml").model_dump(mode="json", exclude_unset=True)
    slots = [{"terms": {"experts": 8, "prefill": -1}, "min": 0}]
    found["strata, slots by chunk"] = Problem.model_validate(strata | {"constraints": slots})
    return found


def _case(name: str, **sections: Any) -> Problem:
    """A shipped case with further sections."""
    data = Problem.load(CASES / f"{name}.yaml").model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate(data | sections)


def shipped_constrained() -> dict[str, Problem]:
    """Shipped cases under constraints that two variables could mend: CP-SAT is needed."""
    either = {"blocks:full": 1, "blocks:swa": 1}
    slots = {"experts": 8, "prefill": 1}
    both = {"count:sequence": 1, "blocks:state": 1}
    return {
        "trtllm, a floor for two pools": _case(
            "trtllm_fit_to_quota", constraints=[{"terms": either, "min": 2500}]
        ),
        "strata, a floor for slots and chunk": _case(
            "strata_765", constraints=[{"terms": slots, "min": 30000}]
        ),
        "strata plan, the same": _case("strata_plan", constraints=[{"terms": slots, "min": 30000}]),
        "kimi, a floor for count and slots": _case(
            "kimi_k3_trade", constraints=[{"terms": both, "min": 780}]
        ),
    }


def shipped_weighted() -> dict[str, Problem]:
    """Shipped cases with weighted goals over two wide variables or more."""
    curve = {"prefill": [[4096, 1778], [24576, 2159]]}
    return {
        "strata, chunk by speed and slots": _case(
            "strata_765", goals=[{"maximize": {"prefill": 1, "experts": 3}, "curves": curve}]
        ),
        "trtllm, capacity and window blocks": _case(
            "trtllm_fit_to_quota",
            goals=[{"maximize": {"capacity:long": 1, "blocks:swa": 40}}],
        ),
    }


def weighted() -> dict[str, Problem]:
    """Weighted goals over several wide variables, with and without curves."""
    strata = Problem.load(CASES / "strata_765.yaml").model_dump(mode="json", exclude_unset=True)
    curve = {"prefill": [[4096, 1778], [24576, 2159]]}
    two = [{"maximize": {"prefill": 1, "experts": 3}, "curves": curve}]
    three = Problem.model_validate(
        {
            "ranks": [{"name": "gpu", "quota": "14GiB"}],
            "pools": [{"name": "kv", "bytes": 221184, "granule": "2MiB"}],
            "caches": [{"name": "kv", "kind": "full"}],
            "batches": [
                {"name": "b", "requests": [{"name": "r", "capacity": 2**20, "fit": "capacity"}]}
            ],
            "prefill": {
                "requested": 24576,
                "min": 256,
                "step": 256,
                "staging": [{"name": "s", "per_token": 98304}],
            },
            "experts": {"slot_bytes": 2333081, "max_slots": 24576},
            "goals": [{"maximize": {"capacity:r": 1, "prefill": 30, "experts": 70}}],
        }
    )
    nine = nine_caches(1, "1500MiB").model_dump(mode="json", exclude_unset=True)
    knapsack = {"blocks:full": 700, "blocks:swa128": 1401, "blocks:swa256": 2003}
    return {
        "strata, chunk and slots": Problem.model_validate(strata | {"goals": two}),
        "capacity, chunk and slots": three,
        "three pools by weight": Problem.model_validate(nine | {"goals": [{"maximize": knapsack}]}),
    }
