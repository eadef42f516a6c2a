"""Every derived figure recomputed from the printed terms, by what their rounding allows.

A figure is wrong only if no values that print like its terms give it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.models.units import human_bytes
from kvplan.solver.logs.interval import MIB, Interval, least_of
from kvplan.solver.logs.record import RankLog, Wrong

_VLLM_MARGIN = Interval.exactly(150 * MIB)
"""What vLLM's suggested --kv-cache-memory leaves free (vllm-project/vllm#21489)."""


def wrong_figures(ranks: Sequence[RankLog]) -> list[Wrong]:
    """All figures of one start that do not follow, in the order of the ranks."""
    agreed = _agreed_available(ranks)
    found: list[Wrong] = []
    for rank in ranks:
        found += _budget(rank)
        found += _available(rank, agreed)
        found += _blocks(rank)
        found += _tokens(rank)
        found += _suggested(rank)
        found += _together(rank)
    return found


def _budget(rank: RankLog) -> Iterator[Wrong]:
    """budget = floor(total x utilization)."""
    figures = rank.figures
    if figures.keys() >= {"budget", "total", "utilization"}:
        yield from _compare(rank, "budget", _share(rank), "total x utilization")


def _share(rank: RankLog) -> Interval:
    return rank.figures["total"].times(rank.figures["utilization"]).lowered()


def _terms(rank: RankLog) -> Interval | None:
    """What is left of the budget, where every term of the version is printed.

    ATOM: budget - peak_torch - non_torch (since #1649) - graphs - safety, at most free. vLLM 0:
    budget - weights - non_torch - activation.
    """
    figures = rank.figures
    for names, optional in (
        (("peak", "graphs", "safety"), ("non_torch",)),
        (("weights", "non_torch", "activation"), ()),
    ):
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
    if len(printed) != 1 or len(terms) != len(ranks) or len(ranks) < 2:
        return None
    return least_of(*terms)


def _available(rank: RankLog, agreed: Interval | None) -> Iterator[Wrong]:
    """available = what the terms leave, of this rank or of the smallest."""
    figures, left = rank.figures, _terms(rank)
    if "available" not in figures:
        return
    if figures["available"].high < 0:
        yield Wrong(rank.label, rank.line, "available", f"{span(figures['available'])}: below 0")
    if left is None or (agreed is not None and agreed.meets(figures["available"])):
        return
    if "free" not in figures and "peak" in figures:
        left = Interval(min(left.low, figures["available"].low), left.high)  # free may rule
    yield from _compare(rank, "available", left, "the terms")


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
    text = f"{blocks} where {span(room)} hold {expected} of {block} B"
    yield Wrong(rank.label, rank.line, "blocks", text)


def _tokens(rank: RankLog) -> Iterator[Wrong]:
    """tokens = blocks x tokens per block, of a pool with one window (TensorRT-LLM)."""
    blocks, each, tokens = (rank.whole(n) for n in ("blocks", "block_tokens", "tokens"))
    if blocks is None or each is None or tokens is None or (rank.whole("windows") or 0) > 1:
        return
    if blocks * each != tokens:
        text = f"{tokens} where {blocks} blocks of {each} are {blocks * each}"
        yield Wrong(rank.label, rank.line, "tokens", text)


def _suggested(rank: RankLog) -> Iterator[Wrong]:
    """--kv-cache-memory = budget - what is used - 150 MiB (vLLM)."""
    figures = rank.figures
    if figures.keys() >= {"suggested", "budget", "used"}:
        left = figures["budget"] - figures["used"] - _VLLM_MARGIN
        yield from _compare(rank, "suggested", left, "budget - usage - 150 MiB")


def _together(rank: RankLog) -> Iterator[Wrong]:
    """The sum of a full and a window pool (SGLang)."""
    figures = rank.figures
    if figures.keys() >= {"pools together", "pools before"} and rank.tokens_by_pool:
        yield from _compare(rank, "pools together", figures["pools before"], "the pools before it")


def _compare(rank: RankLog, name: str, derived: Interval, how: str) -> Iterator[Wrong]:
    printed = rank.figures[name]
    if not printed.meets(derived):
        text = f"{span(printed)} where {how} give {span(derived)}"
        yield Wrong(rank.label, rank.line, name, text)


def span(figure: Interval) -> str:
    """Bytes as a person reads them, with both ends where they differ."""
    low, high = human_bytes(int(figure.low)), human_bytes(int(figure.high))
    return low if low == high else f"{low} to {high}"


def remarks(ranks: Sequence[RankLog]) -> Iterator[str]:
    """What does not follow and may yet be right: it depends on what the log does not say."""
    for rank in ranks:
        tokens, longest = rank.whole("tokens"), rank.whole("longest")
        printed = rank.figures.get("concurrency")
        if tokens is None or not longest or printed is None:
            continue
        derived = Interval.exactly(tokens).over(Interval.exactly(longest))
        if not printed.meets(derived):
            yield (
                f"line {rank.line}: a concurrency of {_decimal(printed)} at "
                f"{longest} tokens is not {tokens} / {longest} = "
                f"{_decimal(derived)}: only right for layers of several kinds"
            )


def _decimal(ratio: Interval) -> str:
    hundredths = round(50 * (ratio.low + ratio.high))
    return f"{hundredths // 100}.{hundredths % 100:02d}"
