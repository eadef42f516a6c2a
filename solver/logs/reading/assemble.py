"""From what was read, line by line, to the ranks of each start.

A speaker is a source (container, host), a replica and a rank. Two rules join what belongs together:
one named replica takes the speakers without a name (`EngineCore_DP0` beside `Worker_TP0`), and
sources without a rank in common are nodes of one server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kvplan.solver.logs.reading.events import Event
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import CORE, MOST_RANKS, Pair, RankLog

NOTHING = Interval.exactly(0)


@dataclass
class _Run:
    """The starts of one replica, one after the other."""

    replica: str
    measures: frozenset[str]
    last: frozenset[str]
    latest: frozenset[str]
    start: int = 0
    records: dict[str, RankLog] = field(default_factory=dict)
    kept: list[RankLog] = field(default_factory=list)
    ahead: list[Event] = field(default_factory=list)

    def take(self, event: Event) -> None:
        if event.opens == "arguments" and self._has_counted():
            self.ahead.append(event)  # a server's arguments stand before its engine's start
            return
        if self._is_again(event):
            self.start += 1
            self.records = {}
            ahead, self.ahead = self.ahead, []
            for one in ahead:
                self.take(one)
        record = self.records.get(event.label)
        if record is None:
            record = RankLog(event.label, event.line, self.replica, start=self.start)
            self.records[event.label] = record
            self.kept.append(record)
        _add(record, event, self.latest)

    def _has_counted(self) -> bool:
        """Whether the engine has said how much it holds, or that it does not start."""
        counts = {"tokens", "blocks", "concurrency"}
        return any(r.failures or counts & r.figures.keys() for r in self.records.values())

    def _is_again(self, event: Event) -> bool:
        """Whether the engine has started again: it says so, or a rank measures once more."""
        own = self.records.get(event.label)
        failed = any(record.failures for record in self.records.values())
        if event.opens == "engine":
            return any(r.figures or r.failures or r.tokens_by_pool for r in self.records.values())
        if own is None:
            return False
        if event.opens == "worker":
            return failed or bool(own.figures.keys() & self.last)
        again = event.found.keys() & own.figures.keys() & self.measures
        if not again:
            return False
        counted = any("tokens" in r.figures for r in self.records.values() if r.label == CORE)
        return failed or counted or any(event.found[name] != own.figures[name] for name in again)


def _add(record: RankLog, event: Event, latest: frozenset[str]) -> None:
    if event.failure is not None:
        record.failures.append(event.failure)
    if event.trait:
        record.traits.add(event.trait)
    record.words.update(event.words)
    if event.pool_tokens is not None and len(record.tokens_by_pool) < 100:
        record.tokens_by_pool += (event.pool_tokens,)
        index = len(record.tokens_by_pool)
        for name in ("K", "V", "KV", "pool"):
            if f"{name} of pool" in event.found:
                record.figures[f"{name} {index}"] = event.found[f"{name} of pool"]
        size = event.found.get("pool of pool", NOTHING)
        record.figures["pool"] = record.figures.get("pool", NOTHING) + size
        return
    if record.label == CORE and _counts(event.found):
        _add_pair(record, event.found)
        return
    for name, figure in event.found.items():
        if name in latest:
            record.figures[name] = figure
        else:
            record.put(name, figure)
    if "pools together" in event.found:  # what it is the sum of stands before it
        record.figures["pools before"] = record.figures.get("pool", NOTHING)


def _counts(found: Mapping[str, Interval]) -> bool:
    """Whether a line counts what the cache holds; an override does not."""
    return bool(found.keys() & {"tokens", "blocks", "concurrency"}) and (
        "measured blocks" not in found
    )


def _add_pair(core: RankLog, found: Mapping[str, Interval]) -> None:
    """Pair each concurrency with the counts before it; the smallest count is the engine's."""
    pairs = core.pairs
    tokens, blocks = (_whole(found, name) for name in ("tokens", "blocks"))
    if (tokens is not None or blocks is not None) and len(pairs) < MOST_RANKS:
        last = pairs[-1] if pairs else None
        if last is not None and last.concurrency is None and _lacks(last, tokens, blocks):
            pairs.pop()
            tokens = last.tokens if tokens is None else tokens
            blocks = last.blocks if blocks is None else blocks
        pairs.append(Pair(tokens, blocks))
    if "concurrency" in found:
        last = pairs.pop() if pairs and pairs[-1].concurrency is None else Pair()
        longest, ratio = int(found["longest"].low), found["concurrency"]
        pairs.append(last._replace(longest=longest, concurrency=ratio))
    ruling = min(pairs, key=_rank_of)
    for name, value in zip(("tokens", "blocks", "longest"), ruling[:3], strict=True):
        if isinstance(value, int) and not (name == "blocks" and "measured blocks" in core.figures):
            core.figures[name] = Interval.exactly(value)
    if ruling.concurrency is not None:
        core.figures["concurrency"] = ruling.concurrency


