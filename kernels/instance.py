"""The integer vocabulary of a problem: what the arithmetic and the search see.

Everything is plain integers (exact fractions in objectives), indexed by position: pools, caches,
batches, fitted requests, chunks, choices. `solver.formulation` builds it from a problem.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple, overload

made = tuple.__new__
"""A NamedTuple from all its fields, in half the time: for what a plan makes for every pool."""

FULL, LIVE, PEAK, FLIGHT, STATE = range(5)
"""Retention rules. FLIGHT is `window, keep in_flight` (reach W - 1) and `chunked` (reach chunk)."""

POW2 = 0
"""As a granule: an allocation is rounded up to a power of two."""

PREFILL = -1
"""As a cache's flight: the chosen chunk times the batches in flight."""


class CacheRule(NamedTuple):
    """How many blocks one cache needs."""

    pool: int
    kind: int
    block_tokens: int = 1  # over all shards
    groups: int = 1
    extra_blocks: int = 0
    reach: int = 0  # LIVE, PEAK: window; FLIGHT: window - 1 or chunk (tokens)
    sink_blocks: int = 0
    flight: int = 1  # tokens, or PREFILL
    flight_per_batch: bool = False
    state_blocks: int = 0
    scratch: tuple[int, int] | None = None  # fraction of a slot: numerator, denominator
    rewind: int = 0


class PoolRule(NamedTuple):
    """One pool; counts are usable blocks unless they say otherwise."""

    name: str
    reserved: int
    least: int  # min_blocks and the structural floor
    most: int | None
    multiple: int
    use_num: int  # resume utilization as a fraction; 1/1 without headroom
    use_den: int


class FixedRequests(NamedTuple):
    """Alike requests whose capacity and count are given."""

    capacity: int
    history: int
    requests: int


class GivenRequests(Sequence[FixedRequests]):
    """Many requests as three columns; rows are made on access.

    Parameters
    ----------
    capacities, histories : tokens by row.
    counts : alike requests by row.
    """

    def __init__(
        self, capacities: Sequence[int], histories: Sequence[int], counts: Sequence[int]
    ) -> None:
        self.columns = (capacities, histories, counts)

    def __len__(self) -> int:
        return len(self.columns[0])

    @overload
    def __getitem__(self, row: int) -> FixedRequests: ...
    @overload
    def __getitem__(self, row: slice) -> tuple[FixedRequests, ...]: ...
    def __getitem__(self, row: int | slice) -> FixedRequests | tuple[FixedRequests, ...]:
        if isinstance(row, slice):
            return tuple(GivenRequests(*(column[row] for column in self.columns)))
        capacities, histories, counts = self.columns
        return FixedRequests(capacities[row], histories[row], counts[row])

    def plain(self) -> Iterator[tuple[int, int, int]]:
        """The rows as plain tuples."""
        return zip(*self.columns, strict=True)

    def __iter__(self) -> Iterator[FixedRequests]:
        return map(FixedRequests, *self.columns)


class VariableRequest(NamedTuple):
    """A request whose capacity (or count) is a variable."""

    name: str
    batch: int
    is_count: bool
    least: int  # tokens, or requests
    most: int | None  # what was asked; None: bounded by the quota
    flight: int  # capacity - history, constant
    capacity: int  # of a count-fitted request
    requests: int  # of a capacity-fitted request
    caches: tuple[int, ...] | None = None  # those that it uses; None: all


class BatchRequests(NamedTuple):
    """What must be servable at once."""

    name: str
    prefix_tokens: int
    fixed: Sequence[FixedRequests]  # those that use all caches
    fitted: tuple[int, ...]
    partial: tuple[tuple[tuple[int, ...], FixedRequests], ...] = ()  # that use some caches only

    def in_cache(self, cache: int, fitted: Sequence[VariableRequest]) -> BatchRequests:
        """The requests that use one cache."""
        rows = [row for caches, row in self.partial if cache in caches]
        mine = [i for i in self.fitted if uses(fitted[i].caches, cache)]
        return self._replace(fixed=(*self.fixed, *rows), fitted=tuple(mine), partial=())

    def is_split(self, fitted: Sequence[VariableRequest]) -> bool:
        """Whether the caches have different requests."""
        return bool(self.partial) or any(fitted[i].caches is not None for i in self.fitted)


def uses(caches: tuple[int, ...] | None, cache: int) -> bool:
    """Whether a request that uses some caches, or all, uses one of them."""
    return caches is None or cache in caches


Buffers = tuple[tuple[int, int], ...]
"""(block bytes, granule bytes) of every allocation of a pool on one rank; POW2 as a granule."""


class Part(NamedTuple):
    """ceil((base + slope x C) / den) and the table's entry at C, rounded up to the granule.

    Base and slope are those of a chunk. Neither they nor the table's bytes ever fall.
    """

    bases: tuple[int, ...]  # by chunk index, times den
    slopes: tuple[int, ...]  # by chunk index, for a token of context, times den
    den: int
    table: tuple[tuple[int, int], ...]  # (tokens, bytes): the first entry with tokens >= C
    granule: int  # or POW2


