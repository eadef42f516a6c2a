"""Blocks that batches need, from the table of retention rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.models.demands import Batch, Request
from kvplan.models.goals import MixEntry
from kvplan.models.pools import Cache
from kvplan.models.problem import Problem

Ints = Any  # an integer, or an array of them
Load = tuple[Ints, Ints, Ints]  # tokens C of capacity and H of history, and how many are alike
MANY = 24  # requests from which arrays are faster


class Rule(NamedTuple):
    """A cache in integers."""

    pool: int
    m: int  # groups
    kind: str  # full, live, peak, state, or reach: window in_flight and chunked
    t: int  # tokens of a block over all shards
    x: int  # extra blocks
    sink: int  # S, blocks
    window: int  # W, tokens; of `reach` R: what is seen before the flight
    flight: int  # F, tokens; 0: those of the prefill
    per_batch: bool  # the batch has one flight
    state: int  # blocks
    scratch: tuple[int, int, int] | None  # numerator and denominator of the fraction, rewind


def rule_of(cache: Cache, pool: int, block_tokens: int) -> Rule:
    """Read a cache, its defaults included."""
    t = (cache.tokens_per_block or block_tokens) * (cache.shards or 1)
    kind, window, flight = cache.retention, cache.window or 0, cache.in_flight or 1
    if kind in ("in_flight", "chunked"):
        kind, window = "reach", cache.chunk or window - 1
    sink, flight = -(-(cache.sink or 0) // t), 0 if flight == "prefill" else flight
    is_shared, state, scratch = cache.in_flight_per == "batch", cache.blocks or 1, None
    if cache.scratch is not None:
        scratch = (*cache.scratch.fraction.as_integer_ratio(), cache.scratch.max_rewind)
    groups, extra = cache.groups, cache.extra_blocks
    return Rule(pool, groups, kind, t, extra, sink, window, flight, is_shared, state, scratch)


def structural_floors(rules: Sequence[Rule], pools: int) -> list[int]:
    """Usable blocks by pool whatever the batches, where a window is live (TensorRT-LLM V2).

    m (S + (W + t - 2)//t + 1) of a live window, m times the largest such figure of a full cache.
    """
    live = [r.kind == "live" and r.sink + (r.window + r.t - 2) // r.t + 1 for r in rules]
    floors, others = [0] * pools, {"full": max(live, default=0), "peak": 1, "reach": 1}
    for rule, blocks in zip(rules, live, strict=True) if others["full"] else ():
        floors[rule.pool] += rule.m * (blocks or others.get(rule.kind, rule.state))
    return floors


def most(a: Ints, b: Ints) -> Ints:
    """The larger of two integers, or of each pair."""
    return a + (b - a) * (b > a)


def stale(rule: Rule, history: Ints) -> tuple[Ints, Ints]:
    """[a, max(a, (H + 1 - W)//t)) with a = min(ceil(H/t), S); both ends rise with H."""
    first = rule.sink and -most(-history // rule.t, -rule.sink)
    return first, most(first, (history + 1 - rule.window) // rule.t)


def own_blocks(rule: Rule, load: Load, flight: int, prefix: int) -> Ints:
    """Blocks of one request with tokens, beside B = P//t shared ones; groups do not count.

    full: max(0, ceil(C/t) - B) + x; peak: min(ceil(C/t), S + (W + F + t - 3)//t + 1) + x;
    reach: ceil(min(C, R + F)/t) + x; live: b = |[B, ceil(C/t)) - stale(H)| + x, with scratch
    max(0, b - n + ceil(n fraction)), n = |stale(max(0, C - R)) and [max(B, ceil(H/t)), ceil(C/t))|.
    """
    capacity, history, _ = load
    _, _, kind, t, extra, sink, window, tokens, per_batch, _, scratch = rule
    tokens, shared = tokens or flight, prefix and prefix // t
    if kind == "reach":
        capacity = -most(-capacity, -window - (0 if per_batch else tokens))
    blocks = -(-capacity // t)
    if kind == "peak":
        blocks = -most(-blocks, -sink - (window + tokens + t - 3) // t - 1)
    if shared:
        blocks = most(blocks - shared, 0)
    if kind == "live":
        first, stop = stale(rule, history)  # it ends before ceil(C/t)
        blocks = blocks - (most(stop, shared) - most(first, shared) if shared else stop - first)
    if scratch is None:
        return blocks + extra
    num, den, rewind = scratch
    first, stop = stale(rule, most(capacity - rewind, 0))
    written = most(-(-history // t), shared)
    n = most(stop, written) - most(first, written)
    return most(blocks + extra - n + -(-n * num // den), 0)


def shared_blocks(rule: Rule, shared: int, histories: Sequence[int]) -> int:
    """B less the blocks of the prefix that are stale for the lowest and the highest history."""
    if rule.kind != "live":
        return shared
    first: int = stale(rule, max(histories))[0]
    stop: int = stale(rule, min(histories))[1]
    return shared - max(0, min(stop, shared) - first)


class BatchNeed:
    """Raw blocks by pool of one batch; what the given requests hold is counted once."""

    def __init__(self, rules: Sequence[Rule], pools: int, batch: Batch) -> None:
        *columns, fitted = batch.given
        self._rules, self._pools, self._prefix = rules, [0] * pools, batch.shared_prefix
        self.fitted, self._requests = len(fitted), sum(columns[2])
        if not (all(columns[0]) and all(columns[2])):  # some hold no tokens
            kept = [row for row in zip(*columns, strict=True) if row[0] and row[2]]
            columns = [[row[at] for row in kept] for at in range(3)]
        self._columns = columns
        self._own, self._still = dict[int, list[int]](), dict[int, list[int]]()  # by flight
        self._ends = [min(columns[1]), max(columns[1])] if columns[1] else []  # of histories

    def raw(self, fitted: Sequence[Load], flight: int) -> list[int]:
        """By pool, m (own blocks + shared ones + ceil(F/t) of a flight per batch), or of states.

        `fitted` are the requests that may shrink, `flight` the tokens of the prefill.
        """
        if not fitted and flight in self._still:
            return self._still[flight]
        if flight not in self._own:
            self._own[flight] = self.given(flight) if self._ends else [0] * len(self._rules)
        raw, requests = [*self._pools], self._requests + sum([load[2] for load in fitted])
        loads = [load for load in fitted if load[0] and load[2]]  # those with tokens
        histories, prefix = self._ends + [load[1] for load in loads], self._prefix
        for rule, blocks in zip(self._rules, self._own[flight], strict=True):
            pool, m, kind, t, extra, _, _, tokens, per_batch, state, _ = rule
            for load in loads:
                blocks += load[2] * own_blocks(rule, load, flight, prefix)
            if kind == "state":
                blocks = (state + extra) * requests
            elif histories and prefix >= t:
                blocks += shared_blocks(rule, prefix // t, histories)
            if per_batch and histories:
                blocks += -(-(tokens or flight) // t)
            raw[pool] += m * blocks
        if not fitted:
            self._still[flight] = raw
        return raw

    def given(self, flight: int) -> list[int]:
        """Blocks that the given requests hold on their own, by rule."""
        if len(self._columns[0]) < MANY:
            loads, prefix = [*zip(*self._columns, strict=True)], self._prefix
            return [
                sum([n * own_blocks(rule, (c, h, n), flight, prefix) for c, h, n in loads])
                for rule in self._rules
            ]
        return self._counted(self._arrays(flight), flight)

    def _counted(self, load: Load, flight: int) -> list[int]:
        """The same of many requests: rules that differ in their window alone share a pass."""
        import numpy as np

        longest, alike = max(self._ends), dict[tuple[Any, ...], list[int]]()
        for at, rule in enumerate(self._rules):
            is_whole = rule.kind in ("full", "state")
            if rule.kind == "live" and not rule.scratch:
                is_whole = longest < rule.window  # no history has outgrown the window
            key = (rule.t, rule.x) if is_whole else (*rule[2:6], *rule[7:])
            alike.setdefault(key, []).append(at)
        found = [0] * len(self._rules)
        for key, places in alike.items():
            rule, differ = self._rules[places[0]], len(key) > 2
            if differ:
                windows: Ints = np.array([[self._rules[at].window] for at in places], load[0].dtype)
                rule = rule._replace(window=windows)  # [rule, 1]
            totals: Ints = own_blocks(rule, load, flight, self._prefix) @ load[2]
            for place, at in enumerate(places):
                found[at] = int(totals[place] if differ else totals)
        return found

    def _arrays(self, flight: int) -> Load:
        """The columns as arrays, of plain integers where 64 bits are too few."""
        import numpy as np

        rules, capacities = self._rules, self._columns[0]
        wide = max([sum(rule[3:8]) for rule in rules], default=0) + flight + max(capacities)
        wide *= self._requests * max([1, *(rule.scratch[0] for rule in rules if rule.scratch)])
        kind = np.int64 if wide < 2**62 else object
        capacity, history, count = [np.array(column, kind) for column in self._columns]
        return capacity, history, count


class SplitNeed:
    """Raw blocks by pool of a batch whose requests use different caches: each cache by itself."""

    def __init__(self, problem: Problem, rules: Sequence[Rule], batch: Batch) -> None:
        self.fitted, self._pools = len(batch.given.fitted), len(problem.pools)
        fitted = [batch.requests[at].caches for at in batch.given.fitted]
        self._parts = list[tuple[list[int], BatchNeed]]()
        for cache, rule in zip(problem.caches, rules, strict=True):
            mine = [r for r in batch.requests if r.caches is None or cache.name in r.caches]
            alone = batch.model_copy(update={"requests": tuple(mine)})
            used = [at for at, names in enumerate(fitted) if names is None or cache.name in names]
            self._parts.append((used, BatchNeed([rule], self._pools, alone)))

    def raw(self, fitted: Sequence[Load], flight: int) -> list[int]:
        """As of `BatchNeed`."""
        parts = [need.raw([fitted[at] for at in used], flight) for used, need in self._parts]
        return [sum([part[pool] for part in parts]) for pool in range(self._pools)]


def batch_need(problem: Problem, rules: Sequence[Rule], batch: Batch) -> BatchNeed | SplitNeed:
    """What counts the raw blocks of a batch."""
    if batch.is_partial:
        return SplitNeed(problem, rules, batch)
    return BatchNeed(rules, len(problem.pools), batch)


def alone(entry: MixEntry) -> Batch:
    """A batch of one request of a mix."""
    return Batch(name="mix", requests=[Request(capacity=entry.capacity, history=entry.history)])
