"""Interleaved medians: what is compared is timed in turns; a noisy machine hits all alike."""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Mapping

Job = Callable[[], object]


def interleaved(
    jobs: Mapping[str, Job],
    rounds: int,
    *,
    warm: int = 1,
    before: Mapping[str, Job] | None = None,
    before_each: Mapping[str, Job] | None = None,
    least_ms: float = 0,
) -> dict[str, float]:
    """Median milliseconds of every job over `rounds` turns.

    Parameters
    ----------
    before : called untimed before each turn of a job.
    before_each : called untimed before each call of a job.
    least_ms : a turn repeats its job until it has taken about this long, and counts the mean.
    """
    samples: dict[str, list[float]] = {name: [] for name in jobs}
    times = dict.fromkeys(jobs, 1)
    for turn in range(rounds + warm):
        for name, job in jobs.items():
            if before and name in before:
                before[name]()
            elapsed = _turn(job, times[name], (before_each or {}).get(name))
            if turn >= warm:
                samples[name].append(elapsed)
            elif least_ms:
                times[name] = max(1, math.ceil(least_ms / elapsed))
    return {name: statistics.median(found) for name, found in samples.items()}


def _turn(job: Job, times: int, before_each: Job | None) -> float:
    """Mean milliseconds of a job called some times in a row."""
    gc.collect(0)
    if before_each is not None:
        return sum([_alone(job, before_each) for _ in range(times)]) / times
    start = time.perf_counter()
    for _ in range(times):
        job()
    return (time.perf_counter() - start) * 1e3 / times


def _alone(job: Job, before: Job) -> float:
    """Milliseconds of one call."""
    before()
    start = time.perf_counter()
    job()
    return (time.perf_counter() - start) * 1e3


def spread(values: list[float]) -> dict[str, float]:
    """Median, 90th percentile and largest of a list of milliseconds."""
    ordered = sorted(values)
    return {
        "count": len(ordered),
        "median_ms": round(statistics.median(ordered), 3),
        "p90_ms": round(ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)], 3),
        "max_ms": round(ordered[-1], 3),
    }
