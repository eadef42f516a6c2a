"""References between parts of a problem: names must exist, be unique, and fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from kvplan.models.base import ByStage
from kvplan.models.demands import Request
from kvplan.models.elastic import Consumer, Option
from kvplan.models.errors import Fault
from kvplan.models.measured.allowances import allowance_faults
from kvplan.models.messages import one_of, path_to, shown
from kvplan.models.pools import Cache
from kvplan.models.ranks import Rank, at_rank
from kvplan.models.reading.faults import first_faults
from kvplan.models.reading.placement_references import placement_faults
from kvplan.models.reading.variables import fill_faults, goal_faults, known_variables, relax_faults
from kvplan.models.reading.workspace_references import workspace_faults

if TYPE_CHECKING:
    from kvplan.models.problem import Problem

__all__ = ["figures", "find_faults", "known_variables"]


def find_faults(problem: Problem) -> list[Fault]:
    """Cross-reference faults of a problem whose parts are valid one by one."""
    if not problem.ranks:
        return [Fault("ranks", "at least one rank", "an empty list")]
    faults = first_faults(chain.from_iterable(check(problem) for check in _CHECKS))
    if any(fault.path.endswith(".name") for fault in faults):
        return faults  # goals and constraints resolve names, which must be valid first
    asked = (goal_faults, fill_faults, relax_faults)
    return first_faults(chain(faults, *(check(problem) for check in asked)))


def _names(problem: Problem) -> Iterator[Fault]:
    yield from _unique("ranks", [rank.name for rank in problem.ranks])
    yield from _unique("pools", [pool.name for pool in problem.pools])
    yield from _unique("caches", [cache.name for cache in problem.caches])
    yield from _unique("batches", [batch.name for batch in problem.batches])
    yield from _unique("consumers", [consumer.name for consumer in problem.consumers])
    yield from _unique("choices", [choice.name for choice in problem.choices])
    yield from _unique("variants", [variant.name for variant in problem.variants])
    for index, pool in enumerate(problem.pools):
        named = [buffer.name for buffer in pool.buffers or ()]
        if any(named):
            yield from _unique(f"pools[{index}].buffers", named)
    for index, choice in enumerate(problem.choices):
        yield from _unique(f"choices[{index}].options", [option.name for option in choice.options])


def _unique(section: str, names: Iterable[str | None]) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name is not None and name in seen:
            yield Fault(f"{section}[{index}].name", "a unique name", f"{shown(name)} again")
        elif name is not None:
            seen.add(name)


def _choices(problem: Problem) -> Iterator[Fault]:
    for index, choice in enumerate(problem.choices):
        if not choice.options:
            yield Fault(f"choices[{index}].options", "at least one option", "an empty list")
        if "=" in choice.name:
            expected = "a name without = (choice:<name>=<option> is a variable)"
            yield Fault(f"choices[{index}].name", expected, shown(choice.name))


def _requests(problem: Problem) -> Iterator[Fault]:
    """Request names: unique in their batch; those of fitted requests unique in the problem."""
    fitted: set[str] = set()
    for b, batch in enumerate(problem.batches):
        seen: set[str] = set()
        for r, request in enumerate(batch.requests):
            name = request.name or f"{batch.name}.{r}"
            if name in seen or (request.fit != "none" and name in fitted):
                path = f"batches[{b}].requests[{r}].name"
                yield Fault(path, "a unique name", f"{shown(name)} again")
            seen.add(name)
            if request.fit != "none":
                fitted.add(name)


def _request_caches(problem: Problem) -> Iterator[Fault]:
    """Caches of a request exist; a shared prefix is held in all caches by all requests."""
    known = {cache.name: None for cache in problem.caches}
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests if batch.is_partial else ()):
            path, names = f"batches[{b}].requests[{r}].caches", request.caches
            if names == ():
                yield Fault(path, "at least one cache", "an empty list")
            for index, name in enumerate(names or ()):
                if name not in known:
                    yield Fault(f"{path}[{index}]", one_of(known, name), shown(name))
                elif name in (names or ())[:index]:
                    yield Fault(f"{path}[{index}]", "each cache once", f"{shown(name)} again")
            if names and batch.shared_prefix:
                expected = "no caches on a request of a batch with a shared_prefix"
                yield Fault(path, expected, f"{shown(batch.shared_prefix)} shared tokens")


def _caches(problem: Problem) -> Iterator[Fault]:
    pools = {pool.name: None for pool in problem.pools}
    for index, cache in enumerate(problem.caches):
        path = f"caches[{index}].pool"
        if cache.pool is None and len(pools) != 1:
            expected = "the name of a pool (it may be left out when there is one)"
            yield Fault(path, expected, f"none, with {len(pools)} pools")
        elif cache.pool is not None and cache.pool not in pools:
            yield Fault(path, one_of(pools, cache.pool), shown(cache.pool))
        if cache.in_flight == "prefill" and problem.prefill is None:
            path = f"caches[{index}].in_flight"
            yield Fault(path, 'a prefill section beside "prefill"', "none")


def _staging(problem: Problem) -> Iterator[Fault]:
    """Entries of one name are parts of one thing on different stages."""
    seen: set[tuple[str, int | None]] = set()
    for index, entry in enumerate(problem.prefill.staging if problem.prefill else ()):
        path = f"prefill.staging[{index}]"
        if entry.stage is not None and entry.stage not in problem.stages:
            stages = one_of(map(str, problem.stages))
            yield Fault(f"{path}.stage", f"a stage of a rank: {stages}", str(entry.stage))
        if (entry.name, entry.stage) in seen:
            expected = "a unique name on this stage"
            yield Fault(f"{path}.name", expected, f"{shown(entry.name)} again")
        seen.add((entry.name, entry.stage))


def _headrooms(problem: Problem) -> Iterator[Fault]:
    """`prefill_headroom: from_staging` needs a prefill section."""
    for index, rank in enumerate(problem.ranks):
        derived = rank.memory is not None and rank.memory.prefill_headroom == "from_staging"
        if derived and problem.prefill is None:
            path = f"ranks[{index}].memory.prefill_headroom"
            yield Fault(path, 'a prefill section beside "from_staging"', "none")


def _prefixes(problem: Problem) -> Iterator[Fault]:
    for b, batch in enumerate(problem.batches):
        if batch.shared_prefix == 0:
            continue
        for cache in problem.caches:
            if not _shares_prefix(cache):
                expected = "caches of kind full, window live or state beside a prefix"
                got = f"{shown(cache.name)} ({cache.retention})"
                yield Fault(f"batches[{b}].shared_prefix", expected, got)
        for r, request in enumerate(batch.requests):
            if request.fit == "capacity":
                path = f"batches[{b}].requests[{r}]"
                yield from _fits_prefix(path, request, batch.shared_prefix)


def _shares_prefix(cache: Cache) -> bool:
    return cache.retention in ("full", "live", "state")


def _fits_prefix(path: str, request: Request, prefix_tokens: int) -> Iterator[Fault]:
    """A fitted request keeps H >= P."""
    if request.history_tokens < prefix_tokens:
        expected = f"history of at least shared_prefix {prefix_tokens}"
        yield Fault(f"{path}.history", expected, str(request.history_tokens))


def _pool_figures(problem: Problem) -> Iterator[Fault]:
    """Bytes of blocks: a figure for every rank, by its name or its stage, and not zero on all."""
    stages = {str(stage): None for stage in problem.stages}
    names = {rank.name: None for rank in problem.ranks}
    for p, pool in enumerate(problem.pools):
        for k, buffer in enumerate(pool.layout):
            if isinstance(buffer.bytes, int) and buffer.bytes:
                continue  # the same on every rank
            path = f"pools[{p}].bytes" if pool.buffers is None else f"pools[{p}].buffers[{k}].bytes"
            if not isinstance(buffer.bytes, int):
                yield from _rank_keys(path, buffer.bytes, stages, names)
                yield from _no_figure(path, buffer.bytes, problem.ranks, names)
            if not any(at_rank(buffer.bytes, rank) for rank in problem.ranks):
                yield Fault(path, "bytes above 0 on some stage", "0 on every stage")


def _allocation_limits(problem: Problem) -> Iterator[Fault]:
    """A largest allocation holds the reserved blocks, in a granule that no quota moves."""
    for p, pool in enumerate(problem.pools):
        for k, buffer in enumerate(pool.layout):
            if buffer.max_bytes is None:
                continue
            path = f"pools[{p}]" if pool.buffers is None else f"pools[{p}].buffers[{k}]"
            block = max(at_rank(buffer.bytes, rank) for rank in problem.ranks)
            if buffer.granule == "auto":
                yield Fault(f"{path}.granule", 'bytes or "pow2" beside max_bytes', '"auto"')
            elif block and buffer.most_blocks(block) < pool.reserved_blocks:
                expected = f"max_bytes for the {pool.reserved_blocks} reserved blocks"
                yield Fault(f"{path}.max_bytes", expected, str(buffer.max_bytes))


def _no_figure(
    path: str, value: Mapping[str, int], ranks: Sequence[Rank], names: dict[str, None]
) -> Iterator[Fault]:
    """The first rank that has a figure neither by its name nor by its stage."""
    stages = {str(rank.stage): None for rank in ranks}
    bare = [rank for rank in ranks if rank.name not in value and str(rank.stage) not in value]
    if not bare or not all(key in stages or key in names for key in value):
        return
    if any(key in names for key in value):
        expected = f"a figure for each rank, by its name or its stage: {one_of(names)}"
        yield Fault(path, expected, f"none for {shown(bare[0].name)}")
    else:
        yield Fault(path, f"a figure for each stage: {one_of(stages)}", f"none for {bare[0].stage}")


def _experts(problem: Problem) -> Iterator[Fault]:
    experts = problem.experts
    if experts is None:
        return
    yield from _by_keys("experts.layers", experts.layers, [str(s) for s in problem.stages])
    if not any(figures(experts.layers)):
        yield Fault("experts.layers", "layers on some stage", "0 on every stage")
    if experts.slot_bytes == 0:
        yield Fault("experts.slot_bytes", "bytes above 0", "0")
    elif isinstance(experts.slot_bytes, tuple):
        for index, (_, slot_bytes) in enumerate(experts.slot_bytes):
            if slot_bytes == 0:
                yield Fault(f"experts.slot_bytes[{index}][1]", "bytes above 0", "0")


def _by_keys(path: str, value: ByStage, stages: list[str]) -> Iterator[Fault]:
    if isinstance(value, int):
        return
    unknown = [key for key in value if key not in stages]
    for key in unknown:
        yield Fault(path_to(path, key), f"a stage of a rank: {one_of(stages)}", shown(key))
    missing = [stage for stage in stages if stage not in value]
    if missing and not unknown:
        yield Fault(path, f"a figure for each stage: {one_of(stages)}", f"none for {missing[0]}")


def figures(value: ByStage) -> list[int]:
    """All figures of a by-stage value."""
    return [value] if isinstance(value, int) else list(value.values())


def _consumers(problem: Problem) -> Iterator[Fault]:
    stages = {str(stage): None for stage in problem.stages}
    names = {rank.name: None for rank in problem.ranks}
    for path, consumer in _listed(problem):
        if consumer.phases == ():
            yield Fault(f"{path}.phases", "at least one phase", "an empty list")
        elif len(set(consumer.phases or ())) < len(consumer.phases or ()):
            yield Fault(f"{path}.phases", "each phase once", "one twice")
        fields = [("bytes", consumer.bytes)]
        if isinstance(consumer, Consumer):
            fields.append(("per_request", consumer.per_request))
        for field, value in fields:
            if not isinstance(value, int):
                yield from _rank_keys(f"{path}.{field}", value, stages, names)


def _listed(problem: Problem) -> Iterator[tuple[str, Consumer | Option]]:
    """Consumers and options with their paths."""
    for index, consumer in enumerate(problem.consumers):
        yield f"consumers[{index}]", consumer
    for c, choice in enumerate(problem.choices):
        for o, option in enumerate(choice.options):
            yield f"choices[{c}].options[{o}]", option


def _rank_keys(
    path: str, value: Mapping[str, int], stages: dict[str, None], names: dict[str, None]
) -> Iterator[Fault]:
    for key in value:
        if key in stages and key in names:
            got = "a stage and a rank"
            yield Fault(path_to(path, key), "a key that names one thing", got)
        elif key not in stages and key not in names:
            expected = f"a stage or a rank: {one_of({**stages, **names}, key)}"
            yield Fault(path_to(path, key), expected, shown(key))


_CHECKS = (
    _names,
    _choices,
    _requests,
    _caches,
    _request_caches,
    _staging,
    _headrooms,
    _prefixes,
    _pool_figures,
    _allocation_limits,
    _experts,
    _consumers,
    allowance_faults,
    workspace_faults,
    placement_faults,
)
