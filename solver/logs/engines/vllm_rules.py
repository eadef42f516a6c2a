"""What must hold between the figures of vLLM's core and its workers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from kvplan.solver.logs.compare import compare, decimal, span, wrong
from kvplan.solver.logs.concurrency import (
    agrees,
    blocks_agree,
    several_kinds,
    tokens_of_blocks,
)
from kvplan.solver.logs.engines.vllm_launch import (
    AUTO_FIT,
    BLOCK_TOKENS,
    KINDS,
    ONE_KIND,
    ONE_LINE,
)
from kvplan.solver.logs.reading.interval import Interval, least_of
from kvplan.solver.logs.reading.record import CORE, Pair, RankLog, Wrong

_BY_CONCURRENCY = (0, 20, 1)
_LARGE_BLOCK, _LARGEST_BLOCK = 256, 8192
"""Tokens that may be left over below one more block; blocks beside states are longer."""


def memory_wrong(rank: RankLog) -> Iterator[Wrong]:
    """Terms that a worker prints more than once, in one form or another."""
    figures = rank.figures
    if figures.keys() >= {"torch_peak", "non_torch", "available", "total", "utilization"}:
        left = figures["total"].times(figures["utilization"]) - figures["torch_peak"]
        yield from compare(rank, "available", left - figures["non_torch"], "the terms")
    if figures.keys() >= {"in use", "available"}:
        yield from compare(rank, "in use", figures["available"], "what is available")
    names = ("torch increase", "other increase", "weights in all")
    if figures.keys() >= {"not cache", *names}:
        parts = sum((figures[name] for name in names), Interval.exactly(0))
        yield from compare(rank, "not cache", parts, "weights and both increases")
    yield from _usage(rank)
    yield from _graph_share(rank)


def _usage(rank: RankLog) -> Iterator[Wrong]:
    """available = budget - usage without graphs; from 0.21 on less the estimate of the graphs."""
    figures = rank.figures
    if not figures.keys() >= {"budget", "available", "used", "used raph"}:
        return
    left = figures["budget"] - figures["used"] + figures["used raph"]
    charged = left - figures.get("graphs", Interval.exactly(0))
    if not figures["available"].meets(charged):
        yield from compare(rank, "available", left, "the budget and the usage")


def _graph_share(rank: RankLog) -> Iterator[Wrong]:
    """The share of the graphs is taken off the utilization, and proposed on top: at most 1."""
    figures = rank.figures
    names = {"share", "share without graphs", "share with graphs"}
    if not figures.keys() >= names:
        return
    less = figures["share"] - figures["share without graphs"]
    more = figures["share with graphs"] - figures["share"]
    raised = least_of(figures["share"] + less, Interval.exactly(1))
    if not figures["share with graphs"].meets(raised):
        yield wrong(
            rank,
            "share with graphs",
            f"{float(more.centre):.4f} above the utilization where the graphs take "
            f"{float(less.centre):.4f} off it",
        )
    if figures.keys() >= {"graphs", "total"} and figures["graphs"].low > 0:
        derived = figures["graphs"].over(figures["total"])
        if not less.meets(derived):
            share = f"{float(less.centre):.4f}"
            yield wrong(rank, "graphs", f"{span(figures['graphs'])} where they are {share} of it")


def core_wrong(
    core: RankLog, cores: Sequence[RankLog], ranks: Sequence[RankLog]
) -> Iterator[Wrong]:
    """Each count against its own concurrency, blocks against both, an override against all."""
    records = (*cores, *ranks)
    mixed = _has_several_kinds(chain(cores, ranks))
    strict = _counts_by_concurrency(records) or (_has(records, ONE_KIND) and not mixed)
    whole = [pair for pair in core.pairs if pair.longest and pair.concurrency is not None]
    apart = [pair for pair in whole if not _agrees(pair) or not _fits_blocks(pair, records)]
    is_told = all(mixed or _is_known(pair) for pair in apart) and not strict
    if len(apart) == len(whole) and is_told:
        apart = []  # told as a remark
    for pair in apart:
        yield wrong(core, "concurrency", _derived(pair))
    for pair in core.pairs:
        yield from _blocks(core, pair, mixed)
    if "measured blocks" in core.figures:
        yield from _override(core)
    yield from _refused(core, ranks)
    yield from _length(core, records)


def _length(core: RankLog, records: Sequence[RankLog]) -> Iterator[Wrong]:
    """The length of a concurrency is max_model_len, unless the engine chose another."""
    asked = next((r.words["max-model-len"] for r in records if "max-model-len" in r.words), None)
    if asked is None or _has(records, AUTO_FIT):
        return
    for longest in dict.fromkeys(pair.longest for pair in core.pairs if pair.longest):
        if longest != int(asked):
            text = f"a concurrency at {longest} tokens where the engine's length is {asked}"
            yield wrong(core, "longest", text)


def _fits_blocks(pair: Pair, records: Sequence[RankLog]) -> bool:
    """Whether blocks of the size that the launch names give the concurrency (before 0.9)."""
    size = next((r.words[BLOCK_TOKENS] for r in records if BLOCK_TOKENS in r.words), None)
    if pair.blocks is None or pair.tokens is not None or size is None:
        return True
    tokens = Interval.exactly(pair.blocks * int(size))
    ratio = tokens.over(Interval.exactly(pair.longest or 1))
    return pair.concurrency is None or pair.concurrency.meets(ratio)


def _has(records: Iterable[RankLog], trait: str) -> bool:
    return any(trait in record.traits for record in records)


def _has_several_kinds(records: Iterator[RankLog]) -> bool:
    return _has(records, KINDS)


def _counts_by_concurrency(records: Iterable[RankLog]) -> bool:
    """Whether the log is of a version whose tokens are int(concurrency x length)."""
    records = list(records)
    if any(ONE_LINE in record.traits for record in records):
        return True
    versions = (record.words["version"] for record in records if "version" in record.words)
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", next(versions, ""))
    return found is not None and tuple(map(int, found.groups())) >= _BY_CONCURRENCY


def _agrees(pair: Pair) -> bool:
    """Whether the count and the concurrency of layers of one kind follow from each other."""
    if not pair.longest or pair.concurrency is None:
        return True
    if pair.tokens is not None:
        return agrees(pair.tokens, pair.longest, pair.concurrency)
    return pair.blocks is None or blocks_agree(pair.blocks, pair.longest, pair.concurrency)


def _is_known(pair: Pair) -> bool:
    """Whether some model with layers of several kinds explains the pair."""
    if pair.tokens is None or not pair.longest or pair.concurrency is None:
        return False
    return several_kinds(pair.tokens, pair.longest, pair.concurrency)


def _derived(pair: Pair) -> str:
    said = f"{decimal(pair.concurrency or Interval.exactly(0))} at {pair.longest} tokens"
    if pair.tokens is None:
        return f"{said}: {pair.blocks} blocks of no size give that"
    ratio = Interval.exactly(pair.tokens).over(Interval.exactly(pair.longest or 1))
    return f"{said} where {pair.tokens} tokens give {decimal(ratio)}"


def _blocks(core: RankLog, pair: Pair, mixed: bool) -> Iterator[Wrong]:
    """Blocks and tokens of one worker; those of an override are told apart."""
    if pair.blocks is None or pair.tokens is None or mixed or "measured blocks" in core.figures:
        return
    if not tokens_of_blocks(pair.blocks, pair.tokens, pair.longest):
        text = f"{pair.blocks} where {pair.tokens} tokens are no whole blocks of it"
        yield wrong(core, "blocks", text)


def _override(core: RankLog) -> Iterator[Wrong]:
    """Tokens of the blocks that were measured are not those of the blocks that are allocated."""
    blocks, measured = core.whole("blocks"), core.whole("measured blocks")
    tokens, longest = core.whole("tokens"), core.whole("longest")
    if blocks is None or tokens is None or blocks == measured:
        return
    if tokens_of_blocks(blocks, tokens, longest):
        return
    true = ""
    if measured and not tokens * blocks % measured:
        true = f", {tokens * blocks // measured} tokens"
    beside = " and the concurrency beside them" if "concurrency" in core.figures else ""
    yield wrong(
        core,
        "tokens",
        f"{tokens} are those of {measured} blocks: num_gpu_blocks_override allocates "
        f"{blocks}{true}, so they{beside} are false",
    )


def _refused(core: RankLog, ranks: Sequence[RankLog]) -> Iterator[Wrong]:
    """A refusal's figures: needed above available, the estimate below the length asked."""
    room = [rank.figures["available"] for rank in ranks if "available" in rank.figures]
    for failure in core.failures:
        given = failure.figures
        if failure.kind != "context" or "2" not in given:
            continue
        needed, left = float(given["1"]), float(given["2"])
        if needed < left:
            yield wrong(core, "needed", f"{needed} GiB is no more than the {left} GiB available")
        if room and left - 0.02 > max(float(figure.high) for figure in room) / 2**30:
            most = span(max(room, key=lambda figure: figure.high))
            yield wrong(core, "available", f"{left} GiB in the refusal where the ranks have {most}")
        if "3" in given and float(given["3"]) >= float(given["0"]):
            yield wrong(core, "estimate", f"{given['3']} is no less than the {given['0']} refused")


