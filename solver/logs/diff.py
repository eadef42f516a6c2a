"""What changed between two starts, and which change explains the count.

count = room / bytes of a token (or block): a count moves with the room for the cache, with the
bytes of a token, or because the engine was told the count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kvplan.models import InvalidProblem
from kvplan.models.errors import Fault
from kvplan.solver.logs.compare import COUNTS, RATIOS, said, span
from kvplan.solver.logs.engines.log_llamacpp import SEEN
from kvplan.solver.logs.engines.vllm_launch import BLOCK_TOKENS
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import RankLog
from kvplan.solver.logs.verdict import Start

_ROOMS = ("available", "pool 1", "pool", "size")
_GIVES, _TAKES = ("budget",), ("weights", "non_torch", "activation", "peak", "safety")
_OTHER_TAKES = ("graphs", "loaded", "used activation")
_LAYOUT = ("model", "version", "kv-cache-dtype", "dtype", "page-size", "K", "V", "kind")
_SPLITS = ("tensor-parallel-size", "pipeline-parallel-size", "tp-size", "pp-size")


class Change(NamedTuple):
    """A figure or a setting that differs; None where one log does not print it."""

    rank: str
    name: str
    before: Interval | str | None
    after: Interval | str | None

    @property
    def difference(self) -> Interval | None:
        """After less before, of figures."""
        if isinstance(self.before, Interval) and isinstance(self.after, Interval):
            return self.after - self.before
        return None


class Cause(NamedTuple):
    """What moved the count, and by how much; None where the logs do not say how much."""

    name: str  # "room", "size", "override" or "unknown"
    text: str
    moved: int | None


class Difference(NamedTuple):
    """Two starts side by side."""

    before: Start
    after: Start
    changes: tuple[Change, ...]
    counts: tuple[int | None, int | None]
    causes: tuple[Cause, ...]


def difference(before: Sequence[Start], after: Sequence[Start], names: Sequence[str]) -> Difference:
    """Compare the last start of each log, of an engine that both have.

    Raises
    ------
    InvalidProblem : the logs have no engine in common.
    """
    engines = [start.engine for start in before]
    pairs = [
        (old, new)
        for new in reversed(after)
        for old in reversed(before)
        if old.engine == new.engine
    ]
    if not pairs:
        found = ", ".join(start.engine for start in after)
        raise InvalidProblem([Fault(names[1], f"a start of {' or '.join(engines)}", found)])
    old, new = pairs[0]
    changes = tuple(_changes(old, new))
    counts = (_count(old), _count(new))
    return Difference(old, new, changes, counts, tuple(_causes(old, new, changes)))


def _records(start: Start) -> dict[str, RankLog]:
    every = (*(share.rank for share in start.shares), *start.cores)
    return {record.label: record for record in every}


def _count(start: Start) -> int | None:
    """Tokens where the log has them (blocks of other sizes do not compare), else blocks."""
    tokens = [t for record in _records(start).values() if (t := record.whole("tokens"))]
    largest = _largest_cache(start)
    if largest is not None:
        return (largest.whole("cells") or 0) * (largest.whole("streams") or 1)
    overridden = any("measured blocks" in record.figures for record in _records(start).values())
    return start.agreed if overridden or not tokens else min(tokens)


def _largest_cache(start: Start) -> RankLog | None:
    """llama.cpp's cache of the whole context."""
    held = [share.rank for share in start.shares if "cells" in share.rank.figures]
    return max(held, key=lambda rank: rank.whole("cells") or 0, default=None)


def _changes(old: Start, new: Start) -> Iterator[Change]:
    before, after = _records(old), _records(new)
    for label in dict.fromkeys((*before, *after)):
        if label not in before or label not in after:
            yield Change(
                label, "rank", *("printed" if label in s else None for s in (before, after))
            )
            continue
        first, second = before[label], after[label]
        for name in dict.fromkeys((*first.words, *second.words)):
            if name == BLOCK_TOKENS:  # told by the flag
                continue
            words = first.words.get(name), second.words.get(name)
            if words[0] != words[1]:
                yield Change(label, name, *words)
        for name in dict.fromkeys((*first.figures, *second.figures)):
            if name.startswith(SEEN):  # told by the setting itself
                continue
            figures = first.figures.get(name), second.figures.get(name)
            if figures[0] is None or figures[1] is None or not figures[0].meets(figures[1]):
                yield Change(label, name, *figures)


