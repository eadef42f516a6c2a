"""TensorRT-LLM KVCacheManagerV2 configurations (tests/cases/trtllm_floors.json) as problems.

Layers with one retention rule are a life cycle (a cache); its buffers of equal bytes form one
coalesced buffer; life cycles with the same slot sizes share a pool group (a pool).
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

from kvplan.models import Problem
from kvplan.models.reading.loader import load_data

Layer = dict[str, Any]
FLOORS = Path(__file__).parents[1] / "cases" / "trtllm_floors.json"
CONFIGS: dict[str, dict[str, Any]] = {case["name"]: case for case in load_data(FLOORS)["cases"]}


def problem_of(config: dict[str, Any], *, quota: int | str, fitted: bool = False) -> Problem:
    """Write a configuration as a problem.

    Parameters
    ----------
    config : an entry of `CONFIGS`.
    quota : bytes of the one rank; granules follow from it as in the engine.
    fitted : whether the marked request may shrink; else every request is held (FIXED).
    """
    cycles = life_cycles(config)
    groups = pool_groups(cycles)
    return Problem.model_validate(
        {
            "name": config["name"],
            "ranks": [{"name": "gpu", "quota": quota}],
            "tokens_per_block": config["tokens_per_block"],
            "resume_utilization": config.get("resume_utilization", "0.97"),
            "pools": [_pool(config, sizes, members) for sizes, members in groups.items()],
            "caches": [
                _cache(config, layers, _pool_name(sizes))
                for sizes, members in groups.items()
                for layers in members
            ],
            "batches": _batches(config, fitted),
            "fill": "none",
        }
    )


def life_cycles(config: dict[str, Any]) -> list[list[Layer]]:
    """Layers by retention rule, in the order of first use; all state layers are one."""
    cycles: dict[tuple[Any, ...], list[Layer]] = {}
    for layer in config["layers"]:
        key = (layer.get("state"), layer.get("window"), _sink_blocks(config, layer))
        cycles.setdefault(key, []).append(layer)
    return list(cycles.values())


def pool_groups(cycles: list[list[Layer]]) -> dict[tuple[int, ...], list[list[Layer]]]:
    """Life cycles by the slot sizes that they have in common, in the order of first use."""
    groups: dict[tuple[int, ...], list[list[Layer]]] = {}
    for layers in cycles:
        sizes = [size * count for size, count in _coalesced(layers).items()]
        groups.setdefault(tuple(sorted(sizes, reverse=True)), []).append(layers)
    return groups


def scratch_fraction(layers: list[Layer]) -> Fraction:
    """Share of a slot that one layer uses: its share of the buffers of a pool, at the most."""
    coalesced = _coalesced(layers)
    return max(
        Fraction(layer["buffers"].count(size), coalesced[size])
        for layer in layers
        for size in layer["buffers"]
    )


def _coalesced(layers: list[Layer]) -> dict[int, int]:
    """Count of the buffers of a slot by their bytes."""
    counts: dict[int, int] = {}
    for layer in layers:
        for size in layer["buffers"]:
            counts[size] = counts.get(size, 0) + layer.get("count", 1)
    return counts


def _sink_blocks(config: dict[str, Any], layer: Layer) -> int:
    sink, block_tokens = int(layer.get("sink", 0)), int(config["tokens_per_block"])
    return -(-sink // block_tokens)


def _pool_name(sizes: tuple[int, ...]) -> str:
    return "+".join(map(str, sizes))


def _pool(config: dict[str, Any], sizes: tuple[int, ...], members: list[list[Layer]]) -> Layer:
    """Build the pool of a group.

    Without a live window the engine's structural floor is one slot a life cycle.
    """
    layers = [layer for cycle in members for layer in cycle]
    pool: Layer = {
        "name": _pool_name(sizes),
        "buffers": [{"bytes": size, "granule": "auto"} for size in sizes],
    }
    if all("state" in layer for layer in layers) and not config.get("state_headroom"):
        pool["resume_headroom"] = False
    if not any("window" in layer for layer in config["layers"]):
        pool["min_blocks"] = len(members)
    limits = [layer["max_slots"] for layer in layers if "max_slots" in layer]
    return {**pool, "max_blocks": limits[0]} if limits else pool


def _cache(config: dict[str, Any], layers: list[Layer], pool: str) -> Layer:
    first = layers[0]
    if "state" in first:
        return {"name": "state", "pool": pool, "kind": "state"}
    if "window" not in first:
        return {"name": "full", "pool": pool, "kind": "full"}
    name = f"window {first['window']} sink {first.get('sink', 0)}"
    cache: Layer = {"name": name, "pool": pool, "kind": "window", "keep": "live"}
    cache |= {"window": first["window"], "sink": first.get("sink", 0)}
    if "max_rewind" in config:
        fraction = scratch_fraction(layers)
        cache["scratch"] = {"fraction": fraction, "max_rewind": config["max_rewind"]}
    return cache


def _batches(config: dict[str, Any], fitted: bool) -> list[Layer]:
    marked = tuple(config.get("fit", ())) if fitted else ()
    return [
        {
            "name": f"batch {b}",
            "shared_prefix": batch.get("shared_prefix", 0),
            "requests": [
                {
                    "name": f"request {b}.{r}",
                    "capacity": entry[0],
                    "history": entry[1],
                    "count": entry[2] if len(entry) == 3 else 1,
                    "fit": "capacity" if (b, r) == marked else "none",
                }
                for r, entry in enumerate(batch["requests"])
            ],
        }
        for b, batch in enumerate(config["batches"])
    ]