def workers_wrong(ranks: Sequence[RankLog], cores: Sequence[RankLog]) -> Iterator[Wrong]:
    """A core that prints one count per worker: the same bytes of a token on each of them."""
    workers = [rank for rank in ranks if rank.label != CORE and "available" in rank.figures]
    counts = sorted(pair.tokens for core in cores for pair in core.pairs if pair.tokens)
    staged = any("PP" in rank.label and not rank.label.startswith("PP0") for rank in workers)
    if len(counts) != len(workers) or len(counts) < 2 or staged:
        return
    workers.sort(key=lambda rank: rank.figures["available"])
    rooms = [rank.figures["available"] for rank in workers]
    spare = _LARGEST_BLOCK if _has_several_kinds(chain(cores, ranks)) else _LARGE_BLOCK
    sizes = [
        Interval(room.low / (tokens + spare), room.high / tokens)
        for room, tokens in zip(rooms, counts, strict=True)
    ]
    for rank, room, tokens, size in zip(workers, rooms, counts, sizes, strict=True):
        fitting = sum(size.meets(other) for other in sizes)
        if 2 * fitting <= len(sizes) or (len(sizes) == 2 and not sizes[0].meets(sizes[1])):
            yield wrong(
                rank,
                "available",
                f"{span(room)} for {tokens} tokens: another size of a token than the other ranks'",
            )
