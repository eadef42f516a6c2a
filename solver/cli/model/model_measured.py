"""Raw log lines of readings: what a rank measured, and what it leaves for the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kvplan.models import Problem
from kvplan.models.ranks import Rank
from kvplan.solver.logs.compare import RATIOS
from kvplan.solver.logs.engines.log_atom import terms_of
from kvplan.solver.logs.engines.log_trtllm import memory_of
from kvplan.solver.logs.engines.vllm_lines import figures_of
from kvplan.solver.logs.reading.interval import GIB, Interval

Measured = Mapping[str, tuple[Fraction, ...]]
"""Values of a reading by rank; one where all ranks have the same."""
_READERS: dict[str, Callable[[str], Mapping[str, Interval]]] = {
    "vllm": lambda text: figures_of(text)[0],
    "atom": terms_of,
    "tensorrt-llm": memory_of,
}
_LABELS = {"available": ("Available KV cache memory", "available_for_kv")}
"""Figures of an adapter that say what a reading says of the first rank alone."""
_ALSO = {
    "used weight": "weights",
    "used activation": "activation",
    "used non-torch": "non_torch",
    "in use": "available",
}
"""Readings that vLLM repeats when it has started."""
_TYPED = (
    *(("total", "total_bytes"), ("free", "free"), ("graphs", "graphs")),
    *(("weights", "weights_bytes"), ("loaded", "weights_bytes"), ("activation", "activation")),
)


def measured(settings: Mapping[str, Any], problem: Problem) -> Measured:
    """Readings of a launch by the names of its log, and what every rank has left of them."""
    found: dict[str, tuple[Fraction, ...]] = {
        name: (Fraction(settings[key]),)
        for name, key in _TYPED
        if isinstance(settings.get(key), int)
    }
    if found.keys() >= {"weights", "activation"}:
        found["torch_peak"] = (found["weights"][0] + found["activation"][0],)
    found["available"] = tuple(Fraction(rank.quota_bytes) for rank in problem.ranks)
    for rank in problem.ranks[:1]:
        found |= dict(_memory(rank))
    return found


def _memory(rank: Rank) -> Iterator[tuple[str, tuple[Fraction, ...]]]:
    """Terms of a memory section that someone measured."""
    memory = rank.memory
    if memory is None:
        return
    if memory.utilization is not None:
        yield "utilization", (memory.utilization,)
    if memory.budget_bytes is not None and "total" not in memory.estimated:
        yield "budget", (Fraction(memory.budget_bytes),)
    for name, count in (
        ("peak", memory.peak_torch),
        ("non_torch", memory.non_torch),
        ("safety", memory.safety_bytes),
    ):
        if count:
            yield name, (Fraction(count),)


def read_measured(engine: str, text: str, known: Measured) -> dict[str, Interval]:
    """Readings in a line that the launch knows, too."""
    reader = _READERS.get(engine)
    found = reader(text) if reader is not None else {}
    named = {_ALSO.get(name, name): figure for name, figure in found.items()}
    return {name: figure for name, figure in named.items() if name in known}


def compare_measured(readings: Mapping[str, Interval], plans: Sequence[Measured]) -> Iterator[str]:
    """Readings of a line that no rank has, with readings at either end."""
    for name, figure in readings.items():
        ranks = zip(*(plan[name] for plan in plans if name in plan), strict=False)
        ends = [Interval(min(values), max(values)) for values in ranks]
        if not any(figure.meets(each) for each in ends):
            told = " or ".join(dict.fromkeys(_range(name, each) for each in ends))
            logged = _shown(name, figure.centre)
            yield f"{name.replace('_', ' ')}: the log says {logged}, the plan {told}"


def _range(name: str, ends: Interval) -> str:
    low, high = (_shown(name, end) for end in ends)
    return low if low == high else f"{low} to {high}"


def _shown(name: str, value: Fraction) -> str:
    """A value with as few decimals as tell it from its neighbours, two at least."""
    unit, scale = ("", 1) if name in RATIOS else (" GiB", GIB)
    digits = f"{float(value / scale):.4f}"
    return f"{digits[:-2] + digits[-2:].rstrip('0')}{unit}"


def without_measured(
    figures: Mapping[str, str], readings: Mapping[str, Interval]
) -> dict[str, str]:
    """An adapter's figures without those that a line's readings have been compared with."""
    covered = {label for name in readings for label in _LABELS.get(name, ())}
    return {label: value for label, value in figures.items() if label not in covered}
