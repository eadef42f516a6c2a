"""SGLang: each line names its rank, as in [2026-09-12 00:22:48 DP0 TP1]. Its GB are 2^30 bytes."""

from __future__ import annotations

import re

from kvplan.solver.logs.interval import Interval, printed
from kvplan.solver.logs.record import MOST_RANKS, RankLog

_N = r"(\d{1,20}(?:\.\d{1,20})?)"
_PLACE = re.compile(r"^\W{0,3}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?((?: [A-Z]+\d+)*)\]")
_REPLICA = re.compile(r"\b(DP\d+)\b ?")
_POOL = re.compile(r"(?<!Virtual)KV Cache is allocated\..{0,60}?#tokens: (\d{1,18})")
_SIZE = re.compile(rf"(?:K size|V size|KV size|Cache size): {_N} GB")
_SUM = re.compile(rf"SWAKVPool mem usage: {_N} GB")
_TOTAL = re.compile(r"max_total_num_tokens=(\d{1,18})")
_LONGEST = re.compile(r"context_len=(\d{1,18})")
_LEFT = re.compile(rf"Memory pool end\. avail mem={_N} GB")
_START = "Init torch distributed begin"


class SglangReader:
    """Reads the pools of each rank; target and draft, full and window are pools apart."""

    engine = "SGLang"
    needles = (
        b"KV Cache is allocated",
        b"SWAKVPool mem usage",
        b"max_total_num_tokens=",
        b"Memory pool end",
        _START.encode(),
    )

    def __init__(self) -> None:
        self._ranks: dict[tuple[str, str], list[RankLog]] = {}
        self._count = 0

    def read(self, number: int, text: str) -> None:
        """Take in the figures of a line, under the rank that its stamp names."""
        place = _PLACE.search(text)
        names = place[1].strip() if place else ""
        replica = _REPLICA.search(names)
        label = _REPLICA.sub("", names).strip() or "0"
        starts = self._ranks.setdefault((replica[1] if replica else "", label), [])
        if not starts or _START in text:
            if self._count >= MOST_RANKS:
                return
            self._count += 1
            starts.append(RankLog(label, number, replica[1] if replica else ""))
        _take(starts[-1], text)

    def ranks(self) -> list[RankLog]:
        """Every start of every rank that allocated a pool."""
        every = (record for starts in self._ranks.values() for record in starts)
        return [record for record in every if record.tokens_by_pool or record.figures]


def _take(record: RankLog, text: str) -> None:
    figures = record.figures
    pool = _POOL.search(text)
    if pool is not None and len(record.tokens_by_pool) < 100:
        record.tokens_by_pool += (int(pool[1]),)
        sizes = [printed(size, "GB") for size in _SIZE.findall(text)]
        figures["pool"] = sum(sizes, figures.get("pool", Interval.exactly(0)))
        figures[f"pool {len(record.tokens_by_pool)}"] = sum(sizes, Interval.exactly(0))
    for pattern, name, unit in (
        (_SUM, "pools together", "GB"),
        (_TOTAL, "tokens", ""),
        (_LONGEST, "longest", ""),
        (_LEFT, "free", "GB"),
    ):
        found = pattern.search(text)
        if found is not None:
            figures[name] = printed(found[1], unit)
    if _SUM.search(text):  # what it is the sum of stands before it
        figures["pools before"] = figures.get("pool", Interval.exactly(0))
