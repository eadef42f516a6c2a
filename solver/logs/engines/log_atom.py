"""ROCm/ATOM: one `Memory budget:` line a rank, all in the same file, without the rank's name.

What it calls GB is bytes / 2^30. Old versions (before #1649) print no non_torch; since #3171 free
and available_for_kv are the agreed values, the other terms the rank's own.
"""

from __future__ import annotations

import re
from fractions import Fraction

from kvplan.solver.logs.reading.interval import Interval, printed
from kvplan.solver.logs.reading.record import CORE, MOST_RANKS, Failure, RankLog

_TERM = re.compile(r"(?<!\w)(\w{1,40})=(-?\d{1,30}(?:\.\d{1,30})?)(GB|MB)?(?![\w.])")
_POOL = re.compile(r"sub-pool (\S{1,200}): entries=(\d{1,18}), entry_bytes=(\d{1,18})")
_RUNNER = re.compile(r"Model Runner\d{1,9}/(\d{1,9}): warmup_model")
_NAMES = {
    "total_gpu": "total",
    "free": "free",
    "utilization": "utilization",
    "budget": "budget",
    "peak_torch": "peak",
    "non_torch": "non_torch",
    "cudagraph_est": "graphs",
    "safety": "safety",
    "available_for_kv": "available",
    "block_bytes": "block_bytes",
    "num_kvcache_blocks": "blocks",
}


def terms_of(text: str) -> dict[str, Interval]:
    """Terms of a budget line by their names; the utilization is printed as it was given."""
    start = text.find("Memory budget:")
    return {
        _NAMES[name]: printed(value, unit) if unit else Interval.exactly(Fraction(value))
        for name, value, unit in _TERM.findall(text[max(0, start) :])
        if name in _NAMES
    }


class AtomReader:
    """Reads budget lines, complete or not, and the sub-pools printed before them."""

    engine = "ATOM"
    needles = (b"Memory budget:", b"sub-pool ", b"available_for_kv=", b"warmup_model")

    def __init__(self) -> None:
        self._ranks: list[RankLog] = []
        self._pools: dict[str, tuple[int, int]] = {}
        self._world = 0
        self._failed: list[RankLog] = []

    def read(self, number: int, text: str) -> None:
        """Take in a budget line, the same terms in an error, or a sub-pool."""
        runner = _RUNNER.search(text)
        if runner is not None:
            self._world = max(self._world, int(runner[1]))
        pool = _POOL.search(text)
        if pool is not None:
            if len(self._pools) < MOST_RANKS:
                self._pools[pool[1]] = (int(pool[2]), int(pool[3]))
            return
        terms = terms_of(text)
        if not terms.keys() & {"available", "blocks"} or len(self._ranks) >= MOST_RANKS:
            return
        self._add_state(terms)
        self._ranks.append(RankLog("", number, figures=terms))

    def _add_state(self, terms: dict[str, Interval]) -> None:
        """Bytes of the sub-pools that are no blocks: the same on every rank."""
        block_bytes = terms.get("block_bytes")
        if block_bytes is not None and self._pools:
            beside = (
                count * size for count, size in self._pools.values() if size != block_bytes.low
            )
            terms["state"] = Interval.exactly(sum(beside))

    def ranks(self) -> list[RankLog]:
        """One for each budget line; more than the runners of one start are a further start."""
        world = self._world or len(self._ranks) or 1
        for index, record in enumerate(self._ranks):
            record.label, record.start = str(index % world), index // world
        return [*self._ranks, *self._failed]

    @property
    def phase(self) -> str | None:
        """Whether the engine has spoken, and measured."""
        return "built" if self._ranks else "profile" if self._world else None

    def fail(self, failure: Failure, text: str) -> None:
        """Take in a failure that the engine does not word as its own."""
        if not self._failed:
            start = max(0, len(self._ranks) - 1) // (self._world or len(self._ranks) or 1)
            self._failed.append(RankLog(CORE, failure.line, start=start))
        self._failed[0].failures.append(failure)
