"""Problem -> placement program: what a slot takes at given values, and what spaces leave for it."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple, cast

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from kvplan.models import Problem
from kvplan.models.place import HOP, PIPELINED, PLACE_GOALS, LayerRun, Place, Used
from kvplan.solver.formulate.formulation import formulate
from kvplan.solver.place.search.pipeline_stages import Stages
from kvplan.solver.place.search.spread import ExpertReach, Objective, Slot, Space, Spread, Tensor


class Values(NamedTuple):
    """What is decided beside the placement.

    Attributes
    ----------
    fitted : capacity or count of each fitted request.
    chunk : position of the prefill chunk.
    blocks : usable blocks at least, by pool.
    """

    fitted: tuple[int, ...]
    chunk: int
    blocks: tuple[int, ...]


class Program:
    """A problem with a placement, read once."""

    def __init__(self, problem: Problem) -> None:
        assert problem.place is not None
        self.problem, self.place = problem, problem.place
        self.instance: Instance = formulate(without_placement(problem)).instance
        self.demand = Demand(self.instance)
        names = [rank.name for rank in problem.ranks]
        order = self.place.order if isinstance(self.place.order, tuple) else tuple(names)
        self.order = [names.index(name) for name in order]
        host = self.place.host
        self.host = None if host is None else self.order.index(names.index(host))
        self.runs = self.place.each
        self.more: dict[int, int] = {}  # bytes beside its quota, by rank
        self._tensors = {run: tensors_of(run, self.place) for run in self.place.layers}

    def tensors(self, run: LayerRun) -> tuple[Tensor, ...]:
        """What of a layer's experts moves as one."""
        return self._tensors[run]

    def least(self) -> Values:
        """Everything at its least."""
        return Values(tuple(f.least for f in self.instance.fitted), 0, (0,) * self.pools)

    @property
    def pools(self) -> int:
        """Number of pools."""
        return len(self.instance.pools)

    def usable(self, values: Values) -> list[int] | None:
        """Usable blocks by pool; None where a pool may not have so many."""
        capacities, counts = [], []
        for fitted, value in zip(self.instance.fitted, values.fitted, strict=True):
            capacities.append(fitted.capacity if fitted.is_count else value)
            counts.append(value if fitted.is_count else fitted.requests)
        floors = self.demand.floors(values.chunk, capacities, counts)
        least = [max(floor, held) for floor, held in zip(floors, values.blocks, strict=True)]
        usable = self.demand.legal(least)
        pools = zip(usable, self.instance.pools, strict=True)
        return None if any(p.most is not None and n > p.most for n, p in pools) else usable

    def context_tokens(self, values: Values) -> int:
        """The longest request's capacity."""
        given = [r.capacity for b in self.problem.batches for r in b.requests if r.fit == "none"]
        fitted = zip(self.instance.fitted, values.fitted, strict=True)
        given += [f.capacity if f.is_count else value for f, value in fitted]
        return max(given, default=0)

    def rooms(self, values: Values) -> list[tuple[int, int]]:
        """Bytes for the placement by rank, in the tightest phase but load, and in load.

        Ends with a space of their own are off; an output there, with its draft and its buffers.
        """
        rooms, loads = dict[int, int](), dict[int, int]()
        for budget in self.instance.every_budget:
            staging = budget.staging[values.chunk] if budget.staging else 0
            left, kept = budget.limit_bytes - staging, rooms
            if budget.phase == "load":
                kept = loads
            kept[budget.rank] = min(kept.get(budget.rank, left), left)
        ranks = range(len(self.problem.ranks))
        more = [self.more.get(rank, 0) for rank in ranks]
        found = [(rooms[rank] + more[rank], loads[rank] + more[rank]) for rank in ranks]
        names = [rank.name for rank in self.problem.ranks]
        for name in self.place.ends.first.spaces or ():
            _take(found, names.index(name), self.place.ends.first.bytes)
        for name in self.place.ends.last.spaces or ():
            weights = self.place.ends.last.bytes + self.place.ends.draft.bytes
            _take(found, names.index(name), weights, self.draft_bytes(self.usable(values) or []))
        return found

    def pinned_output(self) -> int | None:
        """Rank of an output with a space of its own."""
        names = [rank.name for rank in self.problem.ranks]
        return next((names.index(name) for name in self.place.ends.last.spaces or ()), None)

    def base_bytes(self, rank: int, values: Values, *, pipelined: bool) -> int:
        """Buffers of a rank in use: base + per_token x context, rounded up once."""
        name, none = self.problem.ranks[rank].name, Used()
        used, others = self.place.used.get(name, none), self.place.used.get(PIPELINED, none)
        each = others.per_token if pipelined and name != self.place.host else used.per_token
        more = others.base if pipelined and name != self.place.host else 0
        return used.base + more + _ceil(each * self.context_tokens(values))

    def cache_bytes(self, run: LayerRun, usable: list[int]) -> int:
        """Bytes of a layer's caches: allocated blocks x bytes of a block in the layer."""
        return sum(self._cache_bytes(run.cache or {}, usable).values())

    def draft_bytes(self, usable: list[int]) -> int:
        """Bytes of the draft's caches."""
        return sum(self._cache_bytes(self.place.ends.draft.cache or {}, usable).values())

    def _cache_bytes(self, caches: Mapping[str, int | None], usable: list[int]) -> dict[str, int]:
        found = {}
        for cache in self.problem.caches:
            if cache.name not in caches:
                continue
            own = caches[cache.name]
            at = [pool.name for pool in self.problem.pools].index(self.problem.pool_of(cache))
            pool = self.problem.pools[at]
            each = own if own is not None else sum(cast("int", b.bytes) for b in pool.layout)
            found[cache.name] = (usable[at] + pool.reserved_blocks) * each
        return found

    def spread(
        self, values: Values, objectives: tuple[Objective, ...], *, pipelined: bool = False
    ) -> Spread | None:
        """The program at some values; None where a pool may not have so many blocks."""
        usable = self.usable(values)
        if usable is None:
            return None
        place, rooms = self.place, self.rooms(values)
        made: dict[LayerRun, Slot] = {}
        for run in place.layers:
            kept = run.dense if place.experts != "none" else run.dense + sum(run.experts)
            held = run.state + self.cache_bytes(run, usable)
            read = run.dense + held + self.dense_experts_read(run)
            made[run] = Slot(kept, kept + held, read, self._tensors[run])
        last = self._last(usable)
        spaces = [self._space(rank, rooms[rank], values, copied=pipelined) for rank in self.order]
        slots = (self._first(made[self.runs[0]]), *(made[run] for run in self.runs[1:]), *last)
        reach: ExpertReach = "own" if place.experts == "none" else place.experts
        return Spread(
            slots,
            tuple(spaces),
            self.host,
            reach,
            place.read.get(HOP, 0),
            place.mirror,
            objectives,
        )

    def _space(self, rank: int, rooms: tuple[int, int], values: Values, *, copied: bool) -> Space:
        """A space; the one of an output is always in use, so its base is taken at once."""
        base, (room, load) = self.base_bytes(rank, values, pipelined=copied), rooms
        name = self.problem.ranks[rank].name
        if rank == self.pinned_output():
            room, load, base = room - base, load - base, 0
        return Space(name, room, load, base, self.place.read.get(name, 0))

    def dense_experts_read(self, run: LayerRun) -> int:
        """Bytes that a token reads of experts that are part of dense."""
        if self.place.experts != "none":
            return 0
        return sum(sum(tensor.reads) for tensor in tensors_of(run, self.place, apart=True))

    def _first(self, slot: Slot) -> Slot:
        """The first layer with the embedding beside it, which is looked up, not read."""
        first = self.place.ends.first
        more = 0 if first.spaces else first.bytes
        return slot._replace(fixed=slot.fixed + more, held=slot.held + more)

    def _last(self, usable: list[int]) -> tuple[Slot, ...]:
        """The output behind the last layer, with a draft; none where it takes nothing there."""
        last, draft = self.place.ends.last, self.place.ends.draft
        if last.spaces:
            return ()
        own = last.bytes
        caches = self.draft_bytes(usable)
        fixed = own + draft.bytes
        if not fixed and not caches:
            return ()
        return (Slot(fixed, fixed + caches, own, (), is_layer=False),)

    def stages(self, values: Values) -> Stages | None:
        """The pipeline at some values: bytes of all blocks as those of one; None as for spread."""
        usable = self.usable(values)
        if usable is None:
            return None
        place, rooms = self.place, self.rooms(values)
        pinned = bool(place.ends.last.spaces)
        held = {} if pinned else place.ends.draft.cache or {}
        draft = self._cache_bytes(held, usable)
        by_run = {run: self._cache_bytes(run.cache or {}, usable) for run in place.layers}
        columns = _columns(self.problem, [*(by_run[run] for run in self.runs), draft])
        ends = (place.ends.first, place.ends.last)
        first, last = (0 if end.spaces else end.bytes for end in ends)
        sizes = {run: run.dense + run.state + sum(run.experts) for run in place.layers}
        return Stages(
            layer_bytes=tuple(sizes[run] for run in self.runs),
            columns=tuple(tuple(column[:-1]) for column in columns),
            limits=tuple(
                rooms[rank][0] - self.base_bytes(rank, values, pipelined=False)
                for rank in self.order
            ),
            first=first,
            last=last + (0 if pinned else place.ends.draft.bytes),
            draft_columns=tuple(column[-1] for column in columns),
        )


