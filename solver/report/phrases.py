"""Text shared by several parts of a report."""

from __future__ import annotations

from collections.abc import Collection, Sequence

MOST_RUNS = 6


def number(count: int) -> str:
    """Render a count as STYLE has it: 1_048_576."""
    return f"{count:_}"


def share(count: int, quota: int) -> str:
    """Render bytes as a share of a quota, to a tenth of a percent; "-" without a quota."""
    if quota <= 0:
        return "-"
    tenths = (2_000 * abs(count) + quota) // (2 * quota)
    sign = "-" if count < 0 and tenths else ""
    return f"{sign}{tenths // 10}.{tenths % 10} %"


def rank_runs(names: Sequence[str], members: Collection[str]) -> str:
    """Name some of the ranks as runs in the order written: "r0..r3, r6"."""
    runs: list[list[str]] = [[]]
    for name in names:
        if name in members:
            runs[-1].append(name)
        elif runs[-1]:
            runs.append([])
    texts: list[str] = []
    for run in filter(None, runs):
        texts.extend([f"{run[0]}..{run[-1]}"] if len(run) > 2 else run)
    if len(texts) > MOST_RUNS:
        texts = [*texts[:MOST_RUNS], "..."]
    return ", ".join(texts)
