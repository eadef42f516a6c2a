"""References of a placement: ranks, caches and goals that it names, and what stands beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kvplan.models.errors import Fault
from kvplan.models.messages import one_of, path_to, shown
from kvplan.models.place import HOP, PIPELINED, PLACE_GOALS, STAGED, Place
from kvplan.models.pools import Pool

if TYPE_CHECKING:
    from kvplan.models.problem import Problem

LAYERS, STATES, EXPERTS, BUFFERS = ("layers", "states", "experts", "buffers")
CONSUMERS = tuple(f"placed {what}" for what in (LAYERS, STATES, EXPERTS, BUFFERS))
"""Names of the consumers that a placement comes to."""
FRONT_TO_HOST = ("llama.cpp", "ik_llama.cpp", "ollama")
"""Engines whose -ngl leaves the front layers on the host."""
CONSTRAINED = ("layers:", "experts:")
MOST_PLACED = 1024
"""Layers of a placement, several times the deepest public model's; the search grows with them."""


def placement_faults(problem: Problem) -> Iterator[Fault]:
    """What a placement refers to, and sections that it does not take beside it."""
    place = problem.place
    if place is None:
        return
    if not place.layers:
        yield Fault("place.layers", "at least one layer", "an empty list")
    if place.count > MOST_PLACED:
        yield Fault("place.layers", f"at most {MOST_PLACED} layers in all", str(place.count))
        return
    yield from _ranks(problem, place)
    yield from _caches(problem, place)
    yield from _pools(problem, place)
    yield from _beside(problem)
    yield from _asked(problem)
    yield from _order(place)


def _ranks(problem: Problem, place: Place) -> Iterator[Fault]:
    names = [rank.name for rank in problem.ranks]
    yield from _named("place.host", [place.host] if place.host else [], names)
    for end in ("first", "last"):
        yield from _named(f"place.ends.{end}.spaces", getattr(place.ends, end).spaces or (), names)
    yield from _named("place.used", place.used, [*names, PIPELINED])
    yield from _named("place.read", place.read, [*names, HOP])
    missing = [name for name in names if place.read.keys() - {HOP} and name not in place.read]
    if missing:
        yield Fault("place.read", "bytes a second for each rank", f"none for {shown(missing[0])}")
    order = place.order
    if isinstance(order, tuple):
        yield from _named("place.order", order, names)
        left = [name for name in names if name not in order]
        if left:
            yield Fault("place.order", "every rank", f"none for {shown(left[0])}")
        if len(set(order)) < len(order):
            yield Fault("place.order", "each rank once", "one twice")


def _named(path: str, given: Iterable[str], known: list[str]) -> Iterator[Fault]:
    for name in given:
        if name not in known:
            yield Fault(path, one_of(known, name), shown(name))


def _caches(problem: Problem, place: Place) -> Iterator[Fault]:
    """Caches by name; bytes of a block of a layer, not by stage, not rounded."""
    names = [cache.name for cache in problem.caches]
    held: set[str] = set()
    runs = [(f"place.layers[{i}].cache", run.cache) for i, run in enumerate(place.layers)]
    for path, caches in (*runs, ("place.ends.draft.cache", place.ends.draft.cache)):
        yield from _named(path, caches or (), names)
        held.update(caches or ())
        for name, size in (caches or {}).items():
            pool = _pool(problem, name)
            if size is not None and pool is not None and len(pool.layout) > 1:
                expected = "no bytes of its own in a pool of several buffers"
                yield Fault(path_to(path, name), expected, str(size))
    for name in names:
        if name not in held:
            yield Fault("place.layers", f"a layer with the cache {shown(name)}", "none")


def _pools(problem: Problem, place: Place) -> Iterator[Fault]:
    """Blocks whose bytes are those of one layer."""
    for p, pool in enumerate(problem.pools):
        sharing = [cache.name for cache in problem.caches if cache.pool in (None, pool.name)]
        if len(sharing) > 1 and not place.is_staged:
            expected = "one cache for each pool beside a host or experts apart"
            yield Fault(f"pools[{p}]", expected, f"{len(sharing)} caches")
        for buffer in pool.layout:
            if not isinstance(buffer.bytes, int):
                expected = "bytes of a block in one layer (the placement says where it lies)"
                yield Fault(f"pools[{p}].bytes", expected, "bytes by stage or rank")
            if buffer.granule != 1:
                yield Fault(f"pools[{p}].granule", "1 beside place", str(buffer.granule))


def _pool(problem: Problem, cache_name: str) -> Pool | None:
    """The pool that a cache draws on; None where a name is unknown."""
    cache = next((cache for cache in problem.caches if cache.name == cache_name), None)
    name = None if cache is None or not problem.pools else problem.pool_of(cache)
    return next((pool for pool in problem.pools if pool.name == name), None)


def _beside(problem: Problem) -> Iterator[Fault]:
    """Sections and forms that a placement does not decide together with itself."""
    for section in ("experts", "choices"):
        if getattr(problem, section):
            yield Fault(section, "none beside place", "a section")
    for c, cache in enumerate(problem.caches):
        if cache.retention == "live":
            yield Fault(f"caches[{c}].keep", "peak or in_flight beside place", "live")
        if cache.groups != 1:
            yield Fault(f"caches[{c}].groups", "1 beside place (a cache each)", str(cache.groups))
    for name in (one.name for one in problem.consumers if one.name in CONSUMERS):
        yield Fault("consumers", "another name (a placement adds this one)", shown(name))
    fill = problem.fill
    if fill is not None and (fill.batch or fill.shares or fill.mix):
        yield Fault("fill", "pools or none beside place", "another form")


def _asked(problem: Problem) -> Iterator[Fault]:
    """Goals one variable each, rows on layers and experts alone."""
    for g, goal in enumerate(problem.goals):
        known = goal.single in PLACE_GOALS or (goal.single or "").split(":")[0] in _GOALS
        if not known:
            expected = "capacity, count, blocks, prefill, speed, layers_on_gpu or experts_on_gpu"
            yield Fault(f"goals[{g}]", f"{expected} beside place", shown(goal.label))
    for c, constraint in enumerate(problem.constraints):
        if not all(term.startswith(CONSTRAINED) for term in constraint.terms):
            expected = "layers:<rank> or experts:<rank> beside place"
            yield Fault(f"constraints[{c}].terms", expected, shown([*constraint.terms]))


_GOALS = ("capacity", "count", "blocks", "prefill")


def _order(place: Place) -> Iterator[Fault]:
    """Stages hold all of their layers: no host, no experts apart; a free order is theirs."""
    if place.engine in STAGED and not place.is_staged:
        got = "a host" if place.host is not None else f"experts: {place.experts}"
        expected = f"stages alone (no host, experts: none) with engine {place.engine}"
        yield Fault("place.engine", expected, got)
    if place.order == "any" and not place.is_staged:
        yield Fault("place.order", "ranks in order beside a host or experts apart", '"any"')
    first = place.order[0] if isinstance(place.order, tuple) else place.host
    if place.engine in FRONT_TO_HOST and place.host not in (None, first):
        expected = f"the host first with engine {place.engine}: front layers go there first"
        yield Fault("place.order", expected, shown(first))
    if place.mirror and place.host is None:
        yield Fault("place.mirror", "a host that holds every expert", "none")