def _columns(problem: Problem, layers: list[dict[str, int]]) -> list[list[int]]:
    """A column for each cache of the pool that several share, with the other pools' in each."""
    names = [
        [c.name for c in problem.caches if problem.pool_of(c) == p.name] for p in problem.pools
    ]
    shared = next((group for group in names if len(group) > 1), names[0] if names else [])
    rest = [name for group in names if group is not shared for name in group]
    return [
        [layer.get(name, 0) + sum(layer.get(other, 0) for other in rest) for layer in layers]
        for name in shared
    ] or [[0] * len(layers)]


def tensors_of(run: LayerRun, place: Place, *, apart: bool = False) -> tuple[Tensor, ...]:
    """What of a layer's experts moves as one; nothing where they are part of dense.

    A token reads bytes x active of a tensor, bytes x frequency of a single expert, rounded down.
    """
    if place.experts == "none" and not apart:
        return ()
    shares = run.frequency or (run.active,) * len(run.experts)
    reads = [int(size * share) for size, share in zip(run.experts, shares, strict=True)]
    if place.unit == "layer" and reads:
        return (Tensor(sum(run.experts), tuple(reads)),)
    return tuple(Tensor(size, (read,)) for size, read in zip(run.experts, reads, strict=True))


def _take(rooms: list[tuple[int, int]], rank: int, weights: int, caches: int = 0) -> None:
    """Take bytes of a rank's rooms; caches are not there in load."""
    room, load = rooms[rank]
    rooms[rank] = (room - weights - caches, load - weights)


def without_placement(problem: Problem) -> Problem:
    """The problem as its pools alone: no placement, nor goals and rows that it decides."""
    goals = tuple(goal for goal in problem.goals if goal.single not in PLACE_GOALS)
    return problem.model_copy(update={"place": None, "goals": goals, "constraints": ()})


def _ceil(exact: Fraction) -> int:
    return -int(-exact // 1)
