"""What must hold between the figures of TensorRT-LLM, and of LMDeploy's blocks."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.solver.logs.compare import said, wrong
from kvplan.solver.logs.reading.record import RankLog, Wrong


def trtllm_wrong(rank: RankLog) -> Iterator[Wrong]:
    """Blocks, tokens of a block, and tokens."""
    yield from _tokens(rank)
    yield from _sequence(rank)
    yield from _session(rank)
    figures = rank.figures
    if figures.keys() >= {"pool", "free", "windows"} and figures["pool"].low > figures["free"].high:
        text = f"{said('pool', figures['pool'])} of {said('free', figures['free'])} available"
        yield wrong(rank, "pool", text)


def _tokens(rank: RankLog) -> Iterator[Wrong]:
    """tokens = blocks x tokens per block, of a pool with one window (TensorRT-LLM)."""
    blocks, each, tokens = (rank.whole(n) for n in ("blocks", "block_tokens", "tokens"))
    if blocks is None or each is None or tokens is None or (rank.whole("windows") or 0) > 1:
        return
    if blocks * each != tokens:
        text = f"{tokens} where {blocks} blocks of {each} are {blocks * each}"
        yield wrong(rank, "tokens", text)


def _sequence(rank: RankLog) -> Iterator[Wrong]:
    """blocks of a sequence = ceil(window / tokens per block), one more for a window that slides."""
    blocks, window, each = (rank.whole(n) for n in ("sequence blocks", "window", "block_tokens"))
    if blocks is None or window is None or not each or window < each:
        return
    least = -(-window // each)
    most = least + 1 if (rank.whole("windows") or 0) <= 1 else blocks
    if not least <= blocks <= most:
        text = f"{blocks} where a window of {window} takes {least} blocks of {each}"
        yield wrong(rank, "sequence blocks", text)


def _session(rank: RankLog) -> Iterator[Wrong]:
    """What LMDeploy cuts a session to are all of its blocks; a chunk is at most all of them."""
    blocks, session, longest = (rank.whole(n) for n in ("blocks", "session", "longest"))
    chunk = rank.whole("chunk")
    if "block" not in rank.figures and session is None:
        return
    if session is not None and blocks and session % blocks:
        yield wrong(rank, "session", f"{session} tokens are no whole number in {blocks} blocks")
    if session is not None and longest is not None and session >= longest:
        yield wrong(rank, "session", f"{session} tokens, cut from {longest}")
    if chunk is not None and blocks is not None and chunk > blocks:
        yield wrong(rank, "chunk", f"{chunk} blocks of {blocks}")
