"""Valid problems as plain data that between them use every field of the format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

STAGED: dict[str, Any] = {
    "version": 1,
    "name": "two stages",
    "ranks": [
        {"name": "tp0", "stage": 0, "quota": "124.57GiB"},
        {
            "name": "tp1",
            "stage": 1,
            "memory": {
                "total": "287.98GiB",
                "free": "262.74GiB",
                "utilization": 0.9,
                "peak_torch": "10.67GiB",
                "non_torch": "15.54GiB",
                "graphs": "0.19GiB",
                "safety": {"fraction": 0.02},
                "connector": 0,
                "prefill_headroom": "from_staging",
                "other": {"nccl": "1GiB"},
                "estimated": ["non_torch"],
                "ranges": {"non_torch": "1 to 3 GiB"},
            },
        },
    ],
    "tokens_per_block": 16,
    "resume_utilization": 0.97,
    "pools": [
        {
            "name": "paged",
            "buffers": [
                {"name": "keys", "bytes": {0: 4096, 1: 8192}, "granule": "2MiB"},
                {"name": "scales", "bytes": 64, "granule": "auto"},
            ],
            "reserved_blocks": 1,
            "min_blocks": 2,
            "max_blocks": 100000,
            "multiple_of": 2,
        },
        {"name": "state", "bytes": "1MiB", "granule": 1, "resume_headroom": False},
    ],
    "caches": [
        {"name": "full", "pool": "paged", "kind": "full", "shards": 2, "tokens_per_block": 32},
        {
            "name": "swa",
            "pool": "paged",
            "kind": "window",
            "window": 128,
            "sink": 4,
            "keep": "live",
            "scratch": {"fraction": "1/4", "max_rewind": 3},
        },
        {"name": "ssm", "pool": "state", "kind": "state", "blocks": 2, "groups": 3},
    ],
    "batches": [
        {
            "name": "chat",
            "shared_prefix": 512,
            "requests": [
                {"name": "long", "capacity": 65536, "history": 65535, "count": 2},
                {"name": "fitted", "capacity": 8192, "fit": "capacity", "min_capacity": 1024},
            ],
        },
        {
            "name": "many",
            "requests": [{"name": "slots", "capacity": 4096, "fit": "count", "min_count": 3}],
        },
    ],
    "prefill": {
        "requested": 8192,
        "min": 256,
        "step": 256,
        "batches_in_flight": 2,
        "staging": [
            {"name": "act", "base": "1MiB", "per_token": "64KiB", "granule": "2MiB", "stage": 0},
            {"name": "moe", "table": [[4096, "1GiB"], [8192, "2GiB"]], "group": "peak"},
            {
                "name": "scores",
                "per_token_context": "64/3",
                "context_table": [[4096, "1MiB"], [8192, "3MiB"]],
                "request": "fitted",
            },
        ],
    },
    "experts": {
        "slot_bytes": [[8, "2MiB"], [120, "1MiB"]],
        "layers": {0: 2, 1: 1},
        "min_slots": 4,
        "max_slots": 64,
        "granule": "2MiB",
        "lend": {"keep": 2, "fraction": 0.9},
    },
    "consumers": [
        {"name": "arena", "bytes": {"tp0": "1GiB", 1: 0}, "phases": ["prefill", "capture"]},
        {"name": "weights", "bytes": "20GiB"},
        {"name": "graphs", "bytes": "1MiB", "per_request": {"tp0": "1MiB", "tp1": "2MiB"}},
        {"name": "allocator", "fraction": "1/8", "of": "arena", "phases": ["prefill"]},
    ],
    "choices": [
        {
            "name": "scratch",
            "options": [
                {"name": "dense", "bytes": "1352MiB", "phases": ["prefill"]},
                {"name": "tiled", "bytes": {0: "676MiB", 1: "600MiB"}},
            ],
        }
    ],
    "constraints": [
        {"terms": {"blocks:paged": 4, "blocks:state": -5, "choice:scratch=dense": 1}, "min": 0},
        {"terms": {"prefill": "1/2"}, "min": 1, "max": 4096},
    ],
    "goals": [
        "capacity:fitted",
        {
            "maximize": {"prefill": 1, "experts": 3},
            "curves": {"prefill": [[4096, 1778], [8192, 2159.5]]},
        },
        "choice:scratch",
    ],
    "fill": {"batch": "chat"},
    "relax": ["experts", "prefill"],
    "variants": [
        {"name": "small pages", "set": ["pools.paged.buffers.keys.granule=1"], "note": "aligned"}
    ],
    "labels": {"tokens_per_block": "--block-size"},
}

FLYING: dict[str, Any] = {
    "ranks": [{"name": "r0", "memory": {"free": "40GiB", "prefill_headroom": "1GiB"}}],
    "pools": [{"name": "only", "bytes": 540672}],
    "caches": [
        {"name": "peak", "kind": "window", "window": 1024, "sink": 0, "in_flight": 4},
        {
            "name": "admitted",
            "kind": "window",
            "window": 1024,
            "keep": "in_flight",
            "in_flight": "prefill",
            "in_flight_per": "batch",
            "extra_blocks": 1,
        },
        {"name": "local", "kind": "chunked", "chunk": 8192, "in_flight_per": "request"},
    ],
    "batches": [{"name": "b", "requests": [{"capacity": 0, "count": 512}, {"capacity": 100}]}],
    "prefill": {"requested": 4096, "chunks": [1024, 2048]},
    "experts": {"slot_bytes": 1000},
    "fill": {"shares": {"only": "9/19"}},
}

MIX = [{"capacity": 4096, "history": 4000, "share": 0.5}, {"capacity": 65536, "share": "1/2"}]
UNIFIED = {"name": "unified", "bytes": {"tp0": 64, "1": 32}, "granule": "pow2", "max_bytes": "1GiB"}
MIXED: dict[str, Any] = {
    **STAGED,
    "pools": [*STAGED["pools"], UNIFIED],
    "fill": {"mix": MIX},
}

PLACED: dict[str, Any] = {
    "ranks": [
        {"name": "gpu0", "quota": "24GiB"},
        {"name": "gpu1", "quota": "12GiB"},
        {"name": "host", "quota": "120GiB"},
    ],
    "pools": [{"name": "kv", "bytes": "64KiB"}],
    "caches": [{"name": "full", "kind": "full"}],
    "batches": [{"name": "b", "requests": [{"name": "r", "capacity": 8192, "fit": "capacity"}]}],
    "place": {
        "engine": "llama.cpp",
        "order": ["host", "gpu0", "gpu1"],
        "host": "host",
        "layers": [
            {"count": 2, "dense": "251.18MiB", "state": "1MiB", "cache": "full"},
            {
                "count": 8,
                "dense": "131.37MiB",
                "experts": ["765MiB", "618.75MiB", "618.75MiB"],
                "tensors": ["down", "gate", "up"],
                "active": "8/288",
                "cache": {"full": "32KiB"},
            },
            {"dense": "1MiB", "experts": ["1MiB", "2MiB"], "frequency": [0.5, "1/8"]},
        ],
        "ends": {
            "first": {"bytes": "535MiB", "spaces": ["host"]},
            "last": {"bytes": "535MiB"},
            "draft": {"bytes": "1MiB", "with": "last", "cache": "full"},
        },
        "experts": "next",
        "unit": "tensor",
        "mirror": False,
        "used": {"gpu0": {"base": "1920MiB", "per_token": 1024}, "pipelined": {"per_token": 4096}},
        "read": {"gpu0": "936GB/s", "gpu1": "360GB/s", "host": "60GB/s", "hop": "20us"},
    },
    "goals": ["capacity:r", "speed"],
    "fill": "none",
}

RICH = {"staged": STAGED, "flying": FLYING, "mixed": MIXED, "placed": PLACED}
Path = tuple[int | str, ...]


def paths_of(data: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in plain data, containers included."""
    yield at
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths_of(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data):
            yield from paths_of(value, (*at, index))


def replaced(data: Any, at: Path, value: Any) -> Any:
    """A copy of plain data with one place replaced."""
    if not at:
        return value
    head, *tail = at
    if isinstance(data, dict):
        return {k: replaced(v, tuple(tail), value) if k == head else v for k, v in data.items()}
    return [replaced(v, tuple(tail), value) if k == head else v for k, v in enumerate(data)]
