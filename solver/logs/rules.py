"""Every derived figure recomputed from the printed terms, by what their rounding allows.

A figure is wrong only if no values that print like its terms give it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.solver.logs.compare import compare, said, span, wrong
from kvplan.solver.logs.engines.llamacpp_rules import caches_wrong, llamacpp_wrong
from kvplan.solver.logs.engines.sglang_rules import alike_wrong, sglang_wrong
from kvplan.solver.logs.engines.trtllm_rules import trtllm_wrong
from kvplan.solver.logs.engines.vllm_rules import core_wrong, memory_wrong, workers_wrong
from kvplan.solver.logs.reading.interval import MIB, Interval, least_of
from kvplan.solver.logs.reading.record import CORE, RankLog, Wrong

_VLLM_MARGIN = Interval.exactly(150 * MIB)
"""What vLLM's suggested --kv-cache-memory leaves free (vllm-project/vllm#21489)."""
_SIGNED = frozenset(("unaccounted", "chunk", "available"))
"""Figures that may be below 0, or have a rule of their own for it."""


def wrong_figures(ranks: Sequence[RankLog], cores: Sequence[RankLog] = ()) -> list[Wrong]:
    """All figures of one start that do not follow, in the order of the ranks."""
    agreed = _agreed_available(ranks)
    found: list[Wrong] = []
    for rank in ranks:
        found += _budget(rank)
        found += _available(rank, agreed)
        found += _blocks(rank)
        found += _suggested(rank)
        found += memory_wrong(rank)
        found += sglang_wrong(rank)
        found += trtllm_wrong(rank)
        found += llamacpp_wrong(rank)
    for core in cores:
        found += core_wrong(core, cores, ranks)
    for record in (*ranks, *(core for core in cores if core not in ranks)):
        found += _below_zero(record)
        found += _clashes(record)
    found += workers_wrong(ranks, cores)
    found += caches_wrong(ranks)
    found += alike_wrong([rank for rank in ranks if rank.label != CORE])
    return list(dict.fromkeys(found))


def _below_zero(rank: RankLog) -> Iterator[Wrong]:
    """A reading below 0 is a fault of the measurement."""
    for name, figure in rank.figures.items():
        if figure.high < 0 and name not in _SIGNED:
            text = f"{span(figure)}: below 0, so the measurement itself is at fault"
            yield wrong(rank, name, text)


def _clashes(rank: RankLog) -> Iterator[Wrong]:
    """A figure that one start prints twice is the same both times."""
    for name, first, second in rank.clashes:
        text = f"{said(name, second)} where the same start printed {said(name, first)} before"
        yield wrong(rank, name, text)


def _budget(rank: RankLog) -> Iterator[Wrong]:
    """budget = floor(total x utilization)."""
    figures = rank.figures
    if figures.keys() >= {"budget", "total", "utilization"}:
        yield from compare(rank, "budget", _share(rank), "total x utilization")


def _share(rank: RankLog) -> Interval:
    return rank.figures["total"].times(rank.figures["utilization"]).lowered()


_TERMS = (
    (("peak", "graphs", "safety"), ("non_torch",)),
    (("weights", "non_torch", "activation"), ()),
)


def _terms(rank: RankLog) -> Interval | None:
    """What is left of the budget, where every term of the version is printed.

    ATOM: budget - peak_torch - non_torch (since #1649) - graphs - safety, at most free. vLLM 0:
    budget - weights - non_torch - activation.
    """
    figures = rank.figures
    for names, optional in _TERMS:
        if "budget" in figures and figures.keys() >= set(names):
            left = figures["budget"]
            if figures.keys() >= {"total", "utilization"}:
                left = left.within(_share(rank))
            for name in (*names, *(name for name in optional if name in figures)):
                left -= figures[name]
            return least_of(left, figures["free"]) if "free" in figures else left
    return None


def _agreed_available(ranks: Sequence[RankLog]) -> Interval | None:
    """The smallest rank's, where all ranks print one and the same (ATOM since #3171)."""
    printed = {rank.figures.get("available") for rank in ranks}
    terms = [left for rank in ranks if (left := _terms(rank)) is not None]
    agree = all("peak" in rank.figures for rank in ranks) and len(printed) == 1
    if not agree or len(terms) != len(ranks) or len(ranks) < 2:
        return None
    return least_of(*terms)


def _available(rank: RankLog, agreed: Interval | None) -> Iterator[Wrong]:
    """available = what the terms leave, of this rank or of the smallest."""
    figures, left = rank.figures, _terms(rank)
    if "available" not in figures:
        return
    if figures["available"].high < 0:
        yield wrong(rank, "available", f"{span(figures['available'])}: below 0")
    if left is None or (agreed is not None and agreed.meets(figures["available"])):
        return
    if "free" not in figures and "peak" in figures:
        left = Interval(min(left.low, figures["available"].low), left.high)  # free may rule
    yield from compare(rank, "available", left, "the terms")


def _blocks(rank: RankLog) -> Iterator[Wrong]:
    """blocks = floor((available - state) / block_bytes); without the state, at most that."""
    figures = rank.figures
    block, blocks = rank.whole("block_bytes"), rank.whole("blocks")
    if not block or blocks is None or "available" not in figures:
        return
    room = figures["available"] - figures.get("state", Interval.exactly(0))
    most = max(0, int(room.high // block))
    least = max(0, int(room.low // block)) if "state" in figures else 0
    if least <= blocks <= most:
        return
    expected = f"{least} to {most}" if least else f"at most {most}"
    yield wrong(rank, "blocks", f"{blocks} where {span(room)} hold {expected} of {block} B")


def _suggested(rank: RankLog) -> Iterator[Wrong]:
    """--kv-cache-memory = budget - what is used - 150 MiB (vLLM).

    Some versions take the graphs off twice (vllm-project/vllm#57936).
    """
    figures = rank.figures
    for name, room in (("suggested", "budget"), ("suggested at most", "free")):
        if figures.keys() >= {name, room, "used"}:
            left = figures[room] - figures["used"] - _VLLM_MARGIN
            twice = left - figures.get("used raph", Interval.exactly(0))
            if not figures[name].meets(twice):
                yield from compare(rank, name, left, f"{room} - usage - 150 MiB")
            if f"{name} in GiB" in figures:
                yield from compare(rank, f"{name} in GiB", figures[name], "the bytes beside it")
