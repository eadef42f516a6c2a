"""How a figure that does not follow is told."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models.units import human_bytes
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import RankLog, Wrong

COUNTS = frozenset(
    (
        *("blocks", "tokens", "longest", "block_tokens", "chunk", "prefill", "requests", "slots"),
        *("cells", "layers", "streams", "window", "sequence blocks", "measured blocks", "session"),
        *("n_ctx", "n_batch", "n_ubatch", "n_ctx_seq", "n_ctx_per_seq", "n_seq_max", "windows"),
    )
)
RATIOS = frozenset(
    ("utilization", "concurrency", "share", "share without graphs", "share with graphs")
)


def wrong(rank: RankLog, name: str, text: str) -> Wrong:
    """A figure of a rank that does not follow."""
    return Wrong(rank.label, rank.line, name, text)


def compare(rank: RankLog, name: str, derived: Interval, how: str) -> Iterator[Wrong]:
    """Name a figure that no value within its rounding and the derived ones explains."""
    printed = rank.figures[name]
    if not printed.meets(derived):
        text = f"{said(name, printed)} where {how} give {said(name, derived)}"
        yield wrong(rank, name, text)


def said(name: str, figure: Interval) -> str:
    """A figure as a person reads it: bytes, a count or a ratio."""
    if name in RATIOS:
        return decimal(figure)
    if name in COUNTS:
        low, high = f"{float(figure.low):.10g}", f"{float(figure.high):.10g}"
        return low if low == high else f"{low} to {high}"
    return span(figure)


def span(figure: Interval) -> str:
    """Bytes as a person reads them, with both ends where they differ."""
    low, high = human_bytes(int(figure.low)), human_bytes(int(figure.high))
    return low if low == high else f"{low} to {high}"


def decimal(ratio: Interval) -> str:
    """A ratio with two decimals."""
    hundredths = round(50 * (ratio.low + ratio.high))
    sign = "-" if hundredths < 0 else ""
    return f"{sign}{abs(hundredths) // 100}.{abs(hundredths) % 100:02d}"
