"""The best plan of a small problem, by enumerating every value of every variable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kvplan.models.goals import Constraint
from kvplan.models.problem import Problem
from kvplan.solver.oracle.demand import named
from kvplan.solver.oracle.linear import (
    Linear,
    constraint_form,
    fill_goals,
    goals_before_fill,
    plain,
)
from kvplan.solver.oracle.needs import asked
from kvplan.solver.oracle.points import Points
from kvplan.solver.oracle.rows import Array
from kvplan.solver.oracle.space import Space


@dataclass(frozen=True)
class Best:
    """Decision values of the one best plan, and what every goal reached."""

    blocks: Mapping[str, int]
    """Allocated blocks by pool, reserved ones included."""
    floors: Mapping[str, int]
    """Smallest legal usable blocks by pool, at the plan's requests and chunk."""
    prefill_chunk: int | None
    expert_slots: int | None
    expert_slots_in_prefill: int | None
    choices: Mapping[str, str]
    copies: int | None
    requests: Mapping[str, tuple[int, int, int]]
    """(capacity, history, count) by request."""
    goals: tuple[Fraction, ...]
    """Values of the user's goals, all default goals, and those of the fill, in this order."""
    labels: tuple[str, ...]
    """What each of `goals` is."""


def best(problem: Problem, *, limit: int = 3_000_000) -> Best | None:
    """Enumerate a small problem.

    Goals are fixed one after the other: only the points that reach the best value of a goal meet
    the next one. That a smaller value would be easier is assumed of no variable; blocks and slots
    kept in prefill are left at their fewest only where more was verified never to take less.

    Parameters
    ----------
    limit : most cells of a grid.

    Returns
    -------
    The lexicographically best plan, or None where nothing fits.

    Raises
    ------
    ValueError : the instance is larger than `limit`, even after pruning.
    InvalidProblem : copies of a batch that needs no block.
    """
    space = Space(problem, limit)
    goals, fill = goals_before_fill(problem), fill_goals(problem)
    constraints = [(constraint_form(rule), rule) for rule in problem.constraints]
    forms = [*goals, *fill, *(form for form, _ in constraints)]
    copied = list(dict.fromkeys(name for form in forms for name in form.named("copies")))
    for name in copied:
        space.refuse_empty_copies(name)
    points = Points(space, copied)
    # Narrow rules first: those that need no block counts leave fewer points to multiply.
    for form, rule in sorted(constraints, key=lambda pair: _width(pair[0])):
        _constrain(points, form, rule)
    if not len(points):
        return None
    reached = [(form.label, _maximise(points, form)) for form in (*goals, *fill)]
    reached += _fill_shares(points)
    return _decided(points, reached)


def _width(form: Linear) -> int:
    return len(form.named("blocks")) + 9 * len(form.named("copies"))


def _of_members(form: Linear) -> Linear:
    """The part of a form that only requests and the chunk decide."""
    own = {
        name: weight
        for name, weight in form.weights.items()
        if name == "prefill" or name.startswith(("capacity:", "count:"))
    }
    return Linear(form.label, own, form.curves)


def _open(points: Points, form: Linear) -> None:
    """Tell apart all points between which a form may differ."""
    space = points.space
    for name in form.named("blocks"):
        points.choose(space.pool_index(name))
    for name in form.named("copies"):
        # Every pool that some member draws on can be the one that limits the copies.
        for pool in np.flatnonzero(space.raws[name].any(axis=0)):
            points.choose(int(pool))
    own = _of_members(form)
    if own.weights:
        points.split(points.measure_members(own)[0])


