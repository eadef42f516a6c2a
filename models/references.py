"""What one part of a problem says of another: names that must exist, be unique, and fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING

from kvplan.models.base import ByStage
from kvplan.models.errors import Fault
from kvplan.models.pools import Cache

if TYPE_CHECKING:
    from kvplan.models.problem import Problem


def find_faults(problem: Problem) -> list[Fault]:
    """Every cross-reference fault of a problem whose parts are valid one by one."""
    if not problem.ranks:
        return [Fault("ranks", "at least one rank", "an empty list")]
    faults = [fault for check in _CHECKS for fault in check(problem)]
    # Goals and constraints resolve names; they are only worth reading when the names are sound.
    return faults or [*_variables(problem), *_fill(problem)]


def expected_of(names: Iterable[str], name: str) -> str:
    """What could have been meant: the nearest known name, or all of them."""
    known = list(names)
    nearest = get_close_matches(name, known, n=1)
    if nearest:
        return f"{nearest[0]!r}"
    return f"one of {', '.join(known[:8])}" if known else "nothing (there is none)"


def _names(problem: Problem) -> Iterator[Fault]:
    listed = {
        "ranks": problem.ranks,
        "pools": problem.pools,
        "caches": problem.caches,
        "batches": problem.batches,
        "consumers": problem.consumers,
        "choices": problem.choices,
    }
    for section, entries in listed.items():
        yield from _unique(section, [entry.name for entry in entries])
    for index, choice in enumerate(problem.choices):
        yield from _unique(f"choices[{index}].options", [option.name for option in choice.options])


def _empty_choices(problem: Problem) -> Iterator[Fault]:
    for index, choice in enumerate(problem.choices):
        if not choice.options:
            yield Fault(f"choices[{index}].options", "at least one option", "an empty list")


def _unique(section: str, names: list[str]) -> Iterator[Fault]:
    if len(set(names)) == len(names):
        return
    counts = Counter(names)
    for index, name in enumerate(names):
        if counts[name] > 1 and name in names[:index]:
            yield Fault(f"{section}[{index}].name", "a name of its own", f"{name!r} again")


def _requests(problem: Problem) -> Iterator[Fault]:
    """Request names: each once in its batch, and a fitted one once in the problem."""
    fitted: set[str] = set()
    for b, batch in enumerate(problem.batches):
        seen: set[str] = set()
        for r, request in enumerate(batch.requests):
            name = request.name or f"{batch.name}.{r}"
            taken = name in seen or (request.fit != "none" and name in fitted)
            if taken:
                path = f"batches[{b}].requests[{r}].name"
                yield Fault(path, "a name of its own", f"{name!r} again")
            seen.add(name)
            if request.fit != "none":
                fitted.add(name)


def _caches(problem: Problem) -> Iterator[Fault]:
    pools = {pool.name for pool in problem.pools}
    for index, cache in enumerate(problem.caches):
        path = f"caches[{index}].pool"
        if cache.pool is None and len(pools) != 1:
            yield Fault(path, "a pool (it may be left out when there is one)", f"{len(pools)} pools")
        elif cache.pool is not None and cache.pool not in pools:
            yield Fault(path, expected_of(pools, cache.pool), repr(cache.pool))
        if cache.in_flight == "prefill" and problem.prefill is None:
            path = f"caches[{index}].in_flight"
            yield Fault(path, 'a prefill section beside "prefill"', "none")


def _prefixes(problem: Problem) -> Iterator[Fault]:
    for b, batch in enumerate(problem.batches):
        if batch.shared_prefix == 0:
            continue
        path = f"batches[{b}].shared_prefix"
        for cache in problem.caches:
            if not _shares_prefix(cache):
                expected = "caches of kind full, window live or state beside a prefix"
                yield Fault(path, expected, f"{cache.name!r} ({cache.retention})")
        for r, request in enumerate(batch.requests):
            least = request.least_capacity - request.flight_tokens
            if request.fit == "capacity" and request.history_tokens < batch.shared_prefix:
                expected = f"history of at least shared_prefix {batch.shared_prefix}"
                got = str(request.history_tokens)
                yield Fault(f"batches[{b}].requests[{r}].history", expected, got)
            elif request.fit == "capacity" and least < batch.shared_prefix:
                needed = batch.shared_prefix + request.flight_tokens
                if needed >= request.capacity:
                    expected = f"a request that can shrink (history stays >= {batch.shared_prefix})"
                    yield Fault(f"batches[{b}].requests[{r}]", expected, str(request.capacity))


def _shares_prefix(cache: Cache) -> bool:
    return cache.retention in ("full", "live", "state")


def _stage_figures(problem: Problem) -> Iterator[Fault]:
    """Bytes by stage: every stage of a rank, no other, and not zero everywhere."""
    stages = [str(stage) for stage in problem.stages]
    for p, pool in enumerate(problem.pools):
        for k, buffer in enumerate(pool.layout):
            path = f"pools[{p}].bytes" if pool.buffers is None else f"pools[{p}].buffers[{k}].bytes"
            yield from _by_keys(path, buffer.bytes, stages)
            if not any(figures(buffer.bytes)):
                yield Fault(path, "bytes above 0 on some stage", "0 on every stage")
    if problem.experts is not None:
        experts = problem.experts
        yield from _by_keys("experts.layers", experts.layers, stages)
        sizes = experts.slot_bytes if isinstance(experts.slot_bytes, tuple) else ((1, experts.slot_bytes),)
        if min(count for _, count in sizes) == 0:
            yield Fault("experts.slot_bytes", "bytes above 0", "0")
        if not any(figures(experts.layers)):
            yield Fault("experts.layers", "layers on some stage", "0 on every stage")
    for index, staging in enumerate(problem.prefill.staging if problem.prefill else ()):
        if staging.stage is not None and str(staging.stage) not in stages:
            path = f"prefill.staging[{index}].stage"
            yield Fault(path, f"a stage of a rank ({', '.join(stages)})", str(staging.stage))


def _by_keys(path: str, value: ByStage, keys: list[str]) -> Iterator[Fault]:
    if isinstance(value, int):
        return
    for key in value:
        if key not in keys:
            yield Fault(f"{path}.{key}", f"a stage of a rank ({', '.join(keys)})", repr(key))
    for key in keys:
        if key not in value:
            yield Fault(path, f"a figure for stage {key}", "none")


def figures(value: ByStage) -> list[int]:
    """All figures of a by-stage value."""
    return [value] if isinstance(value, int) else list(value.values())


def _consumers(problem: Problem) -> Iterator[Fault]:
    listed = [(f"consumers[{i}]", consumer) for i, consumer in enumerate(problem.consumers)]
    for c, choice in enumerate(problem.choices):
        for o, option in enumerate(choice.options):
            listed.append((f"choices[{c}].options[{o}]", option))
    stages = {str(stage) for stage in problem.stages}
    names = {rank.name for rank in problem.ranks}
    for path, consumer in listed:
        if consumer.phases == ():
            yield Fault(f"{path}.phases", "at least one phase", "an empty list")
        if isinstance(consumer.bytes, dict):
            yield from _rank_keys(f"{path}.bytes", consumer.bytes, stages, names)


def _rank_keys(
    path: str, value: dict[str, int], stages: set[str], names: set[str]
) -> Iterator[Fault]:
    for key in value:
        if key in stages and key in names:
            yield Fault(f"{path}.{key}", "a key that names one thing", "a stage and a rank")
        elif key not in stages and key not in names:
            expected = expected_of(sorted(stages | names), key)
            yield Fault(f"{path}.{key}", f"a stage or a rank: {expected}", repr(key))


_CHECKS = (_names, _empty_choices, _requests, _caches, _prefixes, _stage_figures, _consumers)


def _variables(problem: Problem) -> Iterator[Fault]:
    known = known_variables(problem)
    labels: dict[str, int] = {}
    for g, goal in enumerate(problem.goals):
        for variable in goal.maximize:
            if "=" in variable:
                expected = "a variable of goals (choice:<name>=<option> is for constraints)"
                yield Fault(f"goals[{g}]", expected, repr(variable))
            else:
                yield from _known(f"goals[{g}]", variable, known)
        if goal.single is not None and goal.single in labels:
            yield Fault(f"goals[{g}]", "each goal once", f"{goal.single!r}, goals[{labels[goal.single]}] again")
        labels.setdefault(goal.label, g)
    for c, constraint in enumerate(problem.constraints):
        for variable in constraint.terms:
            path = f"constraints[{c}].terms"
            if variable.startswith("choice:") and "=" not in variable:
                yield Fault(path, f"{variable}=<option> in a constraint", repr(variable))
            else:
                yield from _known(path, variable, known)


def _known(path: str, variable: str, known: dict[str, str]) -> Iterator[Fault]:
    if variable not in known:
        yield Fault(path, f"a variable: {expected_of(known, variable)}", repr(variable))
    elif known[variable]:
        yield Fault(path, known[variable], repr(variable))


def known_variables(problem: Problem) -> dict[str, str]:
    """Variables of goals and constraints; a text says why one is known but not variable."""
    known = {f"blocks:{pool.name}": "" for pool in problem.pools}
    for what in ("none", "capacity", "count"):
        for name in problem.fitted(what):
            for kind in ("capacity", "count"):
                why = "" if kind == what else f"a request with fit: {kind}"
                known[f"{kind}:{name}"] = known.get(f"{kind}:{name}", why) and why
    known["prefill"] = "" if problem.prefill else "a prefill section"
    known["experts"] = "" if problem.experts else "an experts section"
    for choice in problem.choices:
        known[f"choice:{choice.name}"] = ""
        known.update({f"choice:{choice.name}={option.name}": "" for option in choice.options})
    known.update({f"copies:{batch.name}": "" for batch in problem.batches})
    return known


def _fill(problem: Problem) -> Iterator[Fault]:
    if problem.fill is None:
        return
    pools = [pool.name for pool in problem.pools]
    batches = [batch.name for batch in problem.batches]
    if problem.fill.batch is not None and problem.fill.batch not in batches:
        yield Fault("fill.batch", expected_of(batches, problem.fill.batch), repr(problem.fill.batch))
    for form in ("pools", "shares"):
        for name in getattr(problem.fill, form) or ():
            if name not in pools:
                yield Fault(f"fill.{form}", expected_of(pools, name), repr(name))
