"""vLLM and its forks: lines of workers, and lines of the engine core that hold for all.

Workers are told apart by the tags of their lines: (Worker_DP0_TP1 pid=..), (VllmWorker rank=1
pid=..), (VllmWorker TP1 pid=..), (VllmWorkerProcess pid=..), (RayWorkerWrapper pid=..). What the
core alone prints is the core's in a line without a tag, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.solver.logs.engines.vllm_launch import trait_of, words_of
from kvplan.solver.logs.engines.vllm_lines import NEEDLES, figures_of
from kvplan.solver.logs.failures import NEEDLES as FAILURES
from kvplan.solver.logs.failures import failure_of
from kvplan.solver.logs.reading.assemble import assemble
from kvplan.solver.logs.reading.events import Event, EventReader
from kvplan.solver.logs.reading.interval import Interval
from kvplan.solver.logs.reading.prefix import places, source_of, unescaped
from kvplan.solver.logs.reading.record import CORE, RankLog

_WORKER = re.compile(
    r"\w{0,30}?Worker(?:Wrapper|Process|Proc)?-?(\d*)((?:[_ ][A-Z]+\d+)*)"
    r"(?: rank=(\d+))?(?: pid=(\d+))?(?:, ip=([\w.:]+))?\b"
)
_CORE = re.compile(r"EngineCore(?:_(?:DP)?(\d+))?")
_STARTS = re.compile(r"Initializing an? (?:V\d )?LLM engine")
_OF_CORE = frozenset(("tokens", "longest", "concurrency", "blocks", "measured blocks"))
_MEASURES = ("available", "budget")
_AGAIN = (
    *("loaded", "captured", "graphs", "measured blocks"),
    *("share", "share without graphs", "share with graphs"),
)
"""Printed again for a draft model, or by the core for each worker."""


class VllmReader(EventReader):
    """Reads what workers and engine cores say of their memory."""

    engine = "vLLM"
    needles = (*NEEDLES, *FAILURES[engine])

    def read(self, number: int, text: str) -> None:
        """Take in what a line says, under the rank that its tags name."""
        text = unescaped(text)
        found, place = figures_of(text)
        failure = failure_of(self.engine, number, text)
        words = words_of(text)
        opens = "engine" if _STARTS.search(text) else "arguments" if "args: " in text else ""
        trait = trait_of(text)
        if not (found or failure or words or opens == "engine" or trait):
            return
        label, replica = _speaker(text if place < 0 else text[:place], found)
        if not found and label != CORE and not failure:
            label = CORE
        self._keep(
            Event(
                number,
                source_of(text),
                replica,
                label,
                found=found,
                opens=opens,
                trait=trait,
                words=words,
                failure=failure,
            )
        )

    def ranks(self) -> list[RankLog]:
        """Every start of every worker and core, in the order in which they first spoke."""
        return assemble(self._events, measures=_MEASURES, latest=_AGAIN)


def _speaker(head: str, found: Mapping[str, Interval]) -> tuple[str, str]:
    """Rank and replica that a line is of; the innermost tag counts where a line has several."""
    core = _CORE.search(head)
    replica = f"DP{core[1]}" if core is not None and core[1] else ""
    workers = list(_WORKER.finditer(head))
    if workers:
        number, names, rank, pid, host = workers[-1].groups()
        place, own = places(names)
        at = f" {host}" if host else ""
        label = place or (f"rank {rank or number}" if rank or number else f"pid {pid}{at}")
        return ("0" if label == "pid None" else label), own or replica
    if found and found.keys() <= _OF_CORE:
        return CORE, replica
    # With a single rank the core is the worker, too.
    return ("0" if found else CORE), replica