def _constrain(points: Points, form: Linear, rule: Constraint) -> None:
    def holds(value: Array, scale: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        low, high = rule.min, rule.max
        inside = np.ones(len(value), np.bool_)
        if low is not None:
            inside &= value >= _within(math.ceil(low * scale))
        if high is not None:
            inside &= value <= _within(math.floor(high * scale))
        return inside

    if len(_of_members(form).weights) == len(form.weights):
        points.keep_members(holds(*points.measure_members(form)))
    else:
        _open(points, form)
        points.keep(holds(*points.measure(form)))


def _within(bound: int) -> int:
    """A bound as int64; values stay below 2^62, so a bound beyond it is no other than 2^62."""
    return max(-(2**62), min(2**62, bound))


def _maximise(points: Points, form: Linear) -> Fraction:
    """Keep the points with the best value of a goal, and say what it is."""
    if form.copies_alone is not None:
        copies = points.raise_copies(form.copies_alone)
        return form.value({f"copies:{form.copies_alone}": copies})
    if len(_of_members(form).weights) == len(form.weights):
        value, scale = points.measure_members(form)
        top = int(value[points.alive].max())
        points.keep_members(value == top)
    else:
        _open(points, form)
        value, scale = points.measure(form)
        top = int(value.max())
        points.keep(value == top)
    return Fraction(top, scale)


def _fill_shares(points: Points) -> list[tuple[str, Fraction]]:
    """Raise the pools of `fill: {shares}` in order, each within its share of what is left.

    Left is, on a rank, the least over its phases of the limit less everything but these pools,
    unnamed pools and slots kept in prefill at their fewest. Rounded blocks of a pool take at most
    its share of that on every rank; a pool whose fewest blocks take more stays at those.
    """
    space = points.space
    fill = space.problem.fill
    if fill is None or fill.shares is None:
        return []
    pools = {space.pool_index(name): share for name, share in fill.shares.items()}
    fewest = points.counts.min(axis=0)
    others = points.used[0].copy()
    for pool, table in enumerate(space.pools):
        others -= table.bytes[points.counts[0, pool]]
        if pool not in pools:
            others += table.bytes[fewest[pool]]
    left = _least_by_rank(space, space.limits - others)
    reached = []
    for pool, share in pools.items():
        table = space.pools[pool]
        fits = np.ones(len(table.usable), np.bool_)
        for index, row in enumerate(space.rows):
            if row.phase != "load":
                fits &= table.bytes[:, index] <= math.floor(share * left[row.rank.name])
        most = max(np.flatnonzero(fits).max(initial=-1), fewest[pool])
        points.choose(pool)
        counts = points.counts[:, pool]
        # Earlier pools, or constraints, may leave none within the share: then as few as they allow.
        top = counts[counts <= most].max(initial=-1)
        points.keep(counts == (top if top >= 0 else counts.min()))
        name = space.problem.pools[pool].name
        count = int(table.usable[points.counts[0, pool]])
        reached.append((f"blocks:{name}", Fraction(count)))
    return reached


def _least_by_rank(space: Space, slack: Array) -> dict[str, int]:
    left: dict[str, int] = {}
    for row, free in zip(space.rows, slack, strict=True):
        if row.phase != "load":
            left[row.rank.name] = min(int(free), left.get(row.rank.name, int(free)))
    return left


def _keep_slots(points: Points) -> int | None:
    """As many slots stay in prefill as fit, all else decided."""
    space = points.space
    (setting,) = {int(index) for index in points.setting}
    kept, table = space.settings.kept(space.settings.all[setting])
    used = points.used[:, None, :] - space.settings.table[setting] + table  # [point, kept, row]
    fits = np.all(used <= space.limits, axis=2)
    top = int(np.flatnonzero(fits.any(axis=0)).max())
    points.used = used[:, top]
    points.keep(fits[:, top])
    return kept[top]


def _decided(points: Points, reached: list[tuple[str, Fraction]]) -> Best:
    """Settle what no goal raises, and read the one point that is left."""
    kept = _keep_slots(points)
    for pool in range(len(points.space.pools)):
        points.keep(points.counts[:, pool] == points.counts[:, pool].min())
    (member,) = np.flatnonzero(points.alive)
    (counts,) = points.counts
    return _read(points, int(member), counts, kept, reached)


def _read(
    points: Points,
    member: int,
    counts: Array,
    kept: int | None,
    reached: list[tuple[str, Fraction]],
) -> Best:
    space, problem = points.space, points.space.problem
    setting = space.settings.all[int(points.setting[0])]
    least = space.least_counts()[member]
    usable = {
        pool.name: int(table.usable[count])
        for pool, table, count in zip(problem.pools, space.pools, counts, strict=True)
    }
    fill = problem.fill.batch if problem.fill is not None else None
    return Best(
        blocks={pool.name: usable[pool.name] + pool.reserved_blocks for pool in problem.pools},
        floors={
            pool.name: int(table.usable[count])
            for pool, table, count in zip(problem.pools, space.pools, least, strict=True)
        },
        prefill_chunk=space.chunks[member % len(space.chunks)],
        expert_slots=setting.slots,
        expert_slots_in_prefill=kept,
        choices={
            choice.name: choice.options[index].name
            for choice, index in zip(problem.choices, setting.options, strict=True)
        },
        copies=None if fill is None else int(points.copies_of(fill)[0]),
        requests=_requests(space, member),
        goals=tuple(value for _, value in reached),
        labels=tuple(label for label, _ in reached),
    )


def _requests(space: Space, member: int) -> dict[str, tuple[int, int, int]]:
    place = np.unravel_index(member, space.demand.shape)
    fitted = {
        axis.variable: axis.values[int(index)]
        for axis, index in zip(space.axes, place[:-1], strict=True)
    }
    requests = {}
    for batch in space.problem.batches:
        for name, request in named(batch):
            capacity = fitted.get(f"capacity:{name}", request.capacity)
            history = request.history_tokens - (request.capacity - capacity)
            count = fitted.get(f"count:{name}", asked(request).count)
            requests[name] = (capacity, history, count)
    return requests


__all__ = ["Best", "best", "plain"]
