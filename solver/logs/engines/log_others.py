"""ollama's scheduler and LMDeploy: what they say of memory beside the libraries below them."""

from __future__ import annotations

import re

from kvplan.solver.logs.failures import NEEDLES as FAILURES
from kvplan.solver.logs.failures import failure_of
from kvplan.solver.logs.reading.assemble import assemble
from kvplan.solver.logs.reading.events import Event, EventReader
from kvplan.solver.logs.reading.interval import Interval, printed
from kvplan.solver.logs.reading.prefix import source_of, unescaped
from kvplan.solver.logs.reading.record import CORE, RankLog

_SIZE = r"(-?\d+(?:\.\d+)?) ([KMG]?i?B)"
_PART = re.compile(
    rf'msg="(model weights|kv cache|compute graph)" device="?([\w:.-]+)"? size="{_SIZE}"'
)
_WHOLE = re.compile(rf'msg="total memory" size="{_SIZE}"')
_TERM = re.compile(
    r"memory\.(available|gpu_overhead|required\.full|required\.partial|required\.kv|"
    rf'weights\.total|graph\.full|graph\.partial)="\[?{_SIZE}\]?"'
)
_LAYERS = re.compile(r"layers\.(model|offload)=(\d+)")

_BLOCK = re.compile(r"block_size = (-?\d+(?:\.\d+)?) ([KMG]?B)")
_BLOCKS = re.compile(r"(?:max_block_count|num_gpu_blocks)\s*[=:] ?(\d+)")
_CHUNK = re.compile(r"\bchunk_size = (\d+)")
_TOKENS = re.compile(r"\bblock_size=(\d+)")
_SESSION = re.compile(r"`session_len` \((\d+)\), `session_len` truncated to (\d+)")
_BACKEND = re.compile(r"input backend=|model_config:")
_RANK = re.compile(r"\[TM\]\[\w+\](?:\[(\d+)\]| \[rank ?(\d+)\])")


class OllamaReader(EventReader):
    """Reads the memory estimate of older versions, and the sizes by device of newer ones."""

    engine = "ollama"
    needles = (
        *(b"model weights", b"kv cache", b"compute graph", b"total memory"),
        b"memory.required.",
        *FAILURES[engine],
    )

    def __init__(self) -> None:
        super().__init__()
        self._is_whole = False

    def read(self, number: int, text: str) -> None:
        """Take in the sizes of a line."""
        text = unescaped(text.replace('\\"', '"'))
        failure = failure_of(self.engine, number, text)
        if failure is not None:
            self.fail(failure, text)
        found: dict[str, Interval] = {}
        part, whole = _PART.search(text), _WHOLE.search(text)
        if part is not None:
            found[f"{part[1]} on {part[2]}"] = printed(part[3], part[4])
        if whole is not None:
            found["whole"] = printed(whole[1], whole[2])
        for name, value, unit in _TERM.findall(text):
            found[name] = printed(value, unit)
        for name, value in _LAYERS.findall(text):
            found[f"layers {name}"] = printed(value)
        if found:
            # The sizes of a placement end with their total; the next model's follow.
            opens = "engine" if self._is_whole or "required.full" in found else ""
            self._is_whole = "whole" in found
            self._keep(Event(number, source_of(text), "", "model", found=found, opens=opens))

    def ranks(self) -> list[RankLog]:
        """One record for each placement of a model."""
        return assemble(self._events)


class LmdeployReader(EventReader):
    """Reads TurboMind's block manager and the PyTorch engine's cache configuration."""

    engine = "LMDeploy"
    needles = (
        b"[BlockManager]",
        b"CacheConfig(",
        b"No enough blocks",
        b"input backend=",
        *FAILURES[engine],
    )

    def __init__(self) -> None:
        super().__init__()
        self._sets: dict[str, set[str]] = {}

    def read(self, number: int, text: str) -> None:
        """Take in the block size and the count of blocks."""
        text = unescaped(text)
        failure = failure_of(self.engine, number, text)
        if failure is not None:
            self.fail(failure, text)
        if _BACKEND.search(text):
            self._sets = {}
            self._keep(Event(number, source_of(text), "", CORE, opens="engine"))
        found = _blocks(text)
        if found:
            rank = _RANK.search(text)
            named = (rank[1] or rank[2]) if rank else ""
            label = named or self._nameless(found)
            self._keep(Event(number, source_of(text), "", label, found=found))

    def _nameless(self, found: dict[str, Interval]) -> str:
        """The first rank that has not said this yet: ranks do not tell their names."""
        for label, names in self._sets.items():
            if not names & found.keys():
                names |= found.keys()
                return label
        label = str(len(self._sets))
        self._sets[label] = set(found)
        return label

    def ranks(self) -> list[RankLog]:
        """Every rank."""
        return assemble(self._events)


def _blocks(text: str) -> dict[str, Interval]:
    found: dict[str, Interval] = {}
    size, blocks, chunk, tokens = (p.search(text) for p in (_BLOCK, _BLOCKS, _CHUNK, _TOKENS))
    if size is not None:
        found["block"] = printed(size[1], size[2])
    if blocks is not None:
        found["blocks"] = printed(blocks[1])
    if chunk is not None:
        found["chunk"] = printed(chunk[1])
    if tokens is not None and blocks is not None:
        found["block_tokens"] = printed(tokens[1])
    session = _SESSION.search(text)
    if session is not None:
        found["longest"], found["session"] = map(printed, session.groups())
    return found
