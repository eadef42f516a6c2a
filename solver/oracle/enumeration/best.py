"""The best plan of a small problem, by enumerating every value of every variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from kvplan.models.errors import InvalidProblem
from kvplan.models.problem import Problem, as_problem
from kvplan.solver.oracle.enumeration.demand import named
from kvplan.solver.oracle.enumeration.fill import fill_shares, keep_slots, raise_scale, settle
from kvplan.solver.oracle.enumeration.order import maximise, obey, obey_all, rules_of
from kvplan.solver.oracle.enumeration.points import Points
from kvplan.solver.oracle.enumeration.space import Space
from kvplan.solver.oracle.linear import fill_goals, goals_before_fill
from kvplan.solver.oracle.needs import asked, scale_held


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
    scale: Fraction | None
    """How much of the fill mix the blocks hold."""
    running: int | None
    """Requests that per_request bytes are there for."""
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
    InvalidProblem : copies of a batch that needs no block; a placement to decide.
    """
    if as_problem(problem).place is not None:
        expected = "none: kvplan.solver.oracle.placements enumerates placements at fixed values"
        raise InvalidProblem.at("place", expected, "a placement to decide")
    space = Space(as_problem(problem), limit)
    if not space.members:
        return None  # some count has no value: not even the least of them could be held
    goals, fill, rules = goals_before_fill(problem), fill_goals(problem), rules_of(problem)
    forms = [*goals, *fill, *(rule.form for rule in rules)]
    copied = list(dict.fromkeys(name for form in forms for name in form.named("copies")))
    for name in copied:
        space.refuse_empty_copies(name)
    points = Points(space, copied)
    for rule in rules:
        if not rule.form.counts_blocks:
            obey(points, rule)
    on_blocks = [rule for rule in rules if rule.form.counts_blocks]
    for rule in on_blocks:
        points.part(rule.form)
    found = obey_all(points, on_blocks, goals)
    if found is None:
        return None
    reached = [
        (form.label, raise_scale(found) if form.label == "scale" else maximise(found, form))
        for form in (*goals, *fill)
    ]
    reached += fill_shares(found)
    kept = keep_slots(found)
    settle(found)
    return _read(found, kept, reached)


def _read(points: Points, kept: int | None, reached: list[tuple[str, Fraction]]) -> Best:
    """Read the only point left: every variable has been decided."""
    (member,) = map(int, np.flatnonzero(points.alive))
    (counts,) = points.counts
    space, problem = points.space, points.space.problem
    setting = space.settings.all[int(points.setting[0])]
    least = space.least_counts()[member]
    usable = {
        pool.name: int(table.usable[count])
        for pool, table, count in zip(problem.pools, space.pools, counts, strict=False)
    }
    fill = problem.fill.batch if problem.fill is not None else None
    running = int(space.pools[-1].usable[counts[-1]]) if problem.counts_running else None
    return Best(
        blocks={pool.name: usable[pool.name] + pool.reserved_blocks for pool in problem.pools},
        floors={
            pool.name: int(table.usable[count])
            for pool, table, count in zip(problem.pools, space.pools, least, strict=False)
        },
        prefill_chunk=space.chunks[member % len(space.chunks)],
        expert_slots=setting.slots,
        expert_slots_in_prefill=kept,
        choices={
            choice.name: choice.options[index].name
            for choice, index in zip(problem.choices, setting.options, strict=True)
        },
        copies=None if fill is None else int(points.copies_of(fill)[0]),
        scale=scale_held(problem, usable, space.chunks[member % len(space.chunks)], running),
        running=running,
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
