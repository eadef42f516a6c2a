"""Blocks that batches need, from the table of retention rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kvplan.models.demands import Batch
from kvplan.models.pools import Cache
from kvplan.models.problem import Problem

MANY = 24  # given requests from which arrays are faster
_MOST_INT64 = 2**62

Load = tuple[int, int, int]
"""Tokens of capacity and of history, and how many requests are alike."""


class Rule(NamedTuple):
    """A cache in integers."""

    pool: int
    kind: str  # full, live, peak, state, or reach: window in_flight and chunked
    block_tokens: int
    groups: int
    extra: int
    reach: int  # tokens: the window; of `reach` what is seen before the flight
    sink: int  # blocks
    flight: int  # tokens; 0: those of the prefill
    shares_flight: bool  # the batch has one flight
    state: int  # blocks
    scratch: tuple[int, int, int] | None  # numerator and denominator of the fraction, rewind


class Hold(NamedTuple):
    """Blocks that loads hold in one cache, and those that are stale for each of them."""

    loads: int
    blocks: int
    first: int
    stop: int


NOTHING = Hold(0, 0, 0, 0)


def rules_of(problem: Problem) -> list[Rule]:
    """Every cache, in the order written."""
    places = {pool.name: index for index, pool in enumerate(problem.pools)}
    return [_rule(problem, cache, places[problem.pool_of(cache)]) for cache in problem.caches]


def _rule(problem: Problem, cache: Cache, pool: int) -> Rule:
    tokens = (cache.tokens_per_block or problem.tokens_per_block) * (cache.shards or 1)
    kind, reach = cache.retention, cache.window or 0
    if kind in ("in_flight", "chunked"):
        kind, reach = "reach", cache.chunk or reach - 1
    flight, scratch = cache.in_flight or 1, cache.scratch
    return Rule(
        pool,
        kind,
        tokens,
        cache.groups,
        cache.extra_blocks,
        reach,
        -(-(cache.sink or 0) // tokens),
        0 if flight == "prefill" else flight,
        cache.in_flight_per == "batch",
        cache.blocks or 1,
        (*scratch.fraction.as_integer_ratio(), scratch.max_rewind) if scratch else None,
    )


def structural_floors(rules: Sequence[Rule], pools: int) -> list[int]:
    """Usable blocks by pool whatever the batches, where a window is live (TensorRT-LLM V2)."""
    worst = [
        rule.sink + (rule.reach + rule.block_tokens - 2) // rule.block_tokens + 1
        for rule in rules
        if rule.kind == "live"
    ]
    floors, each = [0] * pools, iter(worst)
    for rule in rules if worst else ():
        if rule.kind == "live":
            blocks = next(each)
        else:
            blocks = {"full": max(worst), "state": rule.state}.get(rule.kind, 1)
        floors[rule.pool] += rule.groups * blocks
    return floors


def stale(rule: Rule, history: Any, least: Any = min, most: Any = max) -> tuple[Any, Any]:
    """Blocks from the sink to the window of the query at `history`, as [first, stop)."""
    tokens = rule.block_tokens
    first = rule.sink and least(-(-history // tokens), rule.sink)
    return first, most(first, (history + 1 - rule.reach) // tokens)


def own_blocks(
    rule: Rule,
    capacity: Any,
    history: Any,
    flight: int,
    shared: int,
    least: Callable[..., Any] = min,
    most: Callable[..., Any] = max,
) -> Any:
    """Blocks of one request with tokens, beside `shared` ones of a prefix; groups do not count.

    Capacity and history may be arrays; `least` and `most` are then of arrays too.
    """
    tokens, extra = rule.block_tokens, rule.extra
    end = -(-capacity // tokens)
    if rule.kind == "full":
        return most(end - shared, 0) + extra
    if rule.kind == "peak":
        return least(end, rule.sink + (rule.reach + flight + tokens - 3) // tokens + 1) + extra
    if rule.kind == "reach":
        seen = rule.reach + (0 if rule.shares_flight else flight)
        return -(-least(capacity, seen) // tokens) + extra
    first, stop = stale(rule, history, least, most)
    gone = most(least(end, stop) - (most(first, shared) if shared else first), 0)
    blocks = (most(end - shared, 0) if shared else end) - gone + extra
    if rule.scratch is None:
        return blocks
    num, den, rewind = rule.scratch
    first, stop = stale(rule, most(capacity - rewind, 0), least, most)
    begin = most(first, most(-(-history // tokens), shared))
    scratch = most(least(end, stop) - begin, 0)
    return most(blocks - scratch + -(-scratch * num // den), 0)


def hold(rule: Rule, loads: Iterable[Load], flight: int, shared: int, known: Hold) -> Hold:
    """What loads hold in one cache, beside what is known of others."""
    number, blocks, first, stop = known
    for capacity, history, count in loads:
        if capacity <= 0 or count <= 0:
            continue
        blocks += count * own_blocks(rule, capacity, history, flight, shared)
        if shared:
            one, other = stale(rule, history) if rule.kind == "live" else (0, 0)
            first, stop = max(first, one), other if not number else min(stop, other)
        number += count
    return Hold(number, blocks, first, stop)


def hold_many(rule: Rule, columns: Sequence[Any], flight: int, shared: int) -> Hold:
    """`hold` of columns (arrays of capacities, histories and counts, all of them above 0)."""
    import numpy as np

    capacity, history, count = columns
    own = own_blocks(rule, capacity, history, flight, shared, np.minimum, np.maximum)
    first = stop = 0
    if shared and rule.kind == "live":
        ones, others = stale(rule, history, np.minimum, np.maximum)
        first, stop = int(np.max(ones)), int(others.min())
    return Hold(int(count.sum()), int((own * count).sum()), first, stop)


class BatchNeed:
    """Raw blocks by pool of one batch; what no decision moves is counted once."""

    def __init__(self, rules: list[Rule], pools: int, batch: Batch, fitted: Sequence[int]) -> None:
        self._rules, self._pools, self._prefix = rules, pools, batch.shared_prefix
        self.fitted = fitted
        self._requests, self._given = sum(batch.given.counts), with_tokens(batch.given[:3])
        self._follows = any(rule.flight == 0 for rule in rules)
        self._holds: dict[int, list[Hold]] = {}

    def raw(self, loads: Sequence[Load], flight: int) -> list[int]:
        """Blocks by pool, with the fitted requests at some loads.

        Parameters
        ----------
        flight : tokens of a prefill in flight.
        """
        flight = flight if self._follows else 0
        if flight not in self._holds:
            self._holds[flight] = self._given_holds(flight)
        raw = [0] * self._pools
        requests = self._requests + sum([count for _, _, count in loads])
        for rule, known in zip(self._rules, self._holds[flight], strict=True):
            raw[rule.pool] += self._need(rule, known, loads, flight, requests)
        return raw

    def _need(
        self, rule: Rule, known: Hold, loads: Sequence[Load], flight: int, requests: int
    ) -> int:
        """Blocks in one cache: of the requests, of the prefix that one of them sees, in flight."""
        if rule.kind == "state":
            return rule.groups * (rule.state + rule.extra) * requests
        shared, tokens = self._prefix // rule.block_tokens, rule.flight or flight
        number, blocks, first, stop = hold(rule, loads, tokens, shared, known)
        if number and shared:
            blocks += shared - max(0, min(stop, shared) - first)
        if number and rule.shares_flight:
            blocks += -(-tokens // rule.block_tokens)
        return rule.groups * blocks

    def _given_holds(self, flight: int) -> list[Hold]:
        if not self._given:
            return [NOTHING] * len(self._rules)
        many = len(self._given[0]) >= MANY
        columns = arrays_of(self._rules, self._given, flight) if many else self._given
        found = []
        for rule in self._rules:
            shared, tokens = self._prefix // rule.block_tokens, rule.flight or flight
            if rule.kind == "state":
                found.append(NOTHING)
            elif many:
                found.append(hold_many(rule, columns, tokens, shared))
            else:
                found.append(hold(rule, zip(*columns, strict=True), tokens, shared, NOTHING))
        return found


def with_tokens(columns: Sequence[Sequence[int]]) -> list[Sequence[int]]:
    """The columns without requests that hold state blocks alone; none where nothing is left."""
    if all(columns[0]) and all(columns[2]):
        return [*columns] if columns[0] else []
    kept = [row for row in zip(*columns, strict=True) if row[0] and row[2]]
    return [*zip(*kept, strict=True)]


def arrays_of(rules: Sequence[Rule], columns: Sequence[Sequence[int]], flight: int) -> list[Any]:
    """Columns as arrays, of plain Python integers where 64 bits could be too few."""
    import numpy as np

    wide = max([sum(rule[2:8]) for rule in rules]) + flight + max(columns[0])
    scale = max([max(rule.scratch or (1,)) for rule in rules])
    kind = np.int64 if wide * scale * sum(columns[2]) < _MOST_INT64 else object
    return [np.array(column, kind) for column in columns]
