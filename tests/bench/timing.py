"""Interleaved medians: what is compared is timed in turns; a noisy machine hits all alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping


def interleaved(
    jobs: Mapping[str, Callable[[], object]],
    rounds: int,
    *,
    warm: int = 1,
    before: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, float]:
    """Median milliseconds of every job over `rounds` turns; `before` is called untimed."""
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(rounds + warm):
        for name, job in jobs.items():
            if before and name in before:
                before[name]()
            gc.collect(0)
            start = time.perf_counter()
            job()
            elapsed = (time.perf_counter() - start) * 1e3
            if turn >= warm:
                samples[name].append(elapsed)
    return {name: statistics.median(times) for name, times in samples.items()}


def spread(values: list[float]) -> dict[str, float]:
    """Median, 90th percentile and largest of a list of milliseconds."""
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "median_ms": round(statistics.median(ordered), 3),
        "p90_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)], 3),
        "max_ms": round(ordered[-1], 3),
    }
