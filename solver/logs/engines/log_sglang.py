"""SGLang: each line names its rank, as in [2026-09-12 00:22:48 DP0 TP1]. Its GB are 2^30 bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from kvplan.solver.logs.failures import NEEDLES as FAILURES
from kvplan.solver.logs.failures import failure_of
from kvplan.solver.logs.reading.assemble import assemble
from kvplan.solver.logs.reading.events import Event, EventReader
from kvplan.solver.logs.reading.interval import FIGURE as _N
from kvplan.solver.logs.reading.interval import Interval, printed
from kvplan.solver.logs.reading.prefix import places, source_of, unescaped
from kvplan.solver.logs.reading.record import CORE, RankLog

_TAG = re.compile(r"\[(?:[^\[\]]*?\s)?((?:(?:[A-Z]+_)?(?:DP|PP|TP|EP|CP|DCP|SP)\d+\s?)+)\]")
_POOL = re.compile(r"(?<!Virtual)KV Cache is allocated\..{0,60}?#tokens: (\d{1,18})")
_SIZE = re.compile(rf"\b(K|V|KV|Cache) size: {_N} GB")
_FIGURES = (
    (re.compile(rf"SWAKVPool mem usage: {_N} GB"), "pools together", "GB"),
    (re.compile(r"max_total_num_tokens=(-?\d{1,18})"), "tokens", ""),
    (re.compile(r"chunked_prefill_size=(-?\d{1,18})"), "chunk", ""),
    (re.compile(r"max_prefill_tokens=(\d{1,18})"), "prefill", ""),
    (re.compile(r"max_running_requests=(-?\d{1,18})"), "requests", ""),
    (re.compile(r"context_len=(\d{1,18})"), "longest", ""),
    (re.compile(rf"available_gpu_mem={_N} GB"), "left", "GB"),
    (re.compile(rf"Memory pool end\. avail mem={_N} GB"), "free", "GB"),
    (re.compile(rf"Load weight begin\. avail mem={_N} GB"), "free before", "GB"),
    (re.compile(rf"Load weight end\..*?avail mem={_N} GB"), "free after", "GB"),
    (re.compile(rf"Load weight end\..*?mem usage={_N} GB"), "loaded", "GB"),
    (re.compile(rf"Capture (?:\w+ )*graph end\..*?mem usage={_N} GB"), "captured", "GB"),
    (re.compile(r"max_mamba_cache_size: (\d{1,18})"), "slots", ""),
    (re.compile(rf"conv_state size: {_N} ?GB"), "conv", "GB"),
    (re.compile(rf"ssm_state size: {_N} ?GB"), "ssm", "GB"),
)
_DRAFTS = ("free before", "free after", "loaded", "captured", "free")
"""Printed again for a draft model."""
_START = "Init torch distributed begin"
_SERVER = "server_args=ServerArgs("
_WORDS = (
    ("model", re.compile(r"model_path='([^']{1,300})'")),
    ("tp-size", re.compile(r"\btp_size=(\d{1,6})\b")),
    ("pp-size", re.compile(r"\bpp_size=(\d{1,6})\b")),
    ("page-size", re.compile(r"\bpage_size=(\d{1,6})\b")),
    ("kv-cache-dtype", re.compile(r"\bkv_cache_dtype='([\w]{1,30})'")),
    ("mem-fraction-static", re.compile(r"\bmem_fraction_static=([\d.]{1,12})\b")),
)


class SglangReader(EventReader):
    """Reads the pools of each rank; target and draft, full and window are pools apart."""

    engine = "SGLang"
    needles = (
        b"KV Cache is allocated",
        b"Mamba Cache is allocated",
        b"SWAKVPool mem usage",
        b"max_total_num_tokens=",
        b"Memory pool end",
        b"Load weight ",
        b"graph end",
        _START.encode(),
        _SERVER.encode(),
        *FAILURES[engine],
    )

    def read(self, number: int, text: str) -> None:
        """Take in the figures of a line, under the rank that its tag names."""
        text = unescaped(text)
        failure = failure_of(self.engine, number, text)
        opens = "engine" if _SERVER in text else "worker" if _START in text else ""
        pool = _POOL.search(text)
        found = dict(_figures(text, pool is not None))
        if not (found or pool or failure or opens):
            return
        tags = _TAG.findall(text)
        label, replica = places(tags[-1]) if tags else ("", "")
        words = {n: m[1] for n, p in _WORDS if opens and (m := p.search(text))}
        event = Event(
            number,
            source_of(text),
            replica,
            label or (CORE if opens == "engine" or (failure and not found) else "0"),
            found=found,
            opens=opens,
            pool_tokens=int(pool[1]) if pool else None,
            words=words,
            failure=failure,
        )
        self._keep(event)

    def ranks(self) -> list[RankLog]:
        """Every start of every rank that allocated a pool, or failed."""
        return assemble(self._joined(), last=("tokens",), latest=_DRAFTS)

    def _joined(self) -> list[Event]:
        """Events with the replicas of one server as one: under DP attention no rank is in two."""
        speakers = {(e.label, e.replica) for e in self._events if e.replica and e.label != "0"}
        labels = [label for label, _ in speakers]
        replicas = {replica for _, replica in speakers}
        if len(replicas) < 2 or len(labels) != len(set(labels)):
            return self._events
        return [replace(event, replica="") for event in self._events]


def _figures(text: str, is_pool: bool) -> Iterator[tuple[str, Interval]]:
    if is_pool:
        sizes = {name: printed(size, "GB") for name, size in _SIZE.findall(text)}
        for name, size in sizes.items():
            yield f"{'KV' if name == 'Cache' else name} of pool", size
        yield "pool of pool", sum(sizes.values(), Interval.exactly(0))
        return
    for pattern, name, unit in _FIGURES:
        match = pattern.search(text)
        if match is not None:
            yield name, printed(match[1], unit)
