"""Blocks that variable requests need, as rows: one function per rule of retention.

Each ceil and floor is a pair of inequalities; `given` has the constants.
"""

from __future__ import annotations

from kvplan.kernels.instance import FLIGHT, FULL, LIVE, PEAK, PREFILL, CacheRule, Instance
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total
from kvplan.solver.cpsat.program.decision_variables import Variables
from kvplan.solver.cpsat.program.given_needs import Given, placeholder_blocks


class Needs:
    """Raw needs of batches over the model's variables."""

    def __init__(
        self, model: Model, instance: Instance, given: Given, variables: Variables
    ) -> None:
        self.model = model
        self.instance = instance
        self.given = given
        self.variables = variables
        tokens = instance.chunks[: variables.chunk.number]
        flights = [chunk * instance.batches_in_flight for chunk in tokens]
        self.prefill_flight = variables.chunk.tabled(model, flights)

    def raw(self, batch: int) -> list[Linear]:
        """Raw blocks of a batch by pool: given requests, variable ones, shared prefix."""
        given = [self.given.raw(batch, k) for k in self._chunks()]
        forms = [[(1, self._by_chunk([*blocks]))] for blocks in zip(*given, strict=True)]
        for index in self.instance.batches[batch].fitted:
            add = self._counted if self.instance.fitted[index].is_count else self._sized
            for pool, form in enumerate(add(index)):
                forms[pool].append((1, form))
        for rule in self.instance.caches:
            if self.given.prefix_is_open(batch, rule):
                forms[rule.pool].append((1, self._shared(batch, rule)))
        return [total(parts) for parts in forms]

    def _chunks(self) -> range:
        return range(self.variables.chunk.number if self.given.chunk_matters else 1)

    def _by_chunk(self, values: list[int]) -> Linear:
        """A figure that the chunk may decide."""
        if len(set(values)) == 1:
            return constant(values[0])
        return self.variables.chunk.table(self.model, values)

    def _counted(self, index: int) -> list[Linear]:
        """count x need of one, by pool; the need may depend on the chunk."""
        by_chunk = [self.given.one(index, k) for k in self._chunks()]
        return [self._times(index, [*needs]) for needs in zip(*by_chunk, strict=True)]

    def _times(self, index: int, needs: list[int]) -> Linear:
        """count x need, which the chunk may decide."""
        count = self.variables.counts[index]
        if len(set(needs)) == 1:
            return total([(needs[0], count)])
        return self.variables.chunk.times(self.model, needs, count)

    def _sized(self, index: int) -> list[Linear]:
        """Need of a fitted capacity by pool, times its fixed count."""
        forms: list[list[tuple[int, Linear]]] = [[] for _ in self.instance.pools]
        count, used = self.instance.fitted[index].requests, self.instance.fitted[index].caches
        for cache, rule in enumerate(self.instance.caches if count else ()):
            if used is not None and cache not in used:
                continue
            forms[rule.pool].append((count, self._own(index, rule)))
        return [total(parts) for parts in forms]

    def _own(self, index: int, rule: CacheRule) -> Linear:
        """Blocks of one request in one cache, extra blocks and groups included."""
        rules = {FULL: self.full, LIVE: self.live, PEAK: self.peak, FLIGHT: self.in_flight}
        if rule.kind not in rules:
            return constant(placeholder_blocks(rule))  # state, which no capacity decides
        return total([(rule.groups, rules[rule.kind](index, rule))])

    def _prefix_blocks(self, index: int, rule: CacheRule) -> int:
        batch = self.instance.batches[self.instance.fitted[index].batch]
        return batch.prefix_tokens // rule.block_tokens

    def _flight(self, rule: CacheRule) -> Linear:
        return self.prefill_flight if rule.flight == PREFILL else constant(rule.flight)

    def full(self, index: int, rule: CacheRule) -> Linear:
        """ceil(C/t) - B + x."""
        blocks = self.model.ceil_div(self.variables.capacities[index], rule.block_tokens)
        return total(
            [(1, blocks), (1, constant(rule.extra_blocks - self._prefix_blocks(index, rule)))]
        )

    def live(self, index: int, rule: CacheRule) -> Linear:
        """ceil(C/t) - B - max(0, (H+1-W)//t - max(S, B)) + x, less what scratch saves."""
        first = max(rule.sink_blocks, self._prefix_blocks(index, rule))
        stale = self._positive(self._stale_end(index, rule), first)
        own = total([(1, self.full(index, rule)), (-1, stale)])
        if rule.scratch is None:
            return own
        scratch = self._scratch(index, rule, first)
        numerator, denominator = rule.scratch
        slots = self.model.ceil_div(total([(numerator, scratch)]), denominator)
        saved = total([(1, own), (-1, scratch), (1, slots)])
        return self.model.largest(constant(0), saved)

    def _stale_end(self, index: int, rule: CacheRule) -> Linear:
        """(H + 1 - W) // t with H = C - d."""
        offset = 1 - rule.reach - self.instance.fitted[index].flight
        shifted = total([(1, self.variables.capacities[index]), (1, constant(offset))])
        return self.model.floor_div(shifted, rule.block_tokens)

    def _scratch(self, index: int, rule: CacheRule, first: int) -> Linear:
        """max(0, (max(0, C-R) + 1 - W)//t - max(S, B, ceil(H/t)))."""
        model, capacity = self.model, self.variables.capacities[index]
        kept = self._positive(capacity, rule.rewind)
        reached = model.floor_div(
            total([(1, kept), (1, constant(1 - rule.reach))]), rule.block_tokens
        )
        history = total([(1, capacity), (-1, constant(self.instance.fitted[index].flight))])
        written = model.ceil_div(history, rule.block_tokens)
        start = model.largest(constant(first), written)
        return model.largest(constant(0), total([(1, reached), (-1, start)]))

    def _positive(self, form: Linear, less: int) -> Linear:
        """max(0, form - less)."""
        return self.model.largest(constant(0), total([(1, form), (-1, constant(less))]))

    def peak(self, index: int, rule: CacheRule) -> Linear:
        """min(ceil(C/t), S + (W+F+t-3)//t + 1) + x."""
        t, model = rule.block_tokens, self.model
        slide = total([(1, self._flight(rule)), (1, constant(rule.reach + t - 3))])
        worst = total([(1, model.floor_div(slide, t)), (1, constant(rule.sink_blocks + 1))])
        blocks = model.ceil_div(self.variables.capacities[index], t)
        return total([(1, model.smallest(blocks, worst)), (1, constant(rule.extra_blocks))])

    def in_flight(self, index: int, rule: CacheRule) -> Linear:
        """ceil(min(A + F, C) / t) + x; F apart where the whole batch shares it."""
        flight = constant(0) if rule.flight_per_batch else self._flight(rule)
        reach = total([(1, flight), (1, constant(rule.reach))])
        tokens = self.model.smallest(self.variables.capacities[index], reach)
        blocks = self.model.ceil_div(tokens, rule.block_tokens)
        return total([(1, blocks), (1, constant(rule.extra_blocks))])

    def _shared(self, batch: int, rule: CacheRule) -> Linear:
        """B less the blocks stale for every request: [S, min(B, least stale end))."""
        shared = self.instance.batches[batch].prefix_tokens // rule.block_tokens
        given = self.given.stale_end(batch, rule)
        ends = [constant(shared)] + ([] if given is None else [constant(given)])
        for index in self.instance.batches[batch].fitted:
            request = self.instance.fitted[index]
            if request.requests and not request.is_count:
                ends.append(self._stale_end(index, rule))
        dead = self._positive(self.model.smallest(*ends), rule.sink_blocks)
        return total([(rule.groups, constant(shared)), (-rule.groups, dead)])
