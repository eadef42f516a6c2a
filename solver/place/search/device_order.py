"""Stages in any order: which card comes first, where cards differ."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models.errors import InvalidProblem
from kvplan.solver.place.search.pipeline_stages import Partition, Pipeline, Reach, Stages, evened

MOST_STAGES = 9


def best_order(stages: Stages) -> tuple[tuple[int, ...], Partition] | None:
    """The order and partition with the most blocks; None where no order fits.

    f[mask] = the furthest first layer behind a pipeline that begins with the stages of `mask`, in
    their best order: 2^n n steps for a count of blocks. Of equal orders the one whose last stages
    have the highest numbers; equal stages keep theirs.

    Raises
    ------
    InvalidProblem : more than nine stages.
    """
    if len(stages.limits) > MOST_STAGES:
        expected = f"at most {MOST_STAGES} stages in free order"
        raise InvalidProblem.at("order", expected, str(len(stages.limits)))
    line = Pipeline(stages)
    low, high = -1, line.most_blocks
    best: tuple[int, ...] | None = None
    while low < high:
        middle = (low + high + 1) // 2 if low >= 0 else 0
        order = _order_at(line, middle)
        if order is None:
            high = middle - 1
        else:
            low, best = middle, order
    if best is None:
        return None
    return best, Partition(evened(line, best, low), low)


def _order_at(line: Pipeline, blocks: int) -> tuple[int, ...] | None:
    """An order that fits so many blocks: the longest prefixes, where needed every prefix."""
    reach = Reach(line, blocks)
    reached, stuck = _reached(reach, keep_all=False)
    if line.count not in reached[-1] and stuck:
        reached, _ = _reached(reach, keep_all=True)
    return _walked_back(reach, reached) if line.count in reached[-1] else None


def _reached(reach: Reach, *, keep_all: bool) -> tuple[list[set[int]], bool]:
    """First layers behind the stages of each mask, and whether one found no layer that fits.

    Parameters
    ----------
    keep_all : keep every prefix, not the longest alone: behind a shorter one the stage may find a
        layer that fits.
    """
    stuck = False
    line, count = reach.pipeline, len(reach.pipeline.stages.limits)
    whole, full = line.layers[-1], 2**count - 1
    reached: list[set[int]] = [{0}, *(set() for _ in range(full))]
    for mask in range(full):
        later = count - 1 - mask.bit_count()
        for stage in _next_stages(line.stages, mask) if reached[mask] else ():
            for start in reached[mask]:
                ends = reach.ends(start, stage, later, whole, first=not mask)
                stuck = stuck or not ends
                reached[mask | 1 << stage].update(ends if keep_all else ends[-1:])
        if not keep_all and reached[mask + 1]:
            reached[mask + 1] = {max(reached[mask + 1])}
    return reached, stuck


def _next_stages(stages: Stages, mask: int) -> Iterator[int]:
    """Stages not in a mask; of equal ones the first alone."""
    seen = set()
    for stage, limit in enumerate(stages.limits):
        if not mask >> stage & 1 and limit not in seen:
            seen.add(limit)
            yield stage


def _walked_back(reach: Reach, reached: list[set[int]]) -> tuple[int, ...]:
    """Which stage can be the last, which the one before it, and so on."""
    line = reach.pipeline
    mask, end, order, whole = len(reached) - 1, line.count, list[int](), line.layers[-1]
    while mask:
        stage, start = next(
            (stage, start)
            for stage in reversed(range(len(line.stages.limits)))
            if mask >> stage & 1 and stage in _next_stages(line.stages, mask & ~(1 << stage))
            for start in sorted(reached[mask & ~(1 << stage)])
            if end in reach.ends(start, stage, len(order), whole, first=mask == 1 << stage)
        )
        order.insert(0, stage)
        mask, end = mask & ~(1 << stage), start
    return tuple(order)