def _whole(found: Mapping[str, Interval], name: str) -> int | None:
    return int(found[name].low) if name in found else None


def _lacks(pair: Pair, tokens: int | None, blocks: int | None) -> bool:
    """Whether a pair has none of what a line counts: both are of one worker."""
    return (tokens is None or pair.tokens is None) and (blocks is None or pair.blocks is None)


def _rank_of(pair: Pair) -> tuple[bool, int, int]:
    """The smallest count first; a concurrency without a count last."""
    counted = pair.tokens if pair.tokens is not None else pair.blocks
    return counted is None, pair.tokens or 0, pair.blocks or 0


def assemble(
    events: Sequence[Event],
    *,
    measures: Iterable[str] = (),
    last: Iterable[str] = (),
    latest: Iterable[str] = (),
) -> list[RankLog]:
    """Records of every start of every rank, in the order in which they first spoke.

    Parameters
    ----------
    measures : figures that a rank prints once in a start; another value is another start.
    last : figures that end a rank's start.
    latest : figures that are printed again in one start (for a draft model); the last one counts.
    """
    homes = _homes(events)
    names = _replicas(events, homes)
    runs: dict[tuple[str, str], _Run] = {}
    for event in events:
        home = homes[event.source]
        replica = names.get((home, event.replica), event.replica)
        run = runs.get((home, replica))
        if run is None:
            title = f"{home} {replica}".strip()
            kinds = (frozenset(measures), frozenset(last), frozenset(latest))
            run = runs[home, replica] = _Run(title, *kinds)
        run.take(event)
    kept = [record for run in runs.values() for record in run.kept]
    telling = {(one.replica, one.start) for one in kept if says_something(one)}
    return [
        record
        for record in kept
        if says_something(record)
        or (record.words and (not telling or (record.replica, record.start) in telling))
    ]


def says_something(record: RankLog) -> bool:
    """Whether a record holds more than settings: a figure, a pool or a failure."""
    return bool(record.figures or record.tokens_by_pool or record.failures)


def _homes(events: Sequence[Event]) -> dict[str, str]:
    """Server of each source: sources without a rank in common are one, which needs no name."""
    speakers: dict[str, set[tuple[str, str]]] = {}
    for event in events:
        ranks = speakers.setdefault(event.source, set())
        if event.label != CORE and (event.found or event.pool_tokens is not None):
            ranks.add((event.replica, event.label))
        elif event.label == CORE and event.found:
            ranks.add((event.replica, CORE))
    return dict(_grouped(speakers))


def _grouped(speakers: dict[str, set[tuple[str, str]]]) -> Iterator[tuple[str, str]]:
    servers: list[tuple[list[str], set[tuple[str, str]]]] = []
    for source, ranks in speakers.items():
        for sources, held in servers:
            if not held & ranks:
                sources.append(source)
                held |= ranks
                break
        else:
            servers.append(([source], set(ranks)))
    for sources, _ in servers:
        for source in sources:
            yield source, sources[0] if len(servers) > 1 else ""


def _replicas(events: Sequence[Event], homes: dict[str, str]) -> dict[tuple[str, str], str]:
    """The replica of speakers that name none: the only one that is named on their server."""
    named: dict[str, set[str]] = {}
    for event in events:
        if event.replica:
            named.setdefault(homes[event.source], set()).add(event.replica)
    return {(home, ""): next(iter(names)) for home, names in named.items() if len(names) == 1}
