"""Domains of the variables, from budgets, sizes and limits alone.

Each variable goes as far as the budgets let it with everything else at its least. The search is
not involved: CP-SAT's proofs within these domains are its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kvplan.kernels.instance import (
    FLIGHT,
    FULL,
    LIVE,
    PEAK,
    Budget,
    CacheRule,
    Instance,
    PoolRule,
    VariableRequest,
)
from kvplan.solver.cpsat.program.given_needs import Given
from kvplan.solver.cpsat.program.sizes import (
    blocks_within,
    fewest_kept,
    followed_bytes,
    pool_bytes,
    pools_bytes,
    slots_bytes,
    slots_within,
    tokens_within,
)


class Domains(NamedTuple):
    """Inclusive bounds; fitted requests and slots start at the problem's own least."""

    fitted: tuple[int, ...]  # most tokens of a capacity, or most requests of a count
    chunks: int  # candidates from the smallest
    experts: int  # most slots
    least_usable: tuple[int, ...]  # blocks by pool
    usable: tuple[int, ...]  # most blocks by pool


def domains_of(instance: Instance, given: Given) -> Domains:
    """Bounds of every variable; an empty range where nothing fits."""
    least = [
        _least_usable(instance, given, index, pool) for index, pool in enumerate(instance.pools)
    ]
    rests = [
        (budget, budget.limit_bytes - _least_bytes(instance, budget, least))
        for budget in instance.budgets
    ]
    usable = [_most_usable(instance, rests, index, least[index]) for index in range(len(least))]
    return Domains(
        fitted=tuple(
            [
                min([_most_fitted(instance, given, usable, f), *_most_followed(instance, rests, f)])
                for f in range(len(instance.fitted))
            ]
        ),
        chunks=_most_chunks(instance, rests),
        experts=_most_slots(instance, rests),
        least_usable=tuple(least),
        usable=tuple(usable),
    )


def _least_usable(instance: Instance, given: Given, index: int, pool: PoolRule) -> int:
    """min_blocks, structure, and what given requests need at the smallest chunk; a multiple."""
    raws = [given.raw(batch, 0)[index] for batch in range(len(instance.batches))]
    floor = max([pool.least, *(-(-raw * pool.use_den // pool.use_num) for raw in raws)])
    return -(-floor // pool.multiple) * pool.multiple


def _least_bytes(instance: Instance, budget: Budget, least: list[int]) -> int:
    """What a budget takes with everything at its least."""
    taken = sum([min(options) for options in budget.options]) + min(budget.staging, default=0)
    taken += followed_bytes(budget, 0, _least_tokens(instance))
    if instance.experts is not None:
        slots = instance.experts.least
        slots = fewest_kept(instance, slots) if budget.lent else slots
        taken += slots_bytes(instance, slots, budget.layers)
    return taken + pools_bytes(instance, budget, least)


def _least_tokens(instance: Instance) -> list[int]:
    """The smallest capacity of every variable request."""
    return [f.capacity if f.is_count else f.least for f in instance.fitted]


def _most_usable(
    instance: Instance, rests: list[tuple[Budget, int]], index: int, least: int
) -> int:
    """What a pool could have of every budget beside the others' least."""
    pool = instance.pools[index]
    held = [] if pool.most is None else [pool.most]
    for budget, rest in rests:
        if budget.pools and budget.pools[index]:
            mine = pool_bytes(least + pool.reserved, budget.pools[index])
            held.append(blocks_within(rest + mine, budget.pools[index]) - pool.reserved)
    return min(held, default=least) // pool.multiple * pool.multiple


def _most_chunks(instance: Instance, rests: list[tuple[Budget, int]]) -> int:
    """Candidates up to the largest whose staging fits beside everything's least."""
    number, tokens = len(instance.chunks), _least_tokens(instance)
    while number and any(
        _more_staging(budget, number - 1, tokens) > rest for budget, rest in rests
    ):
        number -= 1
    return number


def _more_staging(budget: Budget, chunk: int, tokens: list[int]) -> int:
    """What a chunk takes beyond the smallest one."""
    more = budget.staging[chunk] - min(budget.staging) if budget.staging else 0
    if not budget.workspaces:
        return more
    return more + followed_bytes(budget, chunk, tokens) - followed_bytes(budget, 0, tokens)


def _most_slots(instance: Instance, rests: list[tuple[Budget, int]]) -> int:
    """Expert slots beside everything's least; budgets that count the lent ones bound less."""
    experts = instance.experts
    if experts is None:
        return 0
    tops = [] if experts.most is None else [experts.most]
    for budget, rest in rests:
        if budget.layers and not budget.lent:
            limit = rest + slots_bytes(instance, experts.least, budget.layers)
            tops.append(slots_within(instance, limit, budget.layers, experts.least))
    return min(tops, default=experts.least)


def _most_fitted(instance: Instance, given: Given, usable: list[int], index: int) -> int:
    """Tokens (or requests) for which every pool has blocks beside the given requests."""
    request = instance.fitted[index]
    raw = given.raw(request.batch, 0)
    free = [
        blocks * pool.use_num // pool.use_den - taken
        for blocks, pool, taken in zip(usable, instance.pools, raw, strict=True)
    ]
    if request.is_count:
        pairs = zip(free, given.one(index, 0), strict=True)
        tops = [blocks // need for blocks, need in pairs if need]
        return min(tops if request.most is None else [*tops, request.most])
    assert request.most is not None
    tops = [request.most]
    if request.requests:
        tops += [
            most * rule.block_tokens
            for cache, rule in enumerate(instance.caches)
            if (request.caches is None or cache in request.caches)
            and (most := _own_blocks(instance, given, request, rule, free[rule.pool])) is not None
        ]
    return min(tops)


def _most_followed(
    instance: Instance, rests: list[tuple[Budget, int]], index: int
) -> Iterator[int]:
    """Tokens of a request whose staging fits beside everything's least, in every budget."""
    tokens, most = _least_tokens(instance), instance.fitted[index].most
    for budget, rest in rests:
        if any(workspace.fitted == index for workspace in budget.workspaces):
            limit = rest + followed_bytes(budget, 0, tokens)
            asked = [*tokens[:index], most or 0, *tokens[index + 1 :]]
            yield tokens_within(budget, limit, asked, index)


def _own_blocks(
    instance: Instance, given: Given, request: VariableRequest, rule: CacheRule, free: int
) -> int | None:
    """The most ceil(C/t) for which one cache's need may stay within free blocks; None: any.

    The need is at least m (min(ceil(C/t) - B, K) + x), K being what a window holds once it slides.
    """
    prefix = instance.batches[request.batch].prefix_tokens // rule.block_tokens
    held = free // (rule.groups * request.requests) - rule.extra_blocks
    t, flight = rule.block_tokens, given.flight(rule, 0)
    if rule.kind == FULL:
        return held + prefix
    if rule.kind == PEAK:
        sliding = rule.sink_blocks + (rule.reach + flight + t - 3) // t + 1
    elif rule.kind == FLIGHT:
        sliding = -(-(rule.reach + (0 if rule.flight_per_batch else flight)) // t)
    elif rule.kind == LIVE and not prefix and rule.scratch is None:
        sliding = rule.sink_blocks + -(-(rule.reach + request.flight - 1) // t)
    else:
        return None
    return held if held < sliding else None
