"""The report of a layout: the engine's rule against the optimum, bucket by bucket."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from kvplan.models.layouts import LayoutAnswer
from kvplan.models.layouts.chosen import BucketFigures, Compared, Freedom, LayoutFigures
from kvplan.models.units import exact_bytes, human_bytes
from kvplan.solver.report.document import Column, Document, Lines, Row, Table

_SHOWN_TOKENS = "prefix granularity (tokens)"


def layout_document(answer: LayoutAnswer) -> Document:
    """The contents of a report, in reading order."""
    engine = answer.engine
    return (
        _headline(answer),
        _comparison(answer.figures, engine),
        _buckets("Buckets in the best layout", answer.figures.buckets),
        *(
            []
            if engine is None
            else [_buckets(f"Buckets by {engine.name}", engine.figures.buckets)]
        ),
        _freedom("What other permissions give", "more freedom", answer.freedom),
        _freedom("What fewer groups cost", "fewer groups", answer.fewer_groups),
        _proof(answer),
    )


def _headline(answer: LayoutAnswer) -> Lines:
    texts = [answer.name] if answer.name else []
    taken = exact_bytes(_whole(answer.figures.bytes))
    if answer.engine is None:
        return Lines((*texts, f"optimal layout: {taken} for the workload"), "good")
    saved = answer.saved_share or Fraction(0)
    theirs = exact_bytes(_whole(answer.engine.figures.bytes))
    texts.append(f"optimal layout: {taken} for the workload; {answer.engine.name}: {theirs}")
    if saved > 0:
        texts.append(f"saves {_percent(saved)} of the engine's bytes")
    elif saved == 0:
        texts.append("the engine's rule already takes the fewest bytes")
    else:
        texts.append("the engine's own layout is outside of what the question permits")
    return Lines(tuple(texts), "good")


def _comparison(best: LayoutFigures, engine: Compared | None) -> Table:
    if engine is None:
        lines = [Row((label, text)) for label, text in _rows(best)]
        return Table("Layout", (Column("layout"), Column("best", "number")), (tuple(lines),))
    title = "The engine's rule and the optimum"
    return layouts_table(title, {engine.name: engine.figures, "best": best})


def layouts_table(title: str, layouts: Mapping[str, LayoutFigures]) -> Table:
    """Layouts side by side, by name."""
    figures = [dict(_rows(each)) for each in layouts.values()]
    columns = (Column("layout"), *(Column(name, "number") for name in layouts))
    labels = dict.fromkeys(label for rows in reversed(figures) for label in rows)
    lines = [Row((label, *(rows.get(label, "-") for rows in figures))) for label in labels]
    return Table(title, columns, (tuple(lines),))


def _rows(figures: LayoutFigures) -> Iterator[tuple[str, str]]:
    yield "bytes of the workload", human_bytes(_whole(figures.bytes))
    yield "bytes of the longest request", human_bytes(figures.request_bytes)
    if figures.page_bytes is not None:
        yield "page", human_bytes(figures.page_bytes)
    yield "block of the shared pool", human_bytes(figures.block_bytes)
    yield "block tokens", "/".join(map(str, _block_tokens(figures))) or "-"
    yield "groups (block tables)", str(figures.groups)
    yield "padded layers", str(figures.padded_layers)
    yield "waste", human_bytes(_whole(figures.waste_bytes))
    yield "blocks of the longest request", str(figures.blocks)
    yield "each step: block tables of it", human_bytes(figures.table_bytes)
    yield "each step: slots of a token", human_bytes(figures.slot_bytes)
    yield _SHOWN_TOKENS, f"{figures.prefix_tokens:,}"
    if figures.tokens is not None and figures.concurrency is not None:
        yield "tokens at the quota", f"{figures.tokens:,}"
        yield "concurrency", _hundredths(figures.concurrency)
    if figures.copies is not None:
        yield "copies of the workload at the quota", str(figures.copies)


def _block_tokens(figures: LayoutFigures) -> list[int]:
    return sorted({each.block_tokens for each in figures.buckets if each.block_tokens})


def _buckets(title: str, buckets: Iterable[BucketFigures]) -> Table:
    columns = (
        Column("bucket"),
        Column("pool", level=2),
        Column("layers", "number"),
        Column("groups", "number"),
        Column("block tokens", "number"),
        Column("split", "number", level=2),
        Column("page", "number"),
        Column("padding", "number"),
        Column("padded layers", "number", level=1),
        Column("blocks", "number"),
        Column("waste", "number"),
    )
    rows = tuple(
        Row(
            (
                each.bucket,
                each.pool,
                str(each.layers),
                str(each.groups),
                str(each.block_tokens or "-"),
                "-" if each.split == 1 else str(each.split),
                human_bytes(each.page_bytes),
                human_bytes(each.padding_bytes),
                str(each.padded_layers),
                str(each.blocks),
                human_bytes(_whole(each.waste_bytes)),
            )
        )
        for each in buckets
    )
    return Table(title, columns, (rows,))


def _freedom(title: str, head: str, entries: Iterable[Freedom]) -> Table:
    columns = (
        Column(head),
        Column("bytes", "number"),
        Column("groups", "number"),
        Column("copies", "number"),
    )
    rows = tuple(
        Row(
            (
                entry.permission,
                human_bytes(_whole(entry.bytes)),
                str(entry.groups),
                None if entry.copies is None else str(entry.copies),
            )
        )
        for entry in entries
    )
    return Table(title, columns, (rows,))


def _proof(answer: LayoutAnswer) -> Lines:
    proof = answer.proof
    pruned = ", ".join(f"{count:,} by {reason}" for reason, count in proof.pruned.items())
    return Lines(
        (
            f"proof: {proof.status}, {proof.certificate}; {proof.candidates:,} candidates, "
            f"{proof.evaluated:,} evaluated" + (f"; ruled out: {pruned}" if pruned else ""),
            f"no layout takes less than {human_bytes(_whole(proof.floor_bytes))}, the bytes of the "
            "tokens and states alone",
            f"each step reads {answer.figures.groups} block tables a request and builds the "
            f"attention metadata of {answer.figures.groups} groups; a cached prefix is a multiple "
            f"of {answer.figures.prefix_tokens:,} tokens",
        )
    )


def _whole(exact: Fraction) -> int:
    return -(-exact.numerator // exact.denominator)


def _percent(share: Fraction) -> str:
    tenths = (share * 1000 + Fraction(1, 2)) // 1
    return f"{tenths // 10}.{tenths % 10} %"


def _hundredths(exact: Fraction) -> str:
    cut = (exact * 100 + Fraction(1, 2)) // 1
    return f"{cut // 100}.{cut % 100:02d}"
