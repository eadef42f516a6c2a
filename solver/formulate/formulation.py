"""A problem as integers: the only place that knows both the models and the kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from kvplan.kernels.demand import Demand
from kvplan.kernels.given import VECTORISE_FROM
from kvplan.kernels.instance import (
    LIVE,
    BatchRequests,
    FixedRequests,
    GivenRequests,
    Instance,
    VariableRequest,
)
from kvplan.kernels.residues import count_least
from kvplan.models import InvalidProblem, Problem
from kvplan.models.demands import Batch, GivenColumns, Request
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.problem import request_name
from kvplan.solver.check import Check
from kvplan.solver.formulate.budgets import build_budgets, merge_budgets
from kvplan.solver.formulate.cache_rules import (
    RUNNING,
    cache_rules,
    expert_rule,
    pool_rules,
    running_rule,
)
from kvplan.solver.formulate.context_staging import has_contexts
from kvplan.solver.formulate.objectives import (
    fill_batch,
    fill_mix,
    fill_pools,
    fill_shares,
    linear_constraint,
    numbered_variables,
    objectives,
)

MOST_OPTIONS = 4096
MOST_LOW_POINTS = 50_000  # capacities at which the need of several windows may be least


@dataclass(frozen=True, slots=True)
class Held:
    """What a resize keeps: granules by rank, and floors by pool."""

    granules: Mapping[str, int]  # "auto" granule bytes by rank name
    floors: Mapping[str, int]  # usable blocks by pool name


class Formulation:
    """A problem and its integers; positions in `instance` follow the order in the file.

    Parameters
    ----------
    write : the problem and its integers, on first use.
    fitted_at : (batch, request) -> fitted.
    held : what a resize keeps.
    base : the formulation that this one differs from in quotas alone.
    quotas : bytes by rank, where there is a base.
    """

    def __init__(
        self,
        write: Callable[[], tuple[Problem, Instance]],
        fitted_at: Mapping[tuple[int, int], int],
        held: Held | None,
        base: Formulation | None = None,
        quotas: Sequence[int] | None = None,
    ) -> None:
        self._write, self.fitted_at, self.held = write, fitted_at, held
        self._base, self.quotas = base, quotas

    def at(
        self, quotas: Sequence[int], write: Callable[[], tuple[Problem, Instance]]
    ) -> Formulation:
        """The same for other quotas."""
        return Formulation(write, self.fitted_at, self.held, self, quotas)

    @cached_property
    def _written(self) -> tuple[Problem, Instance]:
        return self._write()

    @property
    def problem(self) -> Problem:
        """What is asked."""
        return self._written[0]

    @property
    def instance(self) -> Instance:
        """What is asked, in integers."""
        return self._written[1]

    @cached_property
    def check(self) -> Check:
        """The rules of the problem, or of the one that it differs from in quotas alone."""
        if self._base is not None:
            return self._base.check
        if self.held is None:
            return Check(self.problem)
        return Check(self.problem, self.held.granules, self.held.floors)

    @property
    def request_names(self) -> tuple[tuple[str, ...], ...]:
        """Names of the requests of each batch."""
        return tuple(
            tuple(request_name(batch, index) for index in range(len(batch.requests)))
            for batch in self.problem.batches
        )


def formulate(problem: Problem, held: Held | None = None) -> Formulation:
    """Build the integers of a problem.

    Raises
    ------
    InvalidProblem : faults of the whole: unbounded counts or copies, too many options.
    """
    if problem.place is not None:
        expected = "plan() or kvplan solve, which decide the placement first"
        raise InvalidProblem.at("place", expected, "a placement to decide")
    fitted_at: dict[tuple[int, int], int] = {}
    batches, fitted = _batches(problem, fitted_at)
    caches = cache_rules(problem)
    is_plain = not (problem.goals or problem.constraints)
    variables = {} if is_plain else numbered_variables(problem, fitted)
    filled = fill_pools(problem)
    in_order, fill_from = objectives(problem, variables, fitted, filled)
    granules, floors = ({}, {}) if held is None else (held.granules, held.floors)
    every_budget = build_budgets(problem, granules, fitted_at)
    pools, runs = pool_rules(problem, caches, floors), problem.counts_running
    if runs:
        caches, pools = (*caches, running_rule(len(pools))), (*pools, RUNNING)
    instance = Instance(
        pools=pools,
        caches=caches,
        batches=batches,
        fitted=fitted,
        chunks=problem.prefill.candidates if problem.prefill else (0,),
        batches_in_flight=problem.prefill.batches_in_flight if problem.prefill else 1,
        experts=expert_rule(problem),
        choices=tuple([len(choice.options) for choice in problem.choices]),
        budgets=merge_budgets(every_budget),
        objectives=in_order,
        fill_from=fill_from,
        constraints=tuple([linear_constraint(c, variables) for c in problem.constraints]),
        fill_batch=fill_batch(problem),
        fill_pools=filled,
        fill_shares=fill_shares(problem),
        every_budget=every_budget,
        fill_mix=fill_mix(problem),
        runs=runs,
        has_contexts=has_contexts(problem),
    )
    formulation = Formulation(lambda: (problem, instance), fitted_at, held)
    _check_bounded(formulation)
    if instance.fill_mix and not any(Demand(instance).mix(0)):
        raise InvalidProblem.at("fill.mix", "a mix that takes blocks", "none of any pool")
    if instance.fill_batch is not None or not is_plain:
        _check_copies(formulation)
    return formulation


def _batches(
    problem: Problem, fitted_at: dict[tuple[int, int], int]
) -> tuple[tuple[BatchRequests, ...], tuple[VariableRequest, ...]]:
    """Every batch with its given requests, and what is fitted; notes where that stands."""
    batches: list[BatchRequests] = []
    fitted: list[VariableRequest] = []
    for b, batch in enumerate(problem.batches):
        given = batch.given
        mine = range(len(fitted), len(fitted) + len(given.fitted))
        for index, r in zip(mine, given.fitted, strict=True):
            fitted_at[b, r] = index
            fitted.append(_fitted(batch, b, r))
        if not batch.is_partial:
            fixed = _given(given)
            batches.append(BatchRequests(batch.name, batch.shared_prefix, fixed, tuple(mine)))
            continue
        used = [used_caches(problem, request) for request in batch.requests]
        for index, r in zip(mine, given.fitted, strict=True):
            fitted[index] = fitted[index]._replace(caches=used[r])
        batches.append(_split(batch, used)._replace(fitted=tuple(mine)))
    return tuple(batches), tuple(fitted)


def used_caches(problem: Problem, request: Request) -> tuple[int, ...] | None:
    """Positions of the caches that a request uses; None: all. It counts as running whatever."""
    names = request.caches
    if names is None or len(names) == len(problem.caches):
        return None
    used = [at for at, cache in enumerate(problem.caches) if cache.name in names]
    return (*used, len(problem.caches)) if problem.counts_running else tuple(used)


def _split(batch: Batch, used: Sequence[tuple[int, ...] | None]) -> BatchRequests:
    """The given requests of a batch, those that use some caches only apart from the others."""
    fixed: list[FixedRequests] = []
    partial: list[tuple[tuple[int, ...], FixedRequests]] = []
    for request, caches in zip(batch.requests, used, strict=True):
        count = 1 if request.count is None else request.count
        if request.fit != "none" or not count:
            continue
        row = FixedRequests(request.capacity, request.history_tokens, count)
        if caches is None:
            fixed.append(row)
        else:
            partial.append((caches, row))
    return BatchRequests(batch.name, batch.shared_prefix, tuple(fixed), (), tuple(partial))


def _fitted(batch: Batch, b: int, r: int) -> VariableRequest:
    request = batch.requests[r]
    is_count = request.fit == "count"
    flight = request.flight_tokens
    least = request.min_count or 1
    if not is_count:
        # History never falls below the shared prompt.
        prefix_least = batch.shared_prefix + flight
        least = max(request.least_capacity, prefix_least if batch.shared_prefix else 0)
    return VariableRequest(
        name=request_name(batch, r),
        batch=b,
        is_count=is_count,
        least=least,
        most=request.count if is_count else request.capacity,
        flight=flight,
        capacity=request.capacity,
        requests=1 if request.count is None else request.count,
    )


def _given(columns: GivenColumns) -> Sequence[FixedRequests]:
    """Requests whose capacity and count are given; among few, alike ones are merged."""
    capacities, histories, counts, _ = columns
    if len(counts) >= VECTORISE_FROM and all(counts):
        return GivenRequests(capacities, histories, counts)
    found: dict[tuple[int, int], int] = {}
    for capacity, history, count in zip(capacities, histories, counts, strict=True):
        if count:
            found[capacity, history] = found.get((capacity, history), 0) + count
    return tuple([FixedRequests(*shape, count) for shape, count in found.items()])


def _check_bounded(formulation: Formulation) -> None:
    """Reject what no quota bounds, and choices with too many combinations."""
    instance = formulation.instance
    if prod(instance.choices) > MOST_OPTIONS:
        expected = f"at most {MOST_OPTIONS} combinations of options"
        raise InvalidProblem.at("choices", expected, str(prod(instance.choices)))
    sizes = sorted({rule.block_tokens for rule in instance.caches if rule.kind == LIVE})
    for (b, r), index in formulation.fitted_at.items():
        fitted = instance.fitted[index]
        if (
            len(sizes) > 1
            and not fitted.is_count
            and count_least(instance, index) > MOST_LOW_POINTS
        ):
            expected = "live windows whose tokens_per_block repeat together soon"
            raise InvalidProblem.at("caches", expected, " and ".join(map(str, sizes)))
        open_count = fitted.is_count and fitted.most is None
        if open_count and not any(Demand(instance).own(index, fitted.capacity, 0)):
            path = f"batches[{b}].requests[{r}].count"
            raise InvalidProblem.at(path, "a count, since the request takes no block", "none")


def _check_copies(formulation: Formulation) -> None:
    """Reject copies of a batch that takes no block."""
    problem, instance = formulation.problem, formulation.instance
    for b in sorted(copied_batches(instance)):
        if not _takes_blocks(instance, b):
            expected = "a batch that takes blocks, for its copies"
            raise InvalidProblem.at(f"batches[{b}]", expected, repr(problem.batches[b].name))


def copied_batches(instance: Instance) -> set[int]:
    """Batches whose copies some goal or constraint counts."""
    used = [term.variable for goal in instance.objectives for term in goal.members]
    used += [
        variable for constraint in instance.constraints for _, variable, _ in constraint.members
    ]
    return {position for kind, position in used if kind == "copies"}


def _takes_blocks(instance: Instance, batch: int) -> bool:
    """Whether a batch takes a block at the least or at the asked values of what is fitted."""
    demand = Demand(instance)
    for asked in (False, True):
        values = [f.most if asked and f.most is not None else f.least for f in instance.fitted]
        pairs = list(zip(instance.fitted, values, strict=True))
        capacities = tuple(f.capacity if f.is_count else value for f, value in pairs)
        counts = tuple(value if f.is_count else f.requests for f, value in pairs)
        if any(demand.raw(batch, 0, capacities, counts)):
            return True
    return False
