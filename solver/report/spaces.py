"""A placement by space, the engine's own choice beside it, and the flags to paste."""

from __future__ import annotations

from kvplan.models import Plan, Problem
from kvplan.models.plan import PlacementPlan, RankPlan, SpacePlan
from kvplan.solver.report.document import Column, Lines, Row, Table

_COLUMNS = (
    Column("space"),
    Column("layers"),
    Column("weights", "bytes"),
    Column("experts", "number"),
    Column("of them", "bytes", level=1),
    Column("caches", "bytes"),
    Column("buffers", "bytes", level=1),
    Column("slack", "bytes"),
    Column("ms a token", "number"),
)


def placement_tables(plan: Plan, problem: Problem | None) -> tuple[Lines | Table, ...]:
    """Tables of a plan with a placement; nothing without one."""
    placement = plan.placement
    if placement is None:
        return ()
    ranks = {rank.name: rank for rank in plan.ranks}
    rows = tuple(_row(space, ranks[space.name], plan) for space in placement.spaces)
    found: list[Lines | Table] = [Table("placement", _COLUMNS, (rows,)), Lines(_lines(placement))]
    if placement.default:
        default = tuple(Row((label, text)) for label, text in placement.default.items())
        found.append(Table("the engine's own choice", (Column("rule"), Column("what")), (default,)))
    if problem is not None:
        found += frontier_tables(problem)
    return tuple(found)


def _row(space: SpacePlan, rank: RankPlan, plan: Plan) -> Row:
    through = f"{space.first}-{space.first + space.layers - 1}" if space.layers else ""
    output = " + output" if plan.placement and plan.placement.last == space.name else ""
    time = None if space.picoseconds is None else f"{space.picoseconds / 10**9:.3f}"
    return Row(
        (
            space.name,
            f"{space.layers} ({through}){output}" if space.layers else output.removeprefix(" + "),
            space.layer_bytes + space.state_bytes,
            str(space.experts) if space.expert_bytes else None,
            space.expert_bytes or None,
            space.cache_bytes,
            space.buffer_bytes,
            rank.slack,
            time,
        )
    )


def _lines(placement: PlacementPlan) -> tuple[str, ...]:
    lines = []
    if placement.flags:
        lines.append(f"set: {' '.join(placement.flags)}")
    if placement.picoseconds:
        rate = 100 * 10**12 // placement.picoseconds
        lines.append(f"roofline: {rate // 100}.{rate % 100:02d} tokens/s")
    if not placement.proven:
        lines.append("the best found in time; not proven")
    return (*lines, *(f"note: {note}" for note in placement.notes))


def frontier_tables(problem: Problem) -> list[Lines | Table]:
    """Context against tokens a second, where a fitted context and the speed compete."""
    from kvplan.solver.place.trade import frontier

    points = frontier(problem)
    if len(points) < 2:
        return []
    columns = (
        Column("context", "number"),
        Column("tokens/s", "number"),
        Column("layers on cards", "number"),
        Column("experts on cards", "number"),
    )
    rows = tuple(
        Row((f"{p.context_tokens:,}", p.tokens_a_second, str(p.layers), str(p.experts)))
        for p in points
    )
    return [Table("context against speed", columns, (rows,))]
