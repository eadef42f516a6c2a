"""What must hold between the figures of llama.cpp and ollama."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.solver.logs.compare import compare, said, wrong
from kvplan.solver.logs.engines.log_llamacpp import BLOCK_BYTES
from kvplan.solver.logs.reading.interval import MIB, Interval
from kvplan.solver.logs.reading.record import RankLog, Wrong


def llamacpp_wrong(rank: RankLog) -> Iterator[Wrong]:
    """Sizes, buffers, rows, and what a device holds."""
    figures = rank.figures
    if figures.keys() >= {"size", "K", "V"}:
        yield from compare(rank, "size", figures["K"] + figures["V"], "K + V")
    buffers = [figure for name, figure in figures.items() if name.startswith("buffer ")]
    if buffers and "size" in figures:
        whole = sum(buffers, Interval.exactly(0))
        yield from compare(rank, "size", whole, "its buffers")
    yield from _rows(rank)
    yield from _device(rank)
    yield from _context(rank)
    yield from _ollama(rank)


def _rows(rank: RankLog) -> Iterator[Wrong]:
    """A row of a layer is a whole number of blocks of its type; states have no rows of layers."""
    cells, layers, streams = (rank.whole(n) for n in ("cells", "layers", "streams"))
    if not cells or not layers or not streams:
        return
    for name in ("K", "V"):
        figure, kind = rank.figures.get(name), rank.words.get(name, "")
        step = BLOCK_BYTES.get(kind)
        if figure is None or step is None:
            continue
        by = 1 if rank.words.get("kind") == "states" else layers
        if not _is_whole(figure, cells * streams * by * step):
            text = f"{said(name, figure)} in {cells} cells of {layers} layers: no whole rows"
            yield wrong(rank, name, text)


def _is_whole(figure: Interval, unit: int) -> bool:
    """Whether some multiple of a unit prints so."""
    return figure.low <= (figure.high // unit) * unit


def _device(rank: RankLog) -> Iterator[Wrong]:
    """total = free + self + unaccounted, self = model + context + compute (each cut to MiB)."""
    figures = rank.figures
    names = ("device model", "device context", "device compute")
    if figures.keys() >= {"device self", *names}:
        parts = sum((figures[name] for name in names), Interval.exactly(0))
        yield from compare(rank, "device self", parts, "model + context + compute")
    if figures.keys() >= {"device total", "device free", "device self", "unaccounted"}:
        whole = figures["device free"] + figures["device self"] + _around(figures["unaccounted"])
        yield from compare(rank, "device total", whole, "free + self + unaccounted")


def _around(figure: Interval) -> Interval:
    """A difference that was cut to whole MiB, towards 0 or below."""
    return Interval(figure.low - MIB, figure.high)


def _context(rank: RankLog) -> Iterator[Wrong]:
    """n_ctx_seq x sequences = n_ctx, or all of it where the sequences share; ubatch <= batch."""
    total, each, sequences = (rank.whole(n) for n in ("n_ctx", "n_ctx_seq", "n_seq_max"))
    each = each if each is not None else rank.whole("n_ctx_per_seq")
    if total and each and total != each:
        count, rest = divmod(total, each)
        if rest or sequences not in (None, count):
            yield wrong(rank, "n_ctx", f"{total} where a sequence has {each}")
    batch, ubatch = rank.whole("n_batch"), rank.whole("n_ubatch")
    if batch is not None and ubatch is not None and ubatch > batch:
        yield wrong(rank, "n_ubatch", f"{ubatch}, more than n_batch of {batch}")


def _ollama(rank: RankLog) -> Iterator[Wrong]:
    """total memory = weights + cache + graph over all devices; a part is no more than all."""
    figures = rank.figures
    parts = [figure for name, figure in figures.items() if " on " in name]
    if parts and "whole" in figures:
        whole = sum(parts, Interval.exactly(0))
        yield from compare(rank, "whole", whole, "weights + cache + graph")
    full = figures.get("required.full")
    if full is None:
        return
    for name in ("required.kv", "required.partial", "weights.total"):
        if name in figures and figures[name].low > full.high:
            yield wrong(rank, name, f"{said(name, figures[name])} of {said(name, full)} in all")
    model, offload = figures.get("layers model"), figures.get("layers offload")
    if model is not None and offload is not None and offload.low > model.high:
        yield wrong(rank, "layers offload", f"{int(offload.low)} of {int(model.low)} layers")