class Workspace(NamedTuple):
    """Staging that follows the capacity of a variable request: of its parts the largest counts."""

    fitted: int
    parts: tuple[Part, ...]


class Budget(NamedTuple):
    """One budget: the bytes of a rank in a phase must not exceed the limit."""

    rank: int
    phase: str
    limit_bytes: int  # quota less fixed consumers
    pools: tuple[Buffers, ...]  # by pool; empty where the pool takes nothing
    layers: int  # of expert slots
    lent: bool  # experts count with the slots that stay during prefill
    staging: tuple[int, ...]  # bytes by chunk index; empty without staging
    options: tuple[tuple[int, ...], ...]  # bytes by choice and option
    quota: int = 0  # for reports: limit + fixed consumers
    workspaces: tuple[Workspace, ...] = ()  # staging beside `staging`


class ExpertRule(NamedTuple):
    """Expert slots."""

    least: int
    most: int | None
    sizes: tuple[tuple[int, int], ...]  # (slots, bytes of each), the last one open-ended
    granule: int
    keep: int
    lend_num: int  # share that may be lent; 0/1 when nothing is
    lend_den: int


class Variable(NamedTuple):
    """A variable by kind and position (of the pool, fitted request, choice or batch)."""

    kind: str  # blocks, capacity, count, prefill, experts, choice, copies, scale
    position: int = 0


Curve = tuple[tuple[Fraction, Fraction], ...]


class ObjectiveTerm(NamedTuple):
    """weight x variable, or weight x curve(variable)."""

    variable: Variable
    weight: Fraction
    curve: Curve | None


class Objective(NamedTuple):
    """A goal: the sum of its members is maximised."""

    label: str
    members: tuple[ObjectiveTerm, ...]
    single: Variable | None  # of a plain goal: one member, positive weight, no curve
    pool: int | None  # whose blocks are the whole goal, counted once each

    @classmethod
    def of(cls, label: str, members: tuple[ObjectiveTerm, ...]) -> Objective:
        """Tell a plain goal once, when it is written down."""
        (variable, weight, curve), *others = members
        is_plain = not others and curve is None and weight > 0
        pool = variable.position if variable.kind == "blocks" and is_plain and weight == 1 else None
        return cls(label, members, variable if is_plain else None, pool)


class LinearConstraint(NamedTuple):
    """least <= sum(coefficient x variable) <= most, all integers after scaling.

    A coefficient on Variable("option", choice) counts 1 where option `option` is chosen.
    """

    members: tuple[tuple[int, Variable, int], ...]  # coefficient, variable, option (-1 if none)
    least: int | None
    most: int | None


class MixRule(NamedTuple):
    """A length of request in the mix that fills."""

    capacity: int
    history: int
    share: Fraction


class Instance(NamedTuple):
    """A whole problem in integers."""

    pools: tuple[PoolRule, ...]
    caches: tuple[CacheRule, ...]
    batches: tuple[BatchRequests, ...]
    fitted: tuple[VariableRequest, ...]
    chunks: tuple[int, ...]  # tokens, rising; (0,) without a prefill section
    batches_in_flight: int
    experts: ExpertRule | None
    choices: tuple[int, ...]  # number of options of each
    budgets: tuple[Budget, ...]  # merged: equal left sides keep the smallest limit
    objectives: tuple[Objective, ...]  # the user's, the default ones, then fill
    fill_from: int  # first goal of fill
    constraints: tuple[LinearConstraint, ...]
    fill_batch: int | None
    fill_pools: tuple[int, ...]
    fill_shares: tuple[tuple[int, Fraction], ...]
    every_budget: tuple[Budget, ...]  # not merged: one for each rank, phase and bound
    fill_mix: tuple[MixRule, ...] = ()
    runs: bool = False  # whether the last pool counts running requests, which no user names
    has_contexts: bool = False  # whether staging follows a capacity, given or variable

    @property
    def named_pools(self) -> tuple[PoolRule, ...]:
        """The pools of the problem."""
        return self.pools[:-1] if self.runs else self.pools

    @property
    def blocks_are_coupled(self) -> bool:
        """Whether a linear constraint or a weighted goal ties blocks to something else.

        If not, fill is arithmetic once everything else is decided.
        """
        tied = [variable for c in self.constraints for _, variable, _ in c.members]
        tied += [
            term.variable for goal in self.objectives if not goal.single for term in goal.members
        ]
        return any(variable.kind in ("blocks", "copies") for variable in tied)

    @property
    def pools_from(self) -> int:
        """The first objective of fill from which on only pools are raised, one after the other."""
        first = len(self.objectives)
        for goal in reversed(self.objectives[self.fill_from :]):
            if goal.pool is None:
                break
            first -= 1
        return first
