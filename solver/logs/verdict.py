"""Whether the ranks of one start agree, and what one agreed plan would have given and cost."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from kvplan.models import Problem
from kvplan.solver.logs.engines.vllm_launch import GIVEN_BYTES
from kvplan.solver.logs.reading.record import CORE, Failure, RankLog, Wrong
from kvplan.solver.logs.remarks import remarks
from kvplan.solver.logs.rules import wrong_figures


class Share(NamedTuple):
    """What a rank has beside the smallest of its start."""

    rank: RankLog
    more: int  # blocks or tokens that it counted beyond the agreed ones
    unused_bytes: int | None  # that one plan leaves free on it; None where no size is printed


class Start(NamedTuple):
    """One engine's start: its ranks, and what is to be said of them."""

    engine: str
    source: str
    replica: str
    shares: tuple[Share, ...]
    cores: tuple[RankLog, ...]  # what an engine core prints for all of its ranks
    counts: tuple[tuple[int, ...], ...]  # of every rank that prints one, or of the core
    agreed: int | None  # blocks (else tokens of the first pool) that every rank has
    over_asked: int | None  # bytes that the first rank's count asks of the smallest too much
    wrong: tuple[Wrong, ...]
    remarks: tuple[str, ...]
    failures: tuple[Failure, ...] = ()  # what the engine says of why it did not start

    @property
    def ranks_agree(self) -> bool:
        """Whether all ranks that print a count print the same."""
        return len(set(self.counts)) <= 1

    @property
    def is_fine(self) -> bool:
        """Whether nothing was found."""
        return self.ranks_agree and not self.wrong and not self.failures


def starts_of(engine: str, source: str, records: Sequence[RankLog]) -> list[Start]:
    """Part records into starts: replicas apart, and what each replica printed in one start."""
    parted: dict[tuple[str, int], list[RankLog]] = {}
    for record in records:
        parted.setdefault((record.replica, record.start), []).append(record)
    return [_start(engine, source, replica, of) for (replica, _), of in parted.items()]


def _start(engine: str, source: str, replica: str, records: Sequence[RankLog]) -> Start:
    cores = [record for record in records if record.label == CORE]
    ranks = [record for record in records if record.label != CORE] or cores
    counted = [rank for rank in ranks if rank.count is not None] or cores
    counts = tuple(rank.count for rank in counted if rank.count is not None)
    comparable = counts if engine not in APART else counts[:1]
    agreed = _agreed(counted) if comparable else None
    return Start(
        engine=engine,
        source=source,
        replica=replica,
        shares=_shares(ranks, agreed),
        cores=tuple(cores) if ranks is not cores else (),
        counts=comparable,
        agreed=agreed,
        over_asked=_over_asked(ranks, agreed),
        wrong=tuple(wrong_figures(ranks, cores)),
        remarks=tuple(remarks(ranks, cores)),
        failures=_failures(records),
    )


APART = ("llama.cpp", "ollama")
"""Engines whose records are caches and devices of one process, with counts of their own."""


_TELLS = ("warm-up", "capture")
"""Failures that name the step in which the allocation before them ran out of memory."""


def _failures(records: Sequence[RankLog]) -> tuple[Failure, ...]:
    """What was said, once however many processes and tracebacks repeat it."""
    said = sorted((one for record in records for one in record.failures), key=lambda f: f.line)
    told = max((one.line for one in said if one.kind in _TELLS), default=0)
    built = max((one.line for one in records if "size" in one.figures), default=0)
    every = [
        one
        for one in said
        if (one.kind != "out of memory" or one.line > told)
        and (one.kind != "fit" or one.line > built)  # what did not fit was made smaller
    ]
    if any(GIVEN_BYTES in record.traits for record in records):
        every = [one._replace(remedies=tuple(map(_by_bytes, one.remedies))) for one in every]
    return tuple({(failure.kind, failure.why): failure for failure in reversed(every)}.values())[
        ::-1
    ]


def _by_bytes(remedy: str) -> str:
    """A remedy where the launch gives the cache its bytes: the utilization does nothing then."""
    return remedy.replace("--gpu-memory-utilization", "--kv-cache-memory-bytes")


def _first(rank: RankLog) -> int | None:
    return None if rank.count is None else rank.count[0]


def _agreed(ranks: Sequence[RankLog]) -> int:
    """The count of one plan for all ranks: solved where bytes of a block are printed."""
    sizes = [(rank.whole("block_bytes"), rank.whole("blocks")) for rank in ranks]
    if all(size and blocks is not None for size, blocks in sizes):
        return _planned([(size or 0, blocks or 0) for size, blocks in sizes])
    return min(count for rank in ranks if (count := _first(rank)) is not None)


def _planned(sizes: Sequence[tuple[int, int]]) -> int:
    """Solve for ranks that have the bytes they counted; other block bytes are another stage."""
    from kvplan.solver.solve.plan import plan

    stages = {size: stage for stage, size in enumerate(dict.fromkeys(size for size, _ in sizes))}
    ranks = [
        {"name": f"rank{index}", "stage": stages[size], "quota": size * blocks}
        for index, (size, blocks) in enumerate(sizes)
    ]
    pool = {"name": "kv", "bytes": {str(stage): size for size, stage in stages.items()}}
    caches = [{"name": "kv", "kind": "full"}]
    problem = Problem.model_validate({"ranks": ranks, "pools": [pool], "caches": caches})
    return plan(problem).blocks["kv"]


def _unit(rank: RankLog) -> Fraction | None:
    """Bytes of one block, or of one token where tokens are counted, as well as the log has it."""
    figures, count = rank.figures, _first(rank)
    if rank.whole("block_bytes"):
        return figures["block_bytes"].low
    whole = figures.get("pool 1") or figures.get("pool")
    if whole is None or not count:
        return None
    return (whole.low + whole.high) / (2 * count)


def _shares(ranks: Sequence[RankLog], agreed: int | None) -> tuple[Share, ...]:
    """What each rank has beside the smallest: in blocks where it counted more, else in bytes."""
    measured = [r.figures["available"].middle for r in ranks if "available" in r.figures]
    alike = len({rank.whole("block_bytes") for rank in ranks}) == 1  # stages are not
    least = min(measured) if measured and alike else None
    return tuple(_share(rank, agreed, least) for rank in ranks)


def _share(rank: RankLog, agreed: int | None, least_available: int | None) -> Share:
    count, unit = _first(rank), _unit(rank)
    more = count - agreed if count is not None and agreed is not None else 0
    if more:
        return Share(rank, more, None if unit is None else int(more * unit))
    if least_available is None or "available" not in rank.figures:
        return Share(rank, 0, None)
    return Share(rank, 0, rank.figures["available"].middle - least_available)


def _over_asked(ranks: Sequence[RankLog], agreed: int | None) -> int | None:
    """(count of the first rank - smallest count) x bytes of a block of the smallest."""
    counted = [rank for rank in ranks if rank.count is not None]
    if agreed is None or not counted:
        return None
    smallest = min(counted, key=lambda rank: _first(rank) or 0)
    first, unit = _first(counted[0]) or 0, _unit(smallest)
    return None if unit is None else int((first - agreed) * unit)
