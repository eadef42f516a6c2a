"""What one rank printed, and what an engine's reader has to offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kvplan.solver.logs.interval import Interval

MOST_RANKS = 4096
"""Records kept of one log; more are counted, not kept."""


@dataclass
class RankLog:
    """The figures of one rank, by name; bytes unless the name says otherwise.

    Names: total, free, utilization (a ratio), budget, peak, non_torch, graphs, safety, available,
    block_bytes, blocks, tokens, block_tokens, longest (tokens of a request), concurrency (a
    ratio), state (pools beside the blocks), pool (allocated for the cache), suggested.
    """

    label: str
    line: int
    replica: str = ""
    figures: dict[str, Interval] = field(default_factory=dict)
    tokens_by_pool: tuple[int, ...] = ()

    def whole(self, name: str) -> int | None:
        """An exact figure, such as a count."""
        figure = self.figures.get(name)
        return None if figure is None or figure.low != figure.high else int(figure.low)

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

    def read(self, number: int, text: str) -> None:
        """Take in a line that holds a needle."""
        ...

    def ranks(self) -> list[RankLog]:
        """The ranks that were found, in the order of the log."""
        ...
