"""What does not follow and may yet be right, and what a reader should know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvplan.solver.logs.compare import decimal
from kvplan.solver.logs.concurrency import agrees, tokens_of_blocks
from kvplan.solver.logs.engines.vllm_launch import FITTED, ONE_LINE
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.record import RankLog


def remarks(ranks: Sequence[RankLog], cores: Sequence[RankLog]) -> Iterator[str]:
    """Notes on a start, in the order of its records."""
    for record in (*ranks, *(core for core in cores if core not in ranks)):
        yield from _several_kinds(record)
        yield from _override(record)
        if FITTED in record.words:
            yield f"the longest context was reduced to fit, from {record.words[FITTED]} tokens"
        session, longest = record.whole("session"), record.whole("longest")
        if session is not None and longest is not None:
            yield f"rank {record.label}: a session of {longest} tokens was cut to {session}"


def _several_kinds(record: RankLog) -> Iterator[str]:
    if ONE_LINE in record.traits:
        return  # told as a wrong figure
    for tokens, _, longest, printed in record.pairs:
        if tokens is None or not longest or printed is None or agrees(tokens, longest, printed):
            continue
        derived = Interval.exactly(tokens).over(Interval.exactly(longest))
        yield (
            f"line {record.line}: a concurrency of {decimal(printed)} at {longest} tokens is not "
            f"{tokens} / {longest} = {decimal(derived)}: only right for layers of several kinds"
        )


def _override(record: RankLog) -> Iterator[str]:
    blocks, measured = record.whole("blocks"), record.whole("measured blocks")
    if blocks is None or measured is None:
        return
    tokens = record.whole("tokens")
    if tokens is not None and not tokens_of_blocks(blocks, tokens, record.whole("longest")):
        return  # told as a wrong figure
    yield (
        f"line {record.line}: num_gpu_blocks_override allocates {blocks} blocks where the memory "
        f"holds {measured}"
    )
