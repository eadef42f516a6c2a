"""Random batches of requests for small problems."""

from __future__ import annotations

from support.draw import Data, Draw


def batches(draw: Draw, data: Data, *, prefix: bool) -> list[Data]:
    """One to three batches; up to two requests of the problem are fitted."""
    fits = draw.one((0, 1, 1, 1, 2, 2)) if draw.has("fit", 1) else 0
    drawn = []
    for index in range(draw.one((1, 1, 2, 3))):
        shared = draw.integer(1, 14) if prefix and draw.chance(0.7) else 0
        requests = []
        for number in range(draw.one((1, 2, 2, 3))):
            fitted = fits > 0 and draw.chance(0.6)
            fits -= fitted
            name = f"r{index}{number}"
            requests.append(request(draw, data, name, shared, fitted=fitted))
        drawn.append({"name": f"batch{index}", "shared_prefix": shared, "requests": requests})
    return drawn


def request(draw: Draw, data: Data, name: str, shared: int, *, fitted: bool) -> Data:
    """A request with tokens, a placeholder, or one that is fitted."""
    if fitted:
        return fitted_capacity(draw, name, shared) if draw.chance(0.6) else _count(draw, data, name)
    if draw.chance(0.2):
        return {"name": name, "capacity": 0, "count": draw.integer(0, 3)}
    drawn = _tokens(draw, name, draw.integer(1, 36))
    if draw.chance(0.3):
        drawn["count"] = draw.one((0, 2, 3))
    return drawn


def _tokens(draw: Draw, name: str, capacity: int) -> Data:
    drawn: Data = {"name": name, "capacity": capacity}
    if draw.chance(0.6):
        drawn["history"] = draw.integer(0, capacity)
    return drawn


def fitted_capacity(draw: Draw, name: str, shared: int) -> Data:
    """A request whose capacity may shrink; its history stays above the prefix."""
    flight = draw.integer(0, 12) if draw.chance(0.7) else 1
    least = max(1, flight, shared + flight)
    capacity = least + draw.integer(1, 45)
    drawn: Data = {"name": name, "capacity": capacity, "fit": "capacity"}
    drawn["history"] = capacity - flight
    if draw.chance(0.3):
        drawn["min_capacity"] = draw.integer(1, capacity - 1)
    if draw.chance(0.4):
        drawn["count"] = draw.integer(2, 3)
    return drawn


def _count(draw: Draw, data: Data, name: str) -> Data:
    """A request whose count may shrink; an open count needs a cache that always takes blocks."""
    drawn = _tokens(draw, name, draw.integer(1, 16))
    drawn["fit"] = "count"
    kinds = {cache["kind"] for cache in data["caches"]}
    if draw.chance(0.3) and "state" in kinds:
        return drawn
    drawn["count"] = draw.integer(1, 6)
    if draw.chance(0.3):
        drawn["min_count"] = draw.integer(1, drawn["count"])
    return drawn
