"""What a plan decides, carried out: blocks that requests hold, bytes that live on ranks."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from kvplan.models.demands import Batch, Request
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.plan import Plan, RequestPlan
from kvplan.models.pools import Pool
from kvplan.models.problem import Problem, request_name
from kvplan.solver.oracle import needs
from kvplan.solver.oracle.memory import Residents, contexts_of, usage


def request_pairs(problem: Problem) -> dict[tuple[str, str], tuple[Batch, Request]]:
    """Requests of a problem by batch and name."""
    return {
        (batch.name, request_name(batch, index)): (batch, request)
        for batch in problem.batches
        for index, request in enumerate(batch.requests)
    }


@dataclass(frozen=True)
class Replay:
    """A plan beside its problem; names must match."""

    problem: Problem
    plan: Plan

    @cached_property
    def sized(self) -> dict[tuple[str, str], RequestPlan]:
        """Requests of the plan by batch and name."""
        return {(each.batch, each.name): each for each in self.plan.requests}

    @cached_property
    def raws(self) -> dict[str, dict[str, int]]:
        """Blocks that every batch holds, by batch and pool."""
        pairs = request_pairs(self.problem)
        loads: dict[str, list[needs.Load]] = {batch.name: [] for batch in self.problem.batches}
        for each in self.plan.requests:
            _, request = pairs[each.batch, each.name]
            sizes = (each.capacity, each.history, each.count)
            loads[each.batch].append(needs.Load(*sizes, request.caches))
        return {
            batch.name: needs.raw_needs(
                self.problem, batch, loads[batch.name], self.plan.prefill_chunk
            )
            for batch in self.problem.batches
        }

    @cached_property
    def structural(self) -> dict[str, int]:
        """Structural floors by pool."""
        return needs.structural_floors(self.problem)

    def usable(self, pool: Pool) -> int:
        """Usable blocks of a pool."""
        return self.plan.blocks[pool.name] - pool.reserved_blocks

    def in_use(self, pool: Pool) -> int:
        """Blocks of a pool that may be in use when a request is admitted."""
        return needs.blocks_in_use(self.usable(pool), needs.headroom(self.problem, pool))

    def copies(self, batch: str) -> int:
        """Whole copies of a batch that the blocks hold."""
        in_use = {pool.name: self.in_use(pool) for pool in self.problem.pools}
        raw = self.raws[batch]
        if self.plan.running is not None:
            raw, in_use = {**raw, "": self.runs[batch]}, {**in_use, "": self.plan.running}
        return needs.copies_held(raw, in_use)

    @cached_property
    def runs(self) -> dict[str, int]:
        """Requests that run at once, by batch."""
        found = {batch.name: 0 for batch in self.problem.batches}
        for each in self.plan.requests:
            found[each.batch] += each.count
        return found

    @cached_property
    def residents(self) -> Residents:
        """What lives on every rank."""
        chosen = tuple(
            next(each for each in choice.options if each.name == self.plan.choices[choice.name])
            for choice in self.problem.choices
        )
        return Residents(
            self.plan.blocks,
            self.plan.prefill_chunk,
            self.plan.expert_slots,
            self.plan.expert_slots_in_prefill,
            chosen,
            contexts_of(self.problem, {at: each.capacity for at, each in self.sized.items()}),
            self.plan.running or 0,
        )

    @cached_property
    def used(self) -> dict[str, dict[str, int]]:
        """Bytes in use by rank and phase."""
        return {rank.name: usage(self.problem, rank, self.residents) for rank in self.problem.ranks}

    @property
    def scale(self) -> Fraction | None:
        """How much of the fill mix the blocks hold."""
        usable = {pool.name: self.usable(pool) for pool in self.problem.pools}
        return needs.scale_held(self.problem, usable, self.plan.prefill_chunk, self.plan.running)

    def value(self, variable: str) -> int | Fraction:
        """Value of a variable of goals and constraints."""
        if variable == "scale":
            return self.scale or Fraction(0)
        kind, _, name = variable.partition(":")
        if kind == "prefill":
            return self.plan.prefill_chunk or 0
        if kind == "experts":
            return self.plan.expert_slots or 0
        if kind == "blocks":
            return self.usable(next(pool for pool in self.problem.pools if pool.name == name))
        if kind == "copies":
            return self.copies(name)
        if kind == "choice":
            return self._choice(name)
        fit = {"capacity": "capacity", "count": "count"}[kind]
        batch, _ = self.problem.fitted(fit)[name]
        return int(getattr(self.sized[batch.name, name], kind))

    def _choice(self, name: str) -> int:
        """Minus the index of the option taken (choice:x), or 1 where it is taken (choice:x=o)."""
        for choice in self.problem.choices:
            taken = self.plan.choices[choice.name]
            for index, option in enumerate(choice.options):
                if name == choice.name and option.name == taken:
                    return -index
                if name == f"{choice.name}={option.name}":
                    return int(option.name == taken)
        raise KeyError(name)
