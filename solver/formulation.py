"""A problem as integers: the only place that knows both the models and the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import lcm, prod

from kvplan.kernels.need import ceil_div
from kvplan.kernels.terms import (
    FLIGHT,
    FULL,
    LIVE,
    PEAK,
    PREFILL,
    STATE,
    BatchTerms,
    CacheRule,
    ExpertTerms,
    Fitted,
    FixedRequests,
    GoalTerm,
    GoalTerms,
    LinearTerms,
    PoolTerms,
    Terms,
    Variable,
)
from kvplan.models import InvalidProblem, Problem
from kvplan.models.goals import Constraint, Goal
from kvplan.models.pools import Cache, Pool
from kvplan.solver.budget import build_rows, merge_rows

MOST_OPTIONS = 4096


@dataclass(frozen=True, slots=True)
class Held:
    """What a resize keeps: granules by rank, and floors by pool."""

    granules: Mapping[str, int]  # "auto" granule bytes by rank name
    floors: Mapping[str, int]  # usable blocks by pool name


@dataclass(frozen=True, slots=True)
class Formulation:
    """A problem and its integers; positions in `terms` follow the order in the file."""

    problem: Problem
    terms: Terms
    user_goals: int  # how many of terms.goals the user wrote
    request_names: tuple[tuple[str, ...], ...]  # by batch
    fitted_at: Mapping[tuple[int, int], int]  # (batch, request) -> fitted


def formulate(problem: Problem, held: Held | None = None) -> Formulation:
    """Build the integers of a problem.

    Raises
    ------
    InvalidProblem : what only shows in the whole: unbounded counts or copies, too many options.
    """
    names = tuple(
        tuple(request.name or f"{batch.name}.{i}" for i, request in enumerate(batch.requests))
        for batch in problem.batches
    )
    caches = tuple(_cache_rule(problem, cache) for cache in problem.caches)
    fitted, fitted_at = _fitted(problem, names)
    variables = _variables(problem, fitted)
    goals, fill_from = _goals(problem, variables, fitted)
    every_row = build_rows(problem, {} if held is None else held.granules)
    terms = Terms(
        pools=_pools(problem, {} if held is None else held.floors),
        caches=caches,
        batches=_batches(problem, fitted_at),
        fitted=fitted,
        chunks=problem.prefill.candidates if problem.prefill else (0,),
        batches_in_flight=problem.prefill.batches_in_flight if problem.prefill else 1,
        experts=_experts(problem),
        choices=tuple(len(choice.options) for choice in problem.choices),
        rows=merge_rows(every_row),
        goals=goals,
        fill_from=fill_from,
        constraints=tuple(_linear(c, variables) for c in problem.constraints),
        fill_batch=_batch_index(problem, problem.fill.batch if problem.fill else None),
        fill_pools=_fill_pools(problem),
        fill_shares=_fill_shares(problem),
        every_row=every_row,
    )
    _check_bounded(problem, terms)
    return Formulation(problem, terms, len(problem.goals), names, fitted_at)


def _cache_rule(problem: Problem, cache: Cache) -> CacheRule:
    """The rule of one cache; groups multiply, shards lengthen a block."""
    pool = next(i for i, p in enumerate(problem.pools) if p.name == problem.pool_of(cache))
    t = problem.block_tokens(cache)
    flight = PREFILL if cache.in_flight == "prefill" else cache.in_flight or 1
    common = CacheRule(
        pool, FULL, t, cache.groups, cache.extra_blocks, flight=flight
    )
    if cache.kind == "full":
        return common
    if cache.kind == "state":
        return common._replace(kind=STATE, state_blocks=cache.blocks or 1)
    per_batch = cache.in_flight_per == "batch"
    if cache.kind == "chunked":
        return common._replace(kind=FLIGHT, reach=cache.chunk or 1, flight_per_batch=per_batch)
    window = cache.window or 1
    if cache.retention == "in_flight":
        return common._replace(kind=FLIGHT, reach=window - 1, flight_per_batch=per_batch)
    common = common._replace(reach=window, sink_blocks=int(ceil_div(cache.sink or 0, t)))
    if cache.retention == "peak":
        return common._replace(kind=PEAK)
    scratch = cache.scratch
    if scratch is None:
        return common._replace(kind=LIVE)
    fraction = (scratch.fraction.numerator, scratch.fraction.denominator)
    return common._replace(kind=LIVE, scratch=fraction, rewind=scratch.max_rewind)


def structural_floors(problem: Problem) -> dict[str, int]:
    """Usable blocks by pool that TensorRT-LLM V2 keeps whatever the batches.

    Only where a `live` window exists: per cache m (S + (W+t-2)//t + 1) for a live window, m times
    the largest such figure for `full`, m x blocks for `state`, m for the others
    (_storage_manager.py; not divided by the utilization).
    """
    floors = {pool.name: 0 for pool in problem.pools}
    figures = {}
    for cache in problem.caches:
        if cache.retention == "live":
            t = problem.block_tokens(cache)
            sink_blocks = int(ceil_div(cache.sink or 0, t))
            figures[cache.name] = sink_blocks + ((cache.window or 1) + t - 2) // t + 1
    if not figures:
        return floors
    widest = max(figures.values())
    for cache in problem.caches:
        per_kind = {"full": widest, "state": cache.blocks or 1}.get(cache.kind, 1)
        floors[problem.pool_of(cache)] += cache.groups * figures.get(cache.name, per_kind)
    return floors


def _pools(problem: Problem, held_floors: Mapping[str, int]) -> tuple[PoolTerms, ...]:
    structural = structural_floors(problem)
    use = problem.resume_utilization

    def terms(pool: Pool) -> PoolTerms:
        least = max(pool.min_blocks, structural[pool.name], held_floors.get(pool.name, 0))
        return PoolTerms(
            name=pool.name,
            reserved=pool.reserved_blocks,
            least=least,
            most=pool.max_blocks,
            multiple=pool.multiple_of,
            use_num=use.numerator if pool.resume_headroom else 1,
            use_den=use.denominator if pool.resume_headroom else 1,
        )

    return tuple(map(terms, problem.pools))


def _fitted(
    problem: Problem, names: tuple[tuple[str, ...], ...]
) -> tuple[tuple[Fitted, ...], dict[tuple[int, int], int]]:
    fitted: list[Fitted] = []
    places: dict[tuple[int, int], int] = {}
    for b, batch in enumerate(problem.batches):
        for r, request in enumerate(batch.requests):
            if request.fit == "none":
                continue
            is_count = request.fit == "count"
            least = request.min_count or 1
            if not is_count:
                # History never falls below the shared prompt.
                prefix_least = batch.shared_prefix + request.flight_tokens
                least = max(request.least_capacity, prefix_least if batch.shared_prefix else 0)
            places[b, r] = len(fitted)
            fitted.append(
                Fitted(
                    name=names[b][r],
                    batch=b,
                    is_count=is_count,
                    least=least,
                    most=request.count if is_count else request.capacity,
                    flight=request.flight_tokens,
                    capacity=request.capacity,
                    count=1 if request.count is None else request.count,
                )
            )
    return tuple(fitted), places


def _batches(problem: Problem, fitted_at: Mapping[tuple[int, int], int]) -> tuple[BatchTerms, ...]:
    """Given requests of each batch, alike ones added up."""
    batches = []
    for b, batch in enumerate(problem.batches):
        counts: dict[tuple[int, int], int] = {}
        places = []
        for r, request in enumerate(batch.requests):
            if request.fit != "none":
                places.append(fitted_at[b, r])
                continue
            count = 1 if request.count is None else request.count
            if count:
                key = (request.capacity, request.history_tokens)
                counts[key] = counts.get(key, 0) + count
        fixed = tuple(FixedRequests(c, h, n) for (c, h), n in counts.items())
        batches.append(BatchTerms(batch.name, batch.shared_prefix, fixed, tuple(places)))
    return tuple(batches)


def _experts(problem: Problem) -> ExpertTerms | None:
    experts = problem.experts
    if experts is None:
        return None
    sized = isinstance(experts.slot_bytes, tuple)
    sizes = experts.slot_bytes if isinstance(experts.slot_bytes, tuple) else ((1, experts.slot_bytes),)
    most = experts.max_slots
    if sized and most is None:
        most = sum(slots for slots, _ in sizes)
    lend = experts.lend
    return ExpertTerms(
        least=experts.min_slots,
        most=most,
        sizes=sizes,
        granule=experts.granule,
        keep=lend.keep if lend else 0,
        lend_num=lend.fraction.numerator if lend else 0,
        lend_den=lend.fraction.denominator if lend else 1,
    )


def _batch_index(problem: Problem, name: str | None) -> int | None:
    return next((i for i, batch in enumerate(problem.batches) if batch.name == name), None)


def default_fill_pools(problem: Problem) -> tuple[str, ...]:
    """Pools with a cache other than state, in the order written."""
    growing = {problem.pool_of(cache) for cache in problem.caches if cache.kind != "state"}
    return tuple(pool.name for pool in problem.pools if pool.name in growing)


def _fill_pools(problem: Problem) -> tuple[int, ...]:
    fill = problem.fill
    if fill is not None and (fill.none or fill.shares is not None):
        return ()
    named = fill.pools if fill is not None and fill.pools is not None else default_fill_pools(problem)
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple(index[name] for name in named)


def _fill_shares(problem: Problem) -> tuple[tuple[int, Fraction], ...]:
    shares = problem.fill.shares if problem.fill is not None else None
    index = {pool.name: i for i, pool in enumerate(problem.pools)}
    return tuple((index[name], share) for name, share in (shares or {}).items())


def _variables(problem: Problem, fitted: tuple[Fitted, ...]) -> dict[str, tuple[Variable, int]]:
    """Every variable by its public name; with the option's index for choice:<name>=<option>."""
    known = {
        f"blocks:{pool.name}": (Variable("blocks", i), -1) for i, pool in enumerate(problem.pools)
    }
    for i, request in enumerate(fitted):
        kind = "count" if request.is_count else "capacity"
        known[f"{kind}:{request.name}"] = (Variable(kind, i), -1)
    known["prefill"] = (Variable("prefill"), -1)
    known["experts"] = (Variable("experts"), -1)
    for i, choice in enumerate(problem.choices):
        known[f"choice:{choice.name}"] = (Variable("choice", i), -1)
        for o, option in enumerate(choice.options):
            known[f"choice:{choice.name}={option.name}"] = (Variable("choice", i), o)
    for i, batch in enumerate(problem.batches):
        known[f"copies:{batch.name}"] = (Variable("copies", i), -1)
    return known


def _goals(
    problem: Problem, variables: dict[str, tuple[Variable, int]], fitted: tuple[Fitted, ...]
) -> tuple[tuple[GoalTerms, ...], int]:
    """The user's goals, the default ones, then fill; and where fill begins."""

    def terms(goal: Goal) -> GoalTerms:
        return GoalTerms(
            goal.label,
            tuple(
                GoalTerm(variables[name][0], weight, goal.curves.get(name))
                for name, weight in goal.maximize.items()
            ),
        )

    written = tuple(map(terms, problem.goals))
    done = {goal.single for goal in written}

    def further(labels: Iterable[str]) -> tuple[GoalTerms, ...]:
        return tuple(
            GoalTerms(label, (GoalTerm(variables[label][0], Fraction(1), None),))
            for label in labels
            if variables[label][0] not in done
        )

    decided = written + further(_default_goals(problem, fitted))
    return decided + further(_fill_goals(problem)), len(decided)


def _default_goals(problem: Problem, fitted: tuple[Fitted, ...]) -> Iterable[str]:
    for request in fitted:
        yield f"{'count' if request.is_count else 'capacity'}:{request.name}"
    for choice in problem.choices:
        yield f"choice:{choice.name}"
    if problem.prefill is not None:
        yield "prefill"
    if problem.experts is not None:
        yield "experts"


def _fill_goals(problem: Problem) -> Iterable[str]:
    if problem.fill is not None and problem.fill.batch is not None:
        yield f"copies:{problem.fill.batch}"
    for index in _fill_pools(problem):
        yield f"blocks:{problem.pools[index].name}"


def _linear(constraint: Constraint, variables: dict[str, tuple[Variable, int]]) -> LinearTerms:
    """Scale a constraint to integers by the least common denominator of its coefficients."""
    scale = lcm(*(coefficient.denominator for coefficient in constraint.terms.values()))
    terms = tuple(
        (int(coefficient * scale), *variables[name])
        for name, coefficient in constraint.terms.items()
    )
    least = None if constraint.min is None else -((-constraint.min * scale) // 1)
    most = None if constraint.max is None else (constraint.max * scale) // 1
    return LinearTerms(
        terms, None if least is None else int(least), None if most is None else int(most)
    )


def _check_bounded(problem: Problem, terms: Terms) -> None:
    """Refuse what no quota bounds, and choices with too many combinations."""
    if prod(terms.choices) > MOST_OPTIONS:
        expected = f"at most {MOST_OPTIONS} combinations of options"
        raise InvalidProblem.at("choices", expected, str(prod(terms.choices)))
    for (b, r), index in _places(problem).items():
        request = problem.batches[b].requests[r]
        if request.fit == "count" and request.count is None and not _takes_blocks(terms, index):
            path = f"batches[{b}].requests[{r}].count"
            raise InvalidProblem.at(path, "a count (the request takes no block to bound it)", "none")
    used = {term.variable.index for goal in terms.goals for term in goal.terms
            if term.variable.kind == "copies"}
    used |= {variable.index for constraint in terms.constraints
             for _, variable, _ in constraint.terms if variable.kind == "copies"}
    for b in sorted(used):
        if not _batch_takes_blocks(terms, b):
            path = f"batches[{b}]"
            raise InvalidProblem.at(path, "a batch that takes blocks, for its copies", "none")


def _places(problem: Problem) -> dict[tuple[int, int], int]:
    places = [
        (b, r)
        for b, batch in enumerate(problem.batches)
        for r, request in enumerate(batch.requests)
        if request.fit != "none"
    ]
    return {place: index for index, place in enumerate(places)}


def _takes_blocks(terms: Terms, fitted: int) -> bool:
    """Whether one more copy of a count-fitted request takes a block of some pool."""
    from kvplan.kernels.demand import Demand

    return any(Demand(terms).own(fitted, terms.fitted[fitted].capacity, 0))


def _batch_takes_blocks(terms: Terms, batch: int) -> bool:
    from kvplan.kernels.demand import Demand

    least = tuple(f.least for f in terms.fitted)
    capacity = tuple(f.capacity if f.is_count else v for f, v in zip(terms.fitted, least, strict=True))
    count = tuple(v if f.is_count else f.count for f, v in zip(terms.fitted, least, strict=True))
    return any(Demand(terms).raw(batch, 0, capacity, count))