def _causes(old: Start, new: Start, changes: Sequence[Change]) -> Iterator[Cause]:
    counts = _count(old), _count(new)
    if counts[0] is None or counts[1] is None:
        yield Cause("unknown", "one of the logs prints no count", None)
        return
    if counts[0] == counts[1]:
        return
    contexts = [change for change in changes if change.name == "n_ctx"]
    if contexts and _largest_cache(new) is not None:
        text = f"n_ctx {shown_value(contexts[0], 'before')} -> {shown_value(contexts[0], 'after')}"
        yield Cause("context", text, counts[1] - counts[0])
        return
    override = next(_overrides(new, old), None)
    if override is not None:
        yield Cause("override", override, counts[1] - counts[0])
        return
    first, second = _room(old), _room(new)
    if first is None or second is None or not counts[0] or not counts[1]:
        yield Cause("unknown", "one of the logs does not print what the cache may take", None)
        return
    yield from _shared_out(changes, (counts[0], counts[1]), (first, second))


def _shared_out(
    changes: Sequence[Change],
    counts: tuple[int, int],
    rooms: tuple[Interval, Interval],
) -> Iterator[Cause]:
    """The count's change at the old size of a token, and what the new size adds."""
    sizes = [room.over(Interval.exactly(n)) for room, n in zip(rooms, counts, strict=True)]
    same_size = _nearly(sizes[0], sizes[1])
    moved = 0
    if not rooms[0].meets(rooms[1]):
        whole = counts[1] - counts[0]
        moved = whole if same_size else int(rooms[1].centre / sizes[0].centre) - counts[0]
        text = f"the cache has {_more(rooms[1] - rooms[0])}"
        yield Cause("room", "; ".join((text, *_terms(changes, rooms[1] - rooms[0]))), moved)
    if not same_size:
        ratio = float(sizes[1].centre / sizes[0].centre)
        text = f"one counted unit takes {ratio:.3g} times the bytes"
        yield Cause("size", f"{text}{_why(changes)}", counts[1] - counts[0] - moved)


def _nearly(first: Interval, second: Interval) -> bool:
    """Whether two sizes are one, but for what is left over below one more block."""
    slack = first.high / 1000
    return first.low - slack <= second.high and second.low <= first.high + slack


def _room(start: Start) -> Interval | None:
    """What the smallest rank has for its cache."""
    for name in _ROOMS:
        held = [share.rank.figures[name] for share in start.shares if name in share.rank.figures]
        if held:
            return min(held)
    return None


def _overrides(new: Start, old: Start) -> Iterator[str]:
    for start, when in ((new, "second"), (old, "first")):
        for record in _records(start).values():
            if "measured blocks" in record.figures:
                blocks = record.whole("blocks")
                yield f"num_gpu_blocks_override sets {blocks} blocks in the {when} log"


def _terms(changes: Sequence[Change], moved: Interval) -> Iterator[str]:
    """The terms that give or take what the room gained, and what they leave unexplained."""
    terms: dict[str, Interval] = {}
    for change in changes:
        delta = change.difference
        if delta is None or change.name in terms:
            continue
        if change.name in _GIVES:
            terms[change.name] = delta
        elif change.name in (*_TAKES, *_OTHER_TAKES):
            terms[change.name] = Interval.exactly(0) - delta
    for name, delta in terms.items():
        verb = "gives" if delta.centre > 0 else "takes"
        yield f"{name} {verb} {span(_absolute(delta))}"
    rest = moved - sum(terms.values(), Interval.exactly(0))
    if terms and not rest.low <= 0 <= rest.high:
        yield f"{span(_absolute(rest))} of it are in no printed term"
    settings = [c for c in changes if c.name in ("utilization", "total", *_SPLITS)]
    for change in _once(settings):
        yield f"{change.name} {shown_value(change, 'before')} -> {shown_value(change, 'after')}"


def _once(changes: Sequence[Change]) -> Iterator[Change]:
    yield from {change.name: change for change in reversed(changes)}.values()


def _why(changes: Sequence[Change]) -> str:
    """Settings that change the bytes of a token."""
    names = (*_LAYOUT, *_SPLITS, "block_bytes", "longest", "layers", "block_tokens")
    found = [
        f"{change.name} {shown_value(change, 'before')} -> {shown_value(change, 'after')}"
        for change in _once([change for change in changes if change.name in names])
    ]
    ranks = [change for change in changes if change.name == "rank"]
    if ranks:
        found.append(f"{len(ranks)} ranks are in one log alone")
    return f": {', '.join(found)}" if found else "; neither log says why"


def _more(delta: Interval) -> str:
    word = "more" if delta.centre > 0 else "less"
    return f"{span(_absolute(delta))} {word}"


def _absolute(delta: Interval) -> Interval:
    """Its size, as the middle of what rounding leaves open."""
    return Interval.exactly(abs(delta.centre))


def shown_value(change: Change, side: str) -> str:
    """A figure or a word of one side."""
    value = change.before if side == "before" else change.after
    if isinstance(value, Interval):
        exact = value if change.name in COUNTS | RATIOS else Interval.exactly(value.centre)
        return said(change.name, exact)
    return value if value is not None else "-"
