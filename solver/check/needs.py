"""Blocks that batches need, from the table of retention rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvplan.models.demands import Batch
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


RUNNING = Rule(-1, 1, "state", 1, 1, 0, 0, 1, per_batch=False, state=0, scratch=None)
"""A running request takes one of the last pool's blocks, which no structural floor counts."""


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
    fields = (pool, cache.groups, kind, t, cache.extra_blocks, sink, window, flight)
    return tuple.__new__(Rule, (*fields, is_shared, state, scratch))  # in half the time of Rule()


def rules_of(problem: Problem) -> list[Rule]:
    """Read the caches of a problem, and last its running requests where they are counted."""
    places: dict[str | None, int] = {pool.name: at for at, pool in enumerate(problem.pools)}
    t = problem.tokens_per_block
    rules = [rule_of(cache, places.get(cache.pool, 0), t) for cache in problem.caches]
    return [*rules, RUNNING] if problem.counts_running else rules


def structural_floors(rules: Sequence[Rule], pools: int) -> list[int]:
    """Usable blocks by pool whatever the batches, where a window is live (TensorRT-LLM V2).

    m (S + (W + t - 2)//t + 1) of a live window, m times the largest such figure of a full cache.
    """
    live = [r.kind == "live" and r.sink + (r.window + r.t - 2) // r.t + 1 for r in rules]
    floors, largest = [0] * pools, max(live, default=0)
    for rule, blocks in zip(rules if largest else (), live, strict=False):
        if rule.kind == "state":
            floors[rule.pool] += rule.m * rule.state
        else:
            floors[rule.pool] += rule.m * (blocks or (largest if rule.kind == "full" else 1))
    return floors


def most(a: Ints, b: Ints) -> Ints:
    """The larger of two integers, or of each pair."""
    return a + (b - a) * (b > a)


def least(a: Ints, b: Ints) -> Ints:
    """The smaller of two integers, or of each pair."""
    return a + (b - a) * (b < a)


def stale(rule: Rule, history: Ints) -> tuple[Ints, Ints]:
    """[a, max(a, (H + 1 - W)//t)) with a = min(ceil(H/t), S); both ends rise with H."""
    first = rule.sink and least(-(-history // rule.t), rule.sink)
    return first, most(first, (history + 1 - rule.window) // rule.t)


def own_blocks(rule: Rule, load: Load, flight: int, prefix: int) -> Ints:
    """Blocks of one request with tokens, beside B = P//t shared ones; groups do not count.

    full: max(0, ceil(C/t) - B) + x; peak: min(ceil(C/t), S + (W + F + t - 3)//t + 1) + x;
    reach: ceil(min(C, R + F)/t) + x; live: b = |[B, ceil(C/t)) - stale(H)| + x, with scratch
    max(0, b - n + ceil(n fraction)), n = |stale(max(0, C - R)) and [max(B, ceil(H/t)), ceil(C/t))|.
    """
    capacity, history, _ = load
    _, _, kind, t, extra, sink, window, tokens, per_batch, _, scratch = rule
    if kind == "reach":
        capacity = least(capacity, window + (0 if per_batch else tokens or flight))
    blocks, shared = -(-capacity // t), prefix // t
    if kind == "peak":
        blocks = least(blocks, sink + (window + (tokens or flight) + t - 3) // t + 1)
    if shared:
        blocks = most(blocks - shared, 0)
    if kind == "live":
        first, stop = stale(rule, history)  # it ends before ceil(C/t)
        if shared:
            first, stop = most(first, shared), most(stop, shared)
        blocks = blocks - (stop - first)
    if scratch is None:
        return blocks + extra if extra else blocks
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
        self.fitted, self._prefix, self._pools = len(fitted), batch.shared_prefix, pools
        self._tokens = [rule for rule in rules if rule.kind != "state"]
        self._states = [rule for rule in rules if rule.kind == "state"]
        self._flights = [rule for rule in self._tokens if rule.per_batch]
        self._requests = sum(columns[2])
        if not (all(columns[0]) and all(columns[2])):  # some hold no tokens
            kept = [row for row in zip(*columns, strict=True) if row[0] and row[2]]
            columns = [[row[at] for row in kept] for at in range(3)]
        self._columns = columns
        self._ends = [min(columns[1]), max(columns[1])] if columns[1] else []  # of histories
        self._given: dict[int, list[int]] = {}  # by flight

    def raw(self, fitted: Sequence[Load], flight: int) -> list[int]:
        """By pool, m (own blocks + shared ones + ceil(F/t) of a flight per batch), or of states.

        `fitted` are the requests that may shrink, `flight` the tokens of the prefill.
        """
        if flight not in self._given:
            self._given[flight] = self.given(flight)
        raw, prefix = [*self._given[flight]], self._prefix
        loads = [load for load in fitted if load[0] and load[2]]  # those with tokens
        for load in loads:
            self._add(raw, load, flight)
        for rule in self._states:
            requests = self._requests + sum([load[2] for load in fitted])
            raw[rule.pool] += rule.m * (rule.state + rule.x) * requests
        histories = self._ends + [load[1] for load in loads]
        if histories:
            for rule in self._flights:
                raw[rule.pool] += rule.m * -(-(rule.flight or flight) // rule.t)
            for rule in self._tokens if prefix else ():
                raw[rule.pool] += rule.m * shared_blocks(rule, prefix // rule.t, histories)
        return raw

    def _add(self, raw: list[int], load: Load, flight: int) -> None:
        prefix, alike = self._prefix, load[2]
        for rule in self._tokens:
            raw[rule.pool] += alike * rule.m * own_blocks(rule, load, flight, prefix)

    def given(self, flight: int) -> list[int]:
        """Blocks by pool that the given requests hold on their own, states apart."""
        raw = [0] * self._pools
        if len(self._columns[0]) >= MANY:
            self._add_many(raw, flight)
        else:
            for load in zip(*self._columns, strict=True):
                self._add(raw, load, flight)
        return raw

    def _add_many(self, raw: list[int], flight: int) -> None:
        """All given requests as arrays; rules that differ in their window alone share a pass."""
        import numpy as np

        wide = max([sum(rule[3:8]) for rule in self._tokens], default=0) + flight
        wide += max(self._columns[0])
        wide *= max([1, *(rule.scratch[0] for rule in self._tokens if rule.scratch)])
        kind = np.int64 if wide * self._requests < 2**62 else object  # object: Python's integers
        capacity, history, count = [np.array(column, kind) for column in self._columns]
        longest, alike = max(self._ends), defaultdict(list)
        for rule in self._tokens:
            # A window that no history has outgrown holds what a full cache does.
            is_unused = rule.kind == "live" and longest < rule.window and not rule.scratch
            is_whole = is_unused or rule.kind == "full"
            alike[(rule.t, rule.x) if is_whole else rule[2:6] + rule[7:]].append(rule)
        for key, rules in alike.items():
            first, differ = rules[0], len(key) > 2
            if differ:
                windows: Ints = np.array([[rule.window] for rule in rules], kind)  # [rule, 1]
                first = first._replace(window=windows)
            blocks = own_blocks(first, (capacity, history, count), flight, self._prefix)
            totals: Ints = blocks @ count
            for at, rule in enumerate(rules):
                raw[rule.pool] += rule.m * int(totals[at] if differ else totals)


class SplitNeed:
    """Raw blocks by pool of a batch whose requests use different caches: each cache by itself."""

    def __init__(self, problem: Problem, rules: Sequence[Rule], pools: int, batch: Batch) -> None:
        self.fitted, self._pools = len(batch.given.fitted), pools
        fitted = [batch.requests[at].caches for at in batch.given.fitted]
        self._parts: list[tuple[list[int], BatchNeed]] = []
        names = [*[cache.name for cache in problem.caches], None]  # None: every running request
        for name, rule in zip(names, rules, strict=False):
            users = [r for r in batch.requests if uses(name, r.caches)]
            alone = batch.model_copy(update={"requests": tuple(users)})
            used = [at for at, caches in enumerate(fitted) if uses(name, caches)]
            self._parts.append((used, BatchNeed([rule], pools, alone)))

    def raw(self, fitted: Sequence[Load], flight: int) -> list[int]:
        """As of `BatchNeed`."""
        parts = [need.raw([fitted[at] for at in used], flight) for used, need in self._parts]
        return [sum([part[pool] for part in parts]) for pool in range(self._pools)]


def uses(cache: str | None, caches: Sequence[str] | None) -> bool:
    """Whether a request with these caches uses one."""
    return cache is None or caches is None or cache in caches
