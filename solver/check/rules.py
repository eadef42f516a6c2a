"""Every rule that a plan must keep, one line for each that it breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from kvplan.models.problem import Problem
from kvplan.models.units import exact_bytes
from kvplan.solver.check.bytes import (
    auto_granule,
    layout_of,
    limits_of,
    pools_bytes,
    quota_of,
    slots_bytes,
    staging_bytes,
)
from kvplan.solver.check.limits import (
    Fitted,
    expert_faults,
    fitted_of,
    is_candidate,
    least_kept,
    pools_of,
    rows_of,
    variables_of,
)
from kvplan.solver.check.needs import BatchNeed, rules_of, structural_floors


class Decisions(NamedTuple):
    """What a plan decides, in the order that the problem is written."""

    blocks: tuple[int, ...]  # allocated, reserved ones included, by pool
    fitted: tuple[tuple[int, int], ...]  # (capacity, count) of each request that may shrink
    chunk: int | None  # tokens
    options: tuple[int, ...]  # positions, by choice
    slots: int | None  # expert slots a layer
    kept: int | None  # of them, those that stay during prefill
    copies: int | None  # of the batch that fill names


class Held(Protocol):
    """What a resize keeps: bytes of an "auto" granule by rank, usable blocks at least by pool."""

    @property
    def granules(self) -> Mapping[str, int]: ...
    @property
    def floors(self) -> Mapping[str, int]: ...


Blocks = list[int]


class Check:
    """The rules of one problem, read once and kept where it is planned again.

    Parameters
    ----------
    held : granules and floors that a resize keeps.
    """

    def __init__(self, problem: Problem, held: Held | None = None) -> None:
        self.problem = problem
        rules = rules_of(problem)
        self._fitted: list[Fitted] = []
        self._batches: list[BatchNeed] = []
        for batch in problem.batches:
            mine = range(len(self._fitted), len(self._fitted) + len(batch.given.fitted))
            self._fitted += fitted_of(batch)
            self._batches.append(BatchNeed(rules, len(problem.pools), batch, mine))
        self._pools = pools_of(
            problem,
            structural_floors(rules, len(problem.pools)),
            {} if held is None else held.floors,
        )
        self._granules = {} if held is None else held.granules
        self._quotas = [quota_of(rank) for rank in problem.ranks]
        self._limits = [limits_of(problem, rank) for rank in problem.ranks]
        self._has_auto = problem.has_auto_granules
        self._layouts: dict[tuple[int, int], list[list[tuple[int, int]]]] = {}
        self._staging: dict[tuple[int, int | None], int] = {}
        known = variables_of(problem, self._fitted) if problem.constraints or problem.fill else {}
        self._rows, self._known = rows_of(problem, known), known
        fill = problem.fill
        names = [batch.name for batch in problem.batches]
        self._copied = None if fill is None or fill.batch is None else names.index(fill.batch)
        pools = {pool.name: index for index, pool in enumerate(problem.pools)}
        shares = (fill.shares or {}) if fill is not None else {}
        self._shares = {pools[name]: share for name, share in shares.items()}

    def broken(self, decisions: Decisions, quotas: Sequence[int] | None = None) -> list[str]:
        """Every rule that decisions break, one line each.

        Parameters
        ----------
        quotas : bytes by rank, where they are not the problem's own.
        """
        found = [
            *self._ranges(decisions),
            *expert_faults(self.problem.experts, decisions.slots, decisions.kept),
        ]
        if found:
            return found  # values that may not be taken have no needs and no bytes
        raws = self._raws(decisions)
        needs = self._needs(raws)
        found += self._floors(decisions, needs)
        found += self._linear(decisions, raws)
        held = None if self._copied is None else self._copies(self._copied, decisions, raws)
        if decisions.copies != held:
            found.append(f"the blocks hold {held} copies of the fill batch, not {decisions.copies}")
        limits = self._quotas if quotas is None else quotas
        found += self._over_quotas(decisions, limits)
        if self._shares:
            found += self._over_shares(decisions, limits, raws, needs)
        return found

    def _ranges(self, decisions: Decisions) -> Iterator[str]:
        """Fitted requests, chunk and options are among those allowed."""
        for fitted, sizes in zip(self._fitted, decisions.fitted, strict=True):
            value, other = sizes[fitted.is_count], sizes[not fitted.is_count]
            if value < fitted.least or (fitted.most is not None and value > fitted.most):
                yield f"{fitted.name} = {value} is outside {fitted.least} to {fitted.most}"
            if other != fitted.asked:
                yield f"{fitted.name} asks for {fitted.asked}, which may not become {other}"
        if not is_candidate(self.problem.prefill, decisions.chunk):
            yield f"a chunk of {decisions.chunk} tokens is no candidate"
        for choice, option in zip(self.problem.choices, decisions.options, strict=True):
            if not 0 <= option < len(choice.options):
                yield f"choice {choice.name} has no option {option}"

    def _raws(self, decisions: Decisions) -> list[Blocks]:
        """Blocks that each batch needs, by pool."""
        prefill, raws = self.problem.prefill, []
        flight = (decisions.chunk or 0) * (prefill.batches_in_flight if prefill else 1)
        for batch in self._batches:
            loads = []
            for index in batch.fitted:
                capacity, count = decisions.fitted[index]
                loads.append((capacity, capacity - self._fitted[index].flight, count))
            raws.append(batch.raw(loads, flight))
        return raws

    def _needs(self, raws: list[Blocks]) -> Blocks:
        """Usable blocks that serve every batch: one division and one ceil for a whole pool."""
        most = [max(column) for column in zip(*raws, strict=True)] or [0] * len(self._pools)
        return [
            max(pool.least, -(-raw * pool.den // pool.num))
            for pool, raw in zip(self._pools, most, strict=True)
        ]

    def _floors(self, decisions: Decisions, needs: Blocks) -> Iterator[str]:
        """Usable blocks of every pool serve the batches and obey its limits."""
        for pool, need, allocated in zip(self._pools, needs, decisions.blocks, strict=True):
            usable = allocated - pool.reserved
            if usable < need:
                yield f"pool {pool.name} has {usable} usable blocks, {need} are needed"
            if usable % pool.multiple or (pool.most is not None and usable > pool.most):
                yield f"pool {pool.name} has {usable} blocks: not a multiple, or above max_blocks"

    def _copies(self, batch: int, decisions: Decisions, raws: list[Blocks]) -> int:
        """Whole copies of a batch that the blocks hold at their utilization."""
        copies = [
            (allocated - pool.reserved) * pool.num // (raw * pool.den)
            for pool, allocated, raw in zip(self._pools, decisions.blocks, raws[batch], strict=True)
            if raw
        ]
        return min(copies, default=0)

    def _linear(self, decisions: Decisions, raws: list[Blocks]) -> Iterator[str]:
        """Linear constraints hold."""
        for index, row in enumerate(self._rows):
            total = 0
            for coefficient, kind, place, option in row.terms:
                total += coefficient * self._value(decisions, raws, kind, place, option)
            if (row.least is not None and total < row.least) or (
                row.most is not None and total > row.most
            ):
                yield f"constraint {index} is {total}, outside {row.least} to {row.most}"

    def _value(
        self, decisions: Decisions, raws: list[Blocks], kind: str, place: int, option: int
    ) -> int:
        if kind == "blocks":
            return decisions.blocks[place] - self._pools[place].reserved
        if kind == "copies":
            return self._copies(place, decisions, raws)
        if kind == "choice":
            return int(option >= 0 and decisions.options[place] == option)
        if kind in ("capacity", "count"):
            return decisions.fitted[place][kind == "count"]
        return (decisions.chunk if kind == "prefill" else decisions.slots) or 0

    def _over_quotas(self, decisions: Decisions, quotas: Sequence[int]) -> Iterator[str]:
        """Every rank stays within each of its limits."""
        known: dict[tuple[int, int], int] = {}
        for index, quota in enumerate(quotas):
            key = self._layout_key(index, quota)
            if key not in known:
                known[key] = sum(pools_bytes(self._layouts[key], decisions.blocks))
            for phase, free in self._free(index, quota, known[key], decisions, decisions.kept):
                if free < 0:
                    name, over = self.problem.ranks[index].name, exact_bytes(-free)
                    yield f"rank {name} exceeds its quota by {over} in {phase}"

    def _layout_key(self, index: int, quota: int) -> tuple[int, int]:
        """Ranks of one key lay their pools out alike."""
        rank, auto = self.problem.ranks[index], 0
        if self._has_auto:
            auto = self._granules.get(rank.name) or auto_granule(quota)
        key = (rank.stage, auto)
        if key not in self._layouts:
            self._layouts[key] = layout_of(self.problem, *key)
        return key

    def _free(
        self, index: int, quota: int, pools: int, decisions: Decisions, kept: int | None
    ) -> Iterator[tuple[str, int]]:
        """What pools of some bytes leave of each limit of a rank, with its phase."""
        problem, stage, chunk = self.problem, self.problem.ranks[index].stage, decisions.chunk
        staging = self._staging.get((stage, chunk))
        if staging is None:
            staging = staging_bytes(problem.prefill, stage, chunk)
            self._staging[stage, chunk] = staging
        whole = pools + slots_bytes(problem.experts, stage, decisions.slots)
        in_prefill = pools + slots_bytes(problem.experts, stage, kept)
        for phase, fixed, options, staged, physical in self._limits[index]:
            free = (quota if physical is None else physical) - fixed
            for option, sizes in zip(decisions.options, options, strict=True):
                free -= sizes[option]
            if staged:
                free -= staging
            if phase != "load":
                free -= in_prefill if phase == "prefill" else whole
            yield phase, free

    def _over_shares(
        self, decisions: Decisions, quotas: Sequence[int], raws: list[Blocks], needs: Blocks
    ) -> Iterator[str]:
        """A pool takes no more than its share of the rest, unless it needs more or a goal asks.

        The rest is what all but the pools with shares leave, with as few slots kept as may be.
        Where constraints or goals count blocks, other pools are taken at their need alone.
        """
        names = [name for each in self.problem.constraints for name in each.terms]
        names += [name for goal in self.problem.goals for name in goal.maximize]
        coupled = any(name.startswith(("blocks:", "copies:")) for name in names)
        others = [
            0
            if index in self._shares
            else min(allocated, needs[index] + self._pools[index].reserved)
            if coupled
            else allocated
            for index, allocated in enumerate(decisions.blocks)
        ]
        kept = least_kept(self.problem.experts, decisions.slots)
        for index, share in self._shares.items():
            if self._may_be_less(index, decisions, raws, needs):
                for rank, quota in enumerate(quotas):
                    layout = self._layouts[self._layout_key(rank, quota)]
                    beside = sum(pools_bytes(layout, others))
                    free = self._free(rank, quota, beside, decisions, kept)
                    rest = min([left for phase, left in free if phase != "load"])
                    taken = pools_bytes(layout, decisions.blocks)[index]
                    if taken > max(0, share * rest // 1):
                        name, pool = self.problem.ranks[rank].name, self._pools[index].name
                        yield f"pool {pool} takes {taken} of {rest} B on {name}, above {share}"

    def _may_be_less(
        self, index: int, decisions: Decisions, raws: list[Blocks], needs: Blocks
    ) -> bool:
        """Whether a step of blocks less keeps every rule and every goal."""
        pool, blocks = self._pools[index], [*decisions.blocks]
        blocks[index] -= pool.multiple
        less = decisions._replace(blocks=tuple(blocks))
        if blocks[index] - pool.reserved < needs[index] or any(self._linear(less, raws)):
            return False
        return all(
            goal.value(self._values(less, raws)) >= goal.value(self._values(decisions, raws))
            for goal in self.problem.goals
        )

    def _values(self, decisions: Decisions, raws: list[Blocks]) -> dict[str, int]:
        """Every variable of a goal; an option, which blocks do not change, counts 0."""
        names = {name for goal in self.problem.goals for name in goal.maximize}
        return {
            name: self._value(decisions, raws, *self._known.get(name, ("choice", 0, -1)))
            for name in names
        }
