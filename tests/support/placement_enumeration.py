"""Placement problems as plain data: every placement at every context, from the format alone.

Small numbers; nothing of the product is used. Costs are told in the order of the goals.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from math import ceil
from typing import Any, NamedTuple

PLACED = ("speed", "layers_on_gpu", "experts_on_gpu")


class Layout(NamedTuple):
    """A space for each layer, for the output, and for each expert tensor by layer."""

    layers: tuple[str, ...]
    output: str
    experts: tuple[tuple[str, ...], ...]
    pipelined: bool = False


class Enumeration:
    """One problem."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.place = data, data["place"]
        self.names = [rank["name"] for rank in data["ranks"]]
        self.quota = {rank["name"]: rank["quota"] for rank in data["ranks"]}
        self.order = self.place.get("order") or self.names
        self.host = self.place.get("host")
        self.cards = [name for name in self.order if name != self.host]
        self.layers = [run for run in self.place["layers"] for _ in range(run["count"])]
        self.ends = self.place.get("ends", {})
        self.requests = [r for b in data["batches"] for r in b["requests"]]
        self.pools = {pool["name"]: pool for pool in data["pools"]}

    @property
    def has_output(self) -> bool:
        """Whether something lies behind the last layer."""
        last, draft = self.ends.get("last", {}), self.ends.get("draft", {})
        return not last.get("spaces") and bool(last.get("bytes") or draft)

    def tensors(self, layer: int) -> list[tuple[int, list[int]]]:
        """(bytes, reads) of what moves as one."""
        run = self.layers[layer]
        sizes = run.get("experts", [])
        shares = run.get("frequency") or [run.get("active", 1)] * len(sizes)
        each = [(b, int(b * Fraction(s))) for b, s in zip(sizes, shares, strict=True)]
        if self.place.get("unit") == "layer" and each:
            return [(sum(b for b, _ in each), [read for _, read in each])]
        return [(size, [read]) for size, read in each]

    def homes(self, own: str) -> list[str]:
        """Where experts of a layer may lie."""
        if own == self.host:
            return [own]
        reach = self.place.get("experts", "own")
        at = self.cards.index(own)
        cards = {"own": [own], "next": self.cards[at : at + 2], "any": self.cards}[reach]
        return cards + ([self.host] if self.host else [])

    def layouts(self) -> Iterator[Layout]:
        """Contiguous slices in order, experts where they may lie."""
        count = len(self.layers) + self.has_output
        for cuts in combinations_with_replacement(range(count + 1), len(self.order) - 1):
            bounds = zip(self.order, pairwise((0, *cuts, count)), strict=True)
            slots = [name for name, (i, j) in bounds for _ in range(j - i)]
            own = slots[: len(self.layers)]
            homes = [self.homes(at) for at, _ in self._every(own)]
            for lies in product(*homes):
                queue = list(lies)
                experts = tuple(
                    tuple(queue.pop(0) for _ in self.tensors(at)) for at in range(len(own))
                )
                yield Layout(tuple(own), slots[-1], experts)
                is_home = all(set(e) <= {at} for at, e in zip(own, experts, strict=True))
                is_copied = "pipelined" in self.place.get("used", {}) and self.host not in slots
                if is_home and is_copied:
                    yield Layout(tuple(own), slots[-1], experts, pipelined=True)

    def _every(self, own: list[str]) -> list[tuple[str, int]]:
        return [(at, layer) for layer, at in enumerate(own) for _ in self.tensors(layer)]

    def contexts(self) -> Iterator[tuple[int, ...]]:
        """Capacities of all requests."""
        ranges = [
            range(r.get("min_capacity", 1), r["capacity"] + 1)
            if r.get("fit") == "capacity"
            else [r["capacity"]]
            for r in self.requests
        ]
        yield from product(*ranges)

    def blocks(self, pool: str, capacities: tuple[int, ...]) -> int:
        """Allocated blocks of a pool that hold every batch."""
        queue, most = list(capacities), 0
        for batch in self.data["batches"]:
            mine = [queue.pop(0) for _ in batch["requests"]]
            most = max(most, sum(self._need(c, pool) for c in mine))
        return most + self.pools[pool].get("reserved_blocks", 0)

    def _need(self, capacity: int, pool: str) -> int:
        tokens = self.data.get("tokens_per_block", 16)
        (cache,) = (c for c in self.data["caches"] if c.get("pool", pool) == pool)
        whole = -(-capacity // tokens)
        if cache["kind"] == "state":
            return 1
        if cache["kind"] == "window":
            return min(whole, (cache["window"] + 1 + tokens - 3) // tokens + 1)
        return whole

    def cache_bytes(self, caches: Any, capacities: tuple[int, ...]) -> int:
        """Bytes of a layer's caches."""
        if caches is None:
            return 0
        named = caches if isinstance(caches, dict) else dict.fromkeys(_listed(caches))
        total = 0
        for cache in self.data["caches"]:
            if cache["name"] in named:
                pool = cache.get("pool") or next(iter(self.pools))
                own = named[cache["name"]]
                each = self.pools[pool]["bytes"] if own is None else own
                total += each * self.blocks(pool, capacities)
        return total

    def usage(self, layout: Layout, capacities: tuple[int, ...]) -> dict[str, tuple[int, int]]:
        """Bytes by space: (while loading, at any other time)."""
        load, held = dict.fromkeys(self.names, 0), dict.fromkeys(self.names, 0)

        def add(name: str, weights: int, caches: int = 0) -> None:
            load[name] += weights
            held[name] += weights + caches

        for layer, own in enumerate(layout.layers):
            run = self.layers[layer]
            caches = self.cache_bytes(run.get("cache"), capacities)
            add(own, run["dense"], run.get("state", 0) + caches)
            for (size, _), home in zip(self.tensors(layer), layout.experts[layer], strict=True):
                for at in {home, self.host} if self.place.get("mirror") else {home}:
                    add(at, size)
        first, last = self.ends.get("first", {}), self.ends.get("last", {})
        draft = self.ends.get("draft", {})
        add((first.get("spaces") or [layout.layers[0]])[0], first.get("bytes", 0))
        output = (last.get("spaces") or [layout.output])[0]
        caches = self.cache_bytes(draft.get("cache"), capacities)
        add(output, last.get("bytes", 0) + draft.get("bytes", 0), caches)
        for name in {*layout.layers, output}.union(*layout.experts):
            add(name, self.buffers(name, layout, capacities))
        for consumer in self.data.get("consumers", []):
            for name, size in consumer["bytes"].items():
                load[name] += size * ("load" in consumer.get("phases", ["load"]))
                held[name] += size * ("decode" in consumer.get("phases", ["decode"]))
        return {name: (load[name], held[name]) for name in self.names}

    def buffers(self, name: str, layout: Layout, capacities: tuple[int, ...]) -> int:
        """Bytes of a space in use."""
        used = self.place.get("used", {})
        own, more = used.get(name, {}), used.get("pipelined", {})
        base, each = own.get("base", 0), own.get("per_token", 0)
        if layout.pipelined and name != self.host:
            base, each = base + more.get("base", 0), more.get("per_token", 0)
        return base + ceil(Fraction(each) * max(capacities, default=0))

    def fits(self, layout: Layout, capacities: tuple[int, ...]) -> bool:
        """Within every quota, and every linear row kept."""
        usage = self.usage(layout, capacities)
        if any(max(both) > self.quota[name] for name, both in usage.items()):
            return False
        for row in self.data.get("constraints", []):
            total = Fraction(0)
            for term, factor in row["terms"].items():
                what, name = term.split(":")
                things = layout.layers if what == "layers" else sum(layout.experts, ())
                total += Fraction(factor) * things.count(name)
            if not row.get("min", total) <= total <= row.get("max", total):
                return False
        return True

    def cost(self, goal: str, layout: Layout, capacities: tuple[int, ...]) -> Fraction:
        """What a goal makes small."""
        if goal == "layers_on_gpu":
            return Fraction(layout.layers.count(self.host))
        if goal == "experts_on_gpu":
            return Fraction(sum(lies.count(self.host) for lies in layout.experts))
        if goal == "speed":
            return self.seconds(layout, capacities)
        names = [r.get("name") for r in self.requests]
        return Fraction(-capacities[names.index(goal.partition(":")[2])])

    def seconds(self, layout: Layout, capacities: tuple[int, ...]) -> Fraction:
        """Bytes over bandwidth, and changes of space."""
        read, total = self.place["read"], Fraction(0)
        hops = len({*layout.layers, layout.output}) - 1
        for layer, own in enumerate(layout.layers):
            run = self.layers[layer]
            caches = self.cache_bytes(run.get("cache"), capacities)
            total += Fraction(run["dense"] + run.get("state", 0) + caches, read[own])
            for (_, reads), home in zip(self.tensors(layer), layout.experts[layer], strict=True):
                total += sum(Fraction(each, read[home]) for each in reads)
            hops += 2 * any(home != own for home in layout.experts[layer])
        if not self.ends.get("last", {}).get("spaces"):
            total += Fraction(self.ends.get("last", {}).get("bytes", 0), read[layout.output])
        return total + Fraction(read.get("hop", 0) * hops, 10**12)

    def goals(self) -> list[str]:
        """The user's, then what is fitted, then the placement's own."""
        fitted = [f"capacity:{r['name']}" for r in self.requests if r.get("fit") == "capacity"]
        own = ["speed"] if self.place.get("read") else []
        if not own and self.host:
            own = ["layers_on_gpu", "experts_on_gpu"]
        return list(dict.fromkeys([*self.data.get("goals", []), *fitted, *own]))

    def told(self, layout: Layout, capacities: tuple[int, ...]) -> tuple[Fraction, ...]:
        """Costs in order; copies of inputs where they fit; then the fewest spaces."""
        costs = [self.cost(goal, layout, capacities) for goal in self.goals()]
        return (*costs, Fraction(len({*layout.layers, layout.output})))

    def best(self) -> tuple[Fraction, ...] | None:
        """The least costs; None where nothing fits."""
        found = [
            (self.told(layout, capacities), layout.pipelined, capacities)
            for layout in self.layouts()
            for capacities in self.contexts()
            if self.fits(layout, capacities)
        ]
        plain = min((costs for costs, copied, _ in found if not copied), default=None)
        if plain is None:
            return None
        at = next(c for costs, copied, c in found if costs == plain and not copied)
        return min((costs for costs, copied, c in found if copied and c == at), default=plain)


def _listed(names: str | list[str]) -> list[str]:
    return [names] if isinstance(names, str) else names
