"""Where the token-exact optimum of a variable capacity can stand, and where its need is least.

As C grows by one with d = C - H fixed, a need rises only just after a *stepping* capacity and falls
only at a *falling* one; within one residue class modulo the period it never falls. So the largest
C that fits is the requested one or a stepping capacity, found by one search a class; and the least
needs stand at the lower bound or at a falling capacity of the first period.
"""

from __future__ import annotations

from math import gcd, lcm

from kvplan.kernels.instance import LIVE, STATE, Instance
from kvplan.models.immutable.lazy import cached_property

Progression = tuple[int, int]
"""(t, offset): every C = offset mod t."""


def live_blocks(instance: Instance) -> set[int]:
    """Block tokens of the live windows."""
    return {rule.block_tokens for rule in instance.caches if rule.kind == LIVE}


def live_period(instance: Instance) -> int:
    """Tokens after which the live windows' needs repeat but for a rise; 1 without any."""
    return lcm(*live_blocks(instance))


def stepping(instance: Instance, fitted: int) -> list[Progression]:
    """Capacities just after which some need may rise.

    C = 0 mod t of every cache; with scratch or a prefix beside a live window also C = d and
    C = R mod t; every C where staging follows it.
    """
    request = instance.fitted[fitted]
    prefix = instance.batches[request.batch].prefix_tokens
    found = {(rule.block_tokens, 0) for rule in instance.caches if rule.kind != STATE}
    for rule in instance.caches:
        if rule.kind == LIVE and (rule.scratch or prefix):
            t = rule.block_tokens
            found |= {(t, request.flight % t), (t, rule.rewind % t)}
    rows = instance.budgets if instance.has_contexts else ()
    if any(each.fitted == fitted for budget in rows for each in budget.workspaces):
        found.add((1, 0))
    return sorted(found)


def falling(instance: Instance, fitted: int) -> list[Progression]:
    """Capacities at which some need may fall.

    Only a live window's need falls: where one more block goes stale, H + 1 - W = 0 mod t, and
    with scratch where one more block becomes scratch, C - R + 1 - W = 0 mod t.
    """
    request = instance.fitted[fitted]
    found = set()
    for rule in instance.caches:
        if rule.kind == LIVE:
            t = rule.block_tokens
            found.add((t, (request.flight + rule.reach - 1) % t))
            if rule.scratch:
                found.add((t, (rule.rewind + rule.reach - 1) % t))
    return sorted(found)


class Residues:
    """Residue classes of one variable capacity.

    Attributes
    ----------
    period : tokens from one capacity of a class to the next. Without a live window no need ever
        falls, so the classes may be as fine as the blocks allow.
    """

    def __init__(self, instance: Instance, fitted: int) -> None:
        steps = stepping(instance, fitted)
        live = live_blocks(instance)
        self.period = lcm(*live) if live else gcd(*[t for t, _ in steps]) or 1
        self._stepping = steps or [(1, 0)]
        self._instance, self._fitted = instance, fitted

    @cached_property
    def _falling(self) -> list[Progression]:
        return falling(self._instance, self._fitted)

    @property
    def most_classes(self) -> int:
        """How many classes hold a stepping capacity, at most."""
        return sum(self.period // gcd(t, self.period) for t, _ in self._stepping)

    @cached_property
    def classes(self) -> list[int]:
        """Residues modulo the period that hold a stepping capacity."""
        return self.firsts(0, self.period)[::-1]

    def firsts(self, low: int, high: int) -> list[int]:
        """The first capacity in [low, high] of every class, the largest one first.

        Within less than a period, only the stepping capacities themselves.
        """
        last = min(high, low + self.period - 1)
        points: set[int] = set()
        for t, offset in self._stepping:
            stride = t if last == high else gcd(t, self.period)
            points.update(range(low + (offset - low) % stride, last + 1, stride))
        return sorted(points, reverse=True)

    def least(self, low: int, high: int) -> list[int]:
        """Capacities in [low, high] among which the least needs stand."""
        end = min(high, low + self.period)
        points = {low}
        for t, offset in self._falling:
            points.update(range(low + 1 + (offset - low - 1) % t, end + 1, t))
        return sorted(points)


def count_least(instance: Instance, fitted: int) -> int:
    """How many capacities `Residues.least` would list, at most."""
    request = instance.fitted[fitted]
    span = min((request.most or 0) - request.least, live_period(instance))
    return sum(span // t + 1 for t, _ in falling(instance, fitted))
