"""Blocks that batches need, from the table of retention rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kvplan.models.demands import Batch
from kvplan.models.pools import Cache
from kvplan.models.problem import Problem

Ints = Any  # an integer, or an array of them
Pick = Callable[[Ints, Ints], Ints]  # min or max, or NumPy's of arrays
Load = tuple[Ints, Ints, Ints]  # tokens C of capacity and H of history, and how many are alike
MANY = 24  # requests from which arrays are faster


class Rule(NamedTuple):
    """A cache in integers."""

    pool: int
    kind: str  # full, live, peak, state, or reach: window in_flight and chunked
    t: int  # tokens of a block over all shards
    m: int  # groups
    x: int  # extra blocks
    sink: int  # S, blocks
    window: int  # W, tokens; of `reach` R: what is seen before the flight
    flight: int  # F, tokens; 0: those of the prefill
    per_batch: bool  # the batch has one flight
    state: int  # blocks
    scratch: tuple[int, int, int] | None  # numerator and denominator of the fraction, rewind


def rule_of(problem: Problem, pools: Sequence[str], cache: Cache) -> Rule:
    """Read a cache, its defaults included."""
    t = (cache.tokens_per_block or problem.tokens_per_block) * (cache.shards or 1)
    kind, window, flight = cache.retention, cache.window or 0, cache.in_flight or 1
    if kind in ("in_flight", "chunked"):
        kind, window = "reach", cache.chunk or window - 1
    pool, sink = pools.index(problem.pool_of(cache)), -(-(cache.sink or 0) // t)
    flight, per_batch = 0 if flight == "prefill" else flight, cache.in_flight_per == "batch"
    saved = cache.scratch
    scratch = (*saved.fraction.as_integer_ratio(), saved.max_rewind) if saved else None
    sizes = (t, cache.groups, cache.extra_blocks, sink, window)
    return Rule(pool, kind, *sizes, flight, per_batch, cache.blocks or 1, scratch)


def structural_floors(rules: Sequence[Rule], pools: int) -> list[int]:
    """Usable blocks by pool whatever the batches, where a window is live (TensorRT-LLM V2).

    m (S + (W + t - 2)//t + 1) of a live window, m times the largest such figure of a full cache.
    """
    live = [(r.sink + (r.window + r.t - 2) // r.t + 1) * (r.kind == "live") for r in rules]
    floors, largest = [0] * pools, max(live, default=0)
    for rule, blocks in zip(rules, live, strict=True) if largest else ():
        others = {"full": largest, "state": rule.state}
        floors[rule.pool] += rule.m * (blocks or others.get(rule.kind, 1))
    return floors


def stale(rule: Rule, history: Ints, least: Pick = min, most: Pick = max) -> tuple[Ints, Ints]:
    """[a, max(a, (H + 1 - W)//t)) with a = min(ceil(H/t), S); both ends rise with H."""
    first = rule.sink and least(-(-history // rule.t), rule.sink)
    return first, most(first, (history + 1 - rule.window) // rule.t)


def own_blocks(
    rule: Rule, load: Load, flight: int, shared: int, least: Pick = min, most: Pick = max
) -> Ints:
    """Blocks of one request with tokens, beside B shared ones of a prefix; groups do not count.

    full: max(0, ceil(C/t) - B) + x; peak: min(ceil(C/t), S + (W + F + t - 3)//t + 1) + x;
    reach: ceil(min(C, R + F)/t) + x; live: b = |[B, ceil(C/t)) - stale(H)| + x, with scratch
    max(0, b - n + ceil(n fraction)), n = |stale(max(0, C - R)) and [max(B, ceil(H/t)), ceil(C/t))|.
    """
    (capacity, history, _), t = load, rule.t
    end = -(-capacity // t)
    if rule.kind == "state":
        return 0  # blocks of states do not go by tokens
    if rule.kind == "full":
        return (most(end - shared, 0) if shared else end) + rule.x
    if rule.kind == "peak":
        return least(end, rule.sink + (rule.window + flight + t - 3) // t + 1) + rule.x
    if rule.kind == "reach":
        seen = rule.window + (0 if rule.per_batch else flight)
        return -(-least(capacity, seen) // t) + rule.x
    first, stop = stale(rule, history, least, most)
    gone = most(least(end, stop) - (most(first, shared) if shared else first), 0)
    blocks = (most(end - shared, 0) if shared else end) - gone + rule.x
    if rule.scratch is None:
        return blocks
    num, den, rewind = rule.scratch
    first, stop = stale(rule, most(capacity - rewind, 0), least, most)
    n = most(least(end, stop) - most(most(first, shared), -(-history // t)), 0)
    return most(blocks - n + -(-n * num // den), 0)


def shared_blocks(rule: Rule, shared: int, histories: Sequence[int]) -> int:
    """B less the blocks of the prefix that are stale for the lowest and the highest history."""
    if rule.kind != "live":
        return shared
    first: int = stale(rule, max(histories))[0]
    stop: int = stale(rule, min(histories))[1]
    return shared - max(0, min(stop, shared) - first)


def sums_of(
    rules: Sequence[Rule], columns: Sequence[Sequence[int]], prefix: int, flight: int
) -> list[int]:
    """Blocks that requests with tokens hold on their own, by rule; columns as in `Batch.given`."""
    loads: list[Load] = [*zip(*columns, strict=True)] if len(columns[0]) < MANY else []
    picks: tuple[Pick, Pick] = (min, max)
    if not loads and columns[0]:
        import numpy as np

        wide = max([sum(r[2:8]) for r in rules], default=0) + flight + max(columns[0])
        wide *= sum(columns[2]) * max([1, *(r.scratch[0] for r in rules if r.scratch)])
        kind = np.int64 if wide < 2**62 else object  # plain integers where 64 bits are too few
        capacity, history, count = [np.array(column, kind) for column in columns]
        loads, picks = [(capacity, history, count)], (np.minimum, np.maximum)
    longest, known = max(columns[1], default=0), dict[Rule, int]()
    sums = []
    for each in rules:
        r = each
        if picks[0] is not min and r.kind == "live" and not r.scratch and longest < r.window:
            # No history has outgrown the window: it holds what a full cache of its blocks does.
            r = Rule(0, "full", r.t, 1, r.x, 0, 0, 1, per_batch=False, state=1, scratch=None)
        if r not in known:
            tokens, shared = r.flight or flight, prefix // r.t
            own = [load[2] * own_blocks(r, load, tokens, shared, *picks) for load in loads]
            known[r] = sum(own) if picks[0] is min else int(own[0].sum())
        sums.append(known[r])
    return sums


class BatchNeed:
    """Raw blocks by pool of one batch; what no decision moves is counted once."""

    def __init__(self, rules: Sequence[Rule], pools: int, batch: Batch) -> None:
        self._pools, self._prefix = [0] * pools, batch.shared_prefix
        self.fitted = len(batch.given.fitted)
        self._requests, columns = sum(batch.given.counts), batch.given[:3]
        if not (all(columns[0]) and all(columns[2])):  # some hold no tokens
            kept = [row for row in zip(*columns, strict=True) if row[0] and row[2]]
            columns = ([row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept])
        self._histories = [pick(columns[1]) for pick in (min, max) if columns[1]]
        self._columns, self._follows = columns, not all(rule.flight for rule in rules)
        self._rules, self._own = rules, dict[int, list[int]]()  # by flight
        self._still = dict[int, list[int]]()  # raw blocks without a fitted request, by flight

    def raw(self, loads: Sequence[Load], flight: int) -> list[int]:
        """By pool, m (own blocks + shared ones + ceil(F/t) of a flight per batch), or of states.

        `loads` are of the fitted requests, `flight` the tokens of the prefill.
        """
        flight = flight if self._follows else 0
        if not loads and flight in self._still:
            return self._still[flight]
        raw, requests = [*self._pools], self._requests + sum([load[2] for load in loads])
        is_still = not loads
        loads = [load for load in loads if load[0] and load[2]]  # those with tokens
        histories = self._histories + [load[1] for load in loads]
        if flight not in self._own:
            self._own[flight] = sums_of(self._rules, self._columns, self._prefix, flight)
        for rule, blocks in zip(self._rules, self._own[flight], strict=True):
            tokens, shared = rule.flight or flight, self._prefix // rule.t
            if rule.kind == "state":
                blocks = (rule.state + rule.x) * requests
            elif histories:
                for load in loads:
                    blocks += load[2] * own_blocks(rule, load, tokens, shared)
                blocks += shared_blocks(rule, shared, histories) if shared else 0
                blocks += -(-tokens // rule.t) if rule.per_batch else 0
            raw[rule.pool] += rule.m * blocks
        if is_still:
            self._still[flight] = raw
        return raw
