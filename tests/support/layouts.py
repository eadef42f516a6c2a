"""Random pools, caches, batches and elastic parts for small problems."""

from __future__ import annotations

from typing import Any

from support.draw import Data, Draw

UNITS = (1, 1, 1, 3, 100_003, 10_000_019)
PREFIX_KINDS = ("full", "live", "state")
KINDS = ("full", "full", "peak", "live", "live", "in_flight", "chunked", "state")


def granule(draw: Draw, unit: int) -> int | str:
    """1, odd, coarse, or (where bytes are large) auto."""
    if unit > 1000 and draw.chance(0.5):
        return "auto"
    odd, coarse = 2 * draw.integer(1, 9) * unit + 1, draw.integer(60, 200) * unit
    return draw.one((1, odd, coarse)) if draw.has("granules", 0.7) else 1


def by_stage(draw: Draw, stages: int, figure: int, *, zeros: bool = True) -> int | dict[str, int]:
    """One figure, or one a stage; a stage may have none of it."""
    if stages == 1 or draw.chance(0.3):
        return figure
    bare = draw.integer(0, 2 * stages - 1) if zeros else -1
    return {
        str(stage): 0 if stage == bare else max(1, figure * draw.integer(5, 12) // 10)
        for stage in range(stages)
    }


def pool(draw: Draw, name: str, stages: int, unit: int) -> Data:
    """A pool with one buffer or several."""
    data: Data = {"name": name}
    if draw.chance(0.25):
        data["buffers"] = [
            {
                "name": f"{name}{index}",
                "bytes": by_stage(draw, stages, draw.integer(8, 25) * unit),
                "granule": granule(draw, unit),
            }
            for index in range(2)
        ]
    else:
        data["bytes"] = by_stage(draw, stages, draw.integer(20, 60) * unit)
        data["granule"] = granule(draw, unit)
    for key, chance, value in (
        ("reserved_blocks", 0.25, draw.integer(1, 2)),
        ("min_blocks", 0.15, draw.integer(1, 6)),
        ("multiple_of", 0.15, draw.integer(2, 4)),
        ("max_blocks", 0.15, draw.integer(18, 40)),
        ("resume_headroom", 0.15, False),
    ):
        if draw.has(key, chance):
            data[key] = value
    return data


def cache(draw: Draw, index: int, pool_name: str, kind: str, *, prefill: bool) -> Data:
    """A cache of one kind, with the fields that go with it."""
    data: Data = {"name": f"cache{index}", "pool": pool_name}
    if draw.chance(0.3):
        data["tokens_per_block"] = draw.integer(2, 6)
    if draw.chance(0.2):
        data["groups"] = draw.integer(2, 3)
    if draw.chance(0.2):
        data["extra_blocks"] = 1
    if kind in ("peak", "live", "in_flight"):
        data |= {"kind": "window", "keep": kind, "window": draw.integer(1, 18)}
    else:
        data["kind"] = kind
    return data | _retention(draw, kind, prefill=prefill)


def _retention(draw: Draw, kind: str, *, prefill: bool) -> Data:
    data: Data = {}
    if kind == "full" and draw.has("shards", 0.15):
        data["shards"] = 2
    if kind in ("peak", "live") and draw.has("sinks", 0.4):
        data["sink"] = draw.integer(1, 9)
    if kind == "live" and draw.has("scratch", 0.35):
        fraction: Any = draw.one(("1/4", "1/2", 0, 1, "2/3"))
        data["scratch"] = {"fraction": fraction, "max_rewind": draw.integer(0, 5)}
    if kind == "state" and draw.chance(0.5):
        data["blocks"] = draw.integer(1, 3)
    if kind == "chunked":
        data["chunk"] = draw.integer(2, 16)
    if kind in ("peak", "in_flight", "chunked") and draw.has("flights", 0.6):
        data["in_flight"] = "prefill" if prefill and draw.chance(0.5) else draw.integer(1, 9)
    if kind in ("in_flight", "chunked") and draw.chance(0.4):
        data["in_flight_per"] = "batch"
    return data


def prefill(draw: Draw, stages: int, unit: int) -> Data:
    """Few chunks, and staging as a line or a table."""
    requested = draw.integer(6, 20)
    data: Data = {"requested": requested}
    if draw.chance(0.3):
        data["chunks"] = sorted(draw.random.sample(range(1, requested + 1), 3))
    else:
        data |= {"min": draw.integer(1, 5), "step": draw.integer(4, 6)}
    if draw.chance(0.3):
        data["batches_in_flight"] = 2
    if draw.has("staging", 0.85):
        number = draw.integer(1, 3)
        data["staging"] = [staging(draw, i, requested, stages, unit) for i in range(number)]
    return data


def staging(draw: Draw, index: int, requested: int, stages: int, unit: int) -> Data:
    """One entry of the staging."""
    data: Data = {"name": f"staging{index}"}
    if draw.chance(0.4):
        ends = sorted({draw.integer(1, requested), draw.integer(1, requested), requested})
        taken = sorted(draw.integer(0, 200) * unit for _ in ends)
        data["table"] = [[tokens, figure] for tokens, figure in zip(ends, taken, strict=True)]
    else:
        data["base"] = draw.integer(0, 60) * unit
        data["per_token"] = draw.one((f"{draw.integer(1, 25)}/2", draw.integer(1, 12)))
        if unit > 1:
            data["per_token"] = draw.integer(1, 12) * unit
    if draw.chance(0.3):
        data["granule"] = draw.integer(2, 60) * unit
    if stages > 1 and draw.chance(0.4):
        data["stage"] = draw.integer(0, stages - 1)
    if draw.chance(0.4):
        data["group"] = "g"
    return data


def experts(draw: Draw, stages: int, unit: int) -> Data:
    """Few slots, of one size or of several, some of them lent to prefill."""
    data: Data = {"min_slots": draw.integer(0, 2)}
    if draw.chance(0.25):
        sizes = [[draw.integer(1, 3), draw.integer(5, 40) * unit] for _ in range(3)]
        data["slot_bytes"] = sizes
        data["min_slots"] = min(data["min_slots"], sum(slots for slots, _ in sizes))
    elif draw.chance(0.25):
        data["slot_bytes"] = draw.integer(150, 300) * unit  # no max_slots: the quota bounds them
    else:
        data |= {"slot_bytes": draw.integer(5, 40) * unit, "max_slots": draw.integer(3, 8)}
    if draw.chance(0.4):
        data["layers"] = by_stage(draw, stages, draw.integer(1, 3))
    if draw.chance(0.3):
        data["granule"] = draw.integer(2, 50) * unit
    if draw.has("lend", 0.6):
        data["lend"] = {"keep": draw.integer(0, 3), "fraction": draw.one((0.9, "1/2", 1, 0.25, 0))}
    return data


def living(draw: Draw, name: str, ranks: list[Data], unit: int) -> Data:
    """Bytes of a consumer or an option, with the phases it lives in."""
    taken: Any = draw.integer(0, 150) * unit
    if draw.chance(0.3):
        keys = [rank["name"] for rank in ranks] if draw.chance(0.5) else ["0"]
        taken = {key: draw.integer(0, 150) * unit for key in draw.some(keys)}
    data: Data = {"name": name, "bytes": taken}
    if draw.chance(0.5):
        data["phases"] = draw.some(("load", "prefill", "decode", "encode"))
    return data
