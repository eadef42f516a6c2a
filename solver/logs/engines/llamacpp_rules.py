"""What must hold between the figures of llama.cpp and ollama."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from kvplan.solver.logs.compare import compare, said, wrong
from kvplan.solver.logs.engines.log_llamacpp import BLOCK_BYTES, SEEN, SEVERAL_ROWS, WINDOWED
from kvplan.solver.logs.reading.interval import MIB, Interval
from kvplan.solver.logs.reading.record import RankLog, Wrong

CELL_STEP = 256
"""Cells are padded to a multiple of it at most."""
BLOCK_VALUES = 32
"""Values of the smallest run of a quantised type."""


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


def caches_wrong(ranks: Sequence[RankLog]) -> Iterator[Wrong]:
    """Caches against the context and the model that the same start names.

    The largest cache has all cells of a context; a cache has no more layers than the model; a row
    is as wide as its keys or values, where all layers are alike.
    """
    seen = _seen(ranks)
    held = [r for r in ranks if "cells" in r.figures and r.words.get("kind") != "states"]
    yield from _cells(held, seen.get("n_ctx", set()))
    # An index, or a draft, has rows of its own; windows beside a full cache have the same.
    traits = {trait for rank in ranks for trait in rank.traits}
    several = SEVERAL_ROWS in traits or len(held) > (2 if WINDOWED in traits else 1)
    for rank in held:
        layers, most = rank.whole("layers") or 0, max(seen.get("n_layer", ()), default=None)
        if most is not None and layers > most:
            yield wrong(rank, "layers", f"{layers} of a model of {most}")
        for name in ("K", "V") if not several else ():
            yield from _width(rank, name, seen.get(f"n_embd_{name.lower()}_gqa", set()))


def _cells(held: Sequence[RankLog], contexts: set[int]) -> Iterator[Wrong]:
    """The largest cache holds a context; each stream of it may be padded, or cut to a whole."""
    largest = max(held, key=_all_cells, default=None)
    if largest is None or not contexts:
        return
    cells, streams = _all_cells(largest), largest.whole("streams") or 1
    if not any(-streams < cells - n < CELL_STEP * streams for n in contexts):
        text = f"{cells} in all where n_ctx is {' or '.join(map(str, sorted(contexts)))}"
        yield wrong(largest, "cells", text)


def _all_cells(cache: RankLog) -> int:
    return (cache.whole("cells") or 0) * (cache.whole("streams") or 1)


def _seen(ranks: Sequence[RankLog]) -> dict[str, set[int]]:
    """Values that a start prints of a setting, for a draft or a trial, too."""
    found: dict[str, set[int]] = {}
    for name in (name for rank in ranks for name in rank.figures if name.startswith(f"{SEEN} ")):
        _, setting, value = name.split(" ")
        found.setdefault(setting, set()).add(int(value))
    return found


def _width(rank: RankLog, name: str, widths: set[int]) -> Iterator[Wrong]:
    """cells x streams x layers x width values of the cache's type."""
    cells, layers, streams = (rank.whole(n) for n in ("cells", "layers", "streams"))
    figure, kind = rank.figures.get(name), rank.words.get(name, "")
    if figure is None or not (cells and layers and streams) or kind not in BLOCK_BYTES:
        return
    if figure.low <= 0:  # a latent's values are its keys
        return
    values = BLOCK_VALUES if kind not in ("f32", "f16", "bf16") else 1
    unit = Fraction(cells * layers * streams * BLOCK_BYTES[kind], values)
    sizes = [Interval.exactly(unit * width) for width in widths]
    if sizes and not any(figure.meets(size) for size in sizes):
        text = f"{said(name, figure)} where rows of {' or '.join(map(str, sorted(widths)))} values"
        yield wrong(rank, name, f"{text} give {' or '.join(said(name, size) for size in sizes)}")


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
