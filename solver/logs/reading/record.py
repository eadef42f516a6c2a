"""What one rank printed, and what an engine's reader has to offer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kvplan.solver.logs.reading.interval import Interval

MOST_RANKS = 4096
"""Records kept of one log; more are counted, not kept."""
CORE = "engine"
"""Label of figures that an engine prints once for all its ranks."""


class Pair(NamedTuple):
    """What a core counts for one worker, and the concurrency that it derives."""

    tokens: int | None = None
    blocks: int | None = None
    longest: int | None = None
    concurrency: Interval | None = None


class Failure(NamedTuple):
    """An engine's own words for why it did not start, and what to change."""

    line: int
    kind: str  # "context", "memory", "budget", "states", ...
    said: str
    why: str
    remedies: tuple[str, ...]
    figures: Mapping[str, str]  # what it names, by the number of the group


@dataclass
class RankLog:
    """The figures of one rank, by name; bytes unless the name says otherwise.

    Names: total, free, utilization (a ratio), budget, peak, non_torch, graphs, safety, available,
    block_bytes, blocks, tokens, block_tokens, longest (tokens of a request), concurrency (a
    ratio), state (pools beside the blocks), pool (allocated for the cache), suggested.

    Attributes
    ----------
    start : number of the start in its log, from 0.
    clashes : figures that one start prints twice with different values: name, first, second.
    pairs : counts of a core, each with its own concurrency.
    traits : what the log says of the layout ("several kinds of layers").
    words : settings that are no figures (model, version, dtype).
    """

    label: str
    line: int
    replica: str = ""
    figures: dict[str, Interval] = field(default_factory=dict)
    tokens_by_pool: tuple[int, ...] = ()
    start: int = 0
    clashes: list[tuple[str, Interval, Interval]] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    traits: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def whole(self, name: str) -> int | None:
        """An exact figure, such as a count."""
        figure = self.figures.get(name)
        return None if figure is None or figure.low != figure.high else int(figure.low)

    def put(self, name: str, figure: Interval) -> None:
        """Keep a figure; one that contradicts an earlier one of the same start is a clash."""
        before = self.figures.get(name)
        if before is not None and not before.meets(figure):
            self.clashes.append((name, before, figure))
        else:
            self.figures[name] = figure if before is None else before.within(figure)

    @property
    def count(self) -> tuple[int, ...] | None:
        """What must be the same on all ranks: blocks, or the tokens of each pool."""
        blocks, tokens = self.whole("blocks"), self.whole("tokens")
        if blocks is not None:
            return (blocks,)
        if self.tokens_by_pool:
            return self.tokens_by_pool
        return None if tokens is None else (tokens,)


class Wrong(NamedTuple):
    """A figure that does not follow from the others of its line."""

    rank: str
    line: int
    figure: str
    text: str


class Reader(Protocol):
    """Reads the lines of one engine."""

    @property
    def engine(self) -> str:
        """Name of the engine."""
        ...

    @property
    def needles(self) -> tuple[bytes, ...]:
        """Bytes without any of which a line is of no interest."""
        ...

    @property
    def phase(self) -> str | None:
        """How far the engine has come: "load", "profile" or "built"; None before it speaks."""
        ...

    def read(self, number: int, text: str) -> None:
        """Take in a line that holds a needle."""
        ...

    def fail(self, failure: Failure, text: str) -> None:
        """Take in a failure that no engine words as its own."""
        ...

    def ranks(self) -> list[RankLog]:
        """The ranks that were found, in the order of the log."""
        ...
