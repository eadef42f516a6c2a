"""The budget: who takes which bytes of a rank's quota, in which phase."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models.plan import LedgerLine, RankPlan
from kvplan.models.units import exact_bytes, human_bytes
from kvplan.solver.answer.ledger import NOT_GIVEN
from kvplan.solver.report.document import Column, Lines, Row, State, Table
from kvplan.solver.report.elastic_lines import Elastic, Range
from kvplan.solver.report.phrases import rank_runs, share

MOST_TABLES = 8
_NAMES_A_ROW = 3
_BOUNDS = {
    "declared": "declared",
    "utilization": "utilization share",
    "physical": "physical share",
}
_COLUMNS = (
    Column("consumer"),
    Column("phases"),
    Column("bytes", "bytes"),
    Column("of quota", "number", level=3),
    Column("floor", "number", level=2),
    Column("asked", "number", level=2),
    Column("source", level=2),
    Column("note"),
)


class Group(NamedTuple):
    """Ranks whose budgets are the same but for the name."""

    rank: RankPlan
    names: tuple[str, ...]
    label: str
    tightest: bool


def groups_of(ranks: Sequence[RankPlan]) -> tuple[Group, ...]:
    """Group alike ranks, in the order written; of several groups the least slack is marked."""
    alike: dict[str, list[RankPlan]] = {}
    for rank in ranks:
        alike.setdefault(rank.model_dump_json(exclude={"name"}), []).append(rank)
    names = [rank.name for rank in ranks]
    least = min((rank.slack for rank in ranks), default=0)
    groups = []
    for members in alike.values():
        own = tuple(rank.name for rank in members)
        tightest = len(alike) > 1 and members[0].slack == least
        groups.append(Group(members[0], own, rank_runs(names, own), tightest))
    return tuple(groups)


def budgets(
    ranks: Sequence[RankPlan],
    binding: Collection[tuple[str, str]] = (),
    elastic: Elastic | None = None,
) -> tuple[Lines | Table, ...]:
    """An overview where ranks differ, then a table for each group (the tightest if there are many).

    Parameters
    ----------
    ranks : budgets, in the order written.
    binding : (rank, phase) pairs that keep something from growing.
    elastic : adds what solved lines take at their floor, and as asked.
    """
    groups = groups_of(ranks)
    shown = groups
    if len(groups) > MOST_TABLES:
        tightest = sorted(groups, key=lambda group: group.rank.slack)[:MOST_TABLES]
        shown = tuple(group for group in groups if group in tightest)
    overview = (_overview(groups),) if len(groups) > 1 else ()
    tables = tuple(_budget(group, binding, elastic) for group in shown)
    if len(shown) == len(groups):
        return (*overview, *tables)
    text = f"the {len(shown)} tightest of {len(groups)} different budgets follow; --json has all"
    return (*overview, Lines((text,)), *tables)


def _overview(groups: Iterable[Group]) -> Table:
    columns = (
        Column("rank"),
        Column("count", "number", level=2),
        Column("quota", "bytes", level=2),
        Column("slack", "bytes"),
        Column(""),
    )
    rows = tuple(
        Row(
            (group.label, str(len(group.names)), group.rank.quota, group.rank.slack, _mark(group)),
            state=_overview_state(group),
        )
        for group in groups
    )
    return Table("ranks", columns, (rows,))


def _mark(group: Group) -> str:
    over = "over its quota" if group.rank.slack < 0 else ""
    return ", ".join(filter(None, ("tightest" if group.tightest else "", over)))


def _overview_state(group: Group) -> State:
    if group.rank.slack < 0:
        return "bad"
    return "warning" if group.tightest else "plain"


def _budget(group: Group, binding: Collection[tuple[str, str]], elastic: Elastic | None) -> Table:
    rank = group.rank
    alike = f" ({len(group.names)} ranks alike)" if len(group.names) > 1 else ""
    mark = _mark(group)
    title = f"budget of {group.label}{alike}{': ' if mark else ''}{mark}"
    occupants = tuple(_occupant(line, rank, elastic) for line in rank.ledger if line.phases)
    derived = rank.bound != "declared"  # a declared quota is its own and only term
    terms = tuple(_terms(rank)) if derived else ()
    phases = tuple(_phase(phase, group, binding) for phase in rank.phases)
    return Table(title, _COLUMNS, (occupants, phases, terms, _totals(rank)))


def _occupant(line: LedgerLine, rank: RankPlan, elastic: Elastic | None) -> Row:
    everywhere = set(line.phases) >= set(rank.phases)
    phases = "all" if everywhere else " ".join(line.phases)
    part = share(line.bytes, rank.quota)
    between = _between(None if elastic is None else elastic.range_of(rank.name, line))
    cells = (line.consumer, phases, line.bytes, part, *between, line.source, line.note)
    return Row(cells, _filled(line.bytes, rank.quota))


def _between(given: Range | None) -> tuple[str | None, str | None]:
    if given is None:
        return None, None
    asked = "any" if given.asked is None else human_bytes(given.asked)
    return human_bytes(given.floor), asked


def _terms(rank: RankPlan) -> Iterator[Row]:
    """What the quota is derived from; terms that nobody gave share rows at the end."""
    lines = [line for line in rank.ledger if not line.phases]
    for line in lines:
        if line.note != NOT_GIVEN:
            yield Row((line.consumer, None, line.bytes, None, None, None, line.source, line.note))
    left_out = [line.consumer for line in lines if line.note == NOT_GIVEN]
    for start in range(0, len(left_out), _NAMES_A_ROW):
        names = ", ".join(left_out[start : start + _NAMES_A_ROW])
        yield Row((NOT_GIVEN, None, 0, *(None,) * 4, names))


def _phase(phase: str, group: Group, binding: Collection[tuple[str, str]]) -> Row:
    rank, names = group.rank, group.names
    used = rank.phases[phase]
    note, state = _verdict(used - rank.quota, any((name, phase) in binding for name in names))
    cells = (f"used in {phase}", None, used, share(used, rank.quota), None, None, None, note)
    return Row(cells, _filled(used, rank.quota), state)


def _verdict(excess: int, binds: bool) -> tuple[str, State]:
    if excess > 0:
        return f"OVER by {exact_bytes(excess)}", "bad"
    return ("binding", "warning") if binds else ("", "total")


def _totals(rank: RankPlan) -> tuple[Row, Row]:
    full = share(rank.quota, rank.quota)
    quota = ("quota", None, rank.quota, full, None, None, _BOUNDS[rank.bound], None)
    slack = ("slack", None, rank.slack, share(rank.slack, rank.quota), *(None,) * 4)
    return Row(quota, state="total"), Row(slack, state="bad" if rank.slack < 0 else "plain")


def _filled(count: int, quota: int) -> Fraction | None:
    """Share of the quota that a bar shows, from 0 to 1; all of it where there is no quota."""
    if quota <= 0:
        return Fraction(1) if count > 0 else Fraction(0)
    return min(Fraction(max(count, 0), quota), Fraction(1))
