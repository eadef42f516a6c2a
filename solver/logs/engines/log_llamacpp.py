"""llama.cpp and ollama: caches, their buffers, and what each device holds.

Sizes are MiB with two decimals, the breakdown MiB cut to whole ones. A server is one start; its
caches (full, window, recurrent) stand beside its devices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kvplan.solver.logs.engines.vllm_launch import FITTED
from kvplan.solver.logs.failures import NEEDLES as FAILURES
from kvplan.solver.logs.failures import failure_of
from kvplan.solver.logs.reading.assemble import assemble
from kvplan.solver.logs.reading.events import Event, EventReader
from kvplan.solver.logs.reading.interval import FIGURE as _N
from kvplan.solver.logs.reading.interval import MIB, Interval, printed
from kvplan.solver.logs.reading.prefix import source_of, unescaped
from kvplan.solver.logs.reading.record import RankLog

_CACHE = re.compile(
    rf"size =\s*{_N} MiB \(\s*(\d+) cells,\s*(\d+) layers,\s*(\d+)(?:/(\d+))? seqs\)"
    rf"(?:,\s*[KR] \((\w+)\):\s*{_N} MiB,\s*[VS] \((\w+)\):\s*{_N} MiB)?"
)
_SELF = re.compile(
    rf"KV self size\s*=\s*{_N} MiB, K \((\w+)\):\s*{_N} MiB, V \((\w+)\):\s*{_N} MiB"
)
_LATENT = re.compile(rf"KV self size\s*=\s*{_N} MiB, c\^KV \((\w+)\):\s*{_N} MiB")
_BUFFER = re.compile(rf"(\S+) (KV|RS|model|compute|output) buffer size\s*=\s*{_N} MiB")
_DEVICE = re.compile(
    r"\|\s*- (.+?)\s*\|\s*(-?\d+) =\s*(-?\d+) \+ \(\s*(-?\d+) =\s*(-?\d+) \+\s*(-?\d+) "
    r"\+\s*(-?\d+)\s*\)\s*\+\s*(-?\d+)\s*\|"
)
_HOST = re.compile(r"\|\s*- (.+?)\s*\|\s*(-?\d+) =\s*(-?\d+) \+\s*(-?\d+) \+\s*(-?\d+)\s*\|")
_CONTEXT = re.compile(r"\b(n_ctx|n_ctx_per_seq|n_ctx_seq|n_batch|n_ubatch|n_seq_max)\s*=\s*(\d+)")
_BUILD = re.compile(r"\bbuild(?::| =) \d+ \(")
_SHAPE = re.compile(
    r"(?:print_info|print_meta): (n_layer|n_embd_k_gqa|n_embd_v_gqa) += +(\[|\d{1,9})"
)
_REDUCED = re.compile(r"context size reduced from (\d{1,12} to \d{1,12})")
_COMMA = re.compile(r"(?<=\d),(?=\d\d MiB)")
"""Of a locale that writes 256,00 MiB."""
SEEN, SEVERAL_ROWS, WINDOWED = "seen", "rows of several widths", "a cache of windows"
WRAPPED = 2**44
"""MiB of a negative size_t: what is unaccounted for may be below 0 where nothing is allocated."""
_DEVICE_FIGURES = (
    "device total",
    "device free",
    "device self",
    "device model",
    "device context",
    "device compute",
    "unaccounted",
)
_LATEST = (
    *("n_ctx", "n_ctx_per_seq", "n_ctx_seq", "n_batch", "n_ubatch", "n_seq_max"),
    *_DEVICE_FIGURES,
)
"""Printed for a trial context, then for the one that serves."""
BLOCK_BYTES = {
    "f32": 4,
    "f16": 2,
    "bf16": 2,
    "q8_0": 34,
    "q4_0": 18,
    "q4_1": 20,
    "q5_0": 22,
    "q5_1": 24,
    "iq4_nl": 18,
}
"""Bytes of the smallest run of values of a cache type."""


class LlamacppReader(EventReader):
    """Reads the lines that llama.cpp prints of its memory, whoever runs it."""

    engine = "llama.cpp"
    needles = (
        b" MiB (",
        b"KV self size",
        b" buffer size",
        b"breakdown_print:",
        b"n_ctx",
        b"n_batch",
        b"n_ubatch",
        b"build: ",
        b"build = ",
        b"n_layer ",
        b"n_embd_k_gqa",
        b"n_embd_v_gqa",
        b"llama_kv_cache_d",
        b"_iswa: creating",
        b"context size reduced",
        *FAILURES[engine],
    )

    def __init__(self) -> None:
        super().__init__()
        self._caches: dict[str, int] = {}

    def read(self, number: int, text: str) -> None:
        """Take in a cache, a buffer, a device or a setting."""
        text = with_points(unescaped(text))
        source = source_of(text)
        failure = failure_of(self.engine, number, text)
        if failure is not None:
            self.fail(failure, text)
        if _BUILD.search(text):
            self._caches[source] = 0
            self._keep(Event(number, source, "", "context", opens="engine"))
        for label, found, words in self._found(text, source):
            self._keep(Event(number, source, "", label, found=found, words=words))
        trait, reduced = _trait_of(text), _REDUCED.search(text)
        words = {FITTED: reduced[1]} if reduced is not None else {}
        if trait or words:
            self._keep(Event(number, source, "", "context", trait=trait, words=words))

    def _found(
        self, text: str, source: str
    ) -> Iterator[tuple[str, dict[str, Interval], dict[str, str]]]:
        caches = self._caches.get(source, 0)
        cache = _cache(text)
        if cache is not None:
            self._caches[source] = caches + 1
            yield f"cache {caches + 1}", *cache
            return
        device = _device(text)
        if device is not None:
            yield *device, {}
            return
        buffer = _BUFFER.search(text)
        if buffer is not None:
            size = printed(buffer[3], "MiB")
            if buffer[2] in ("KV", "RS"):
                # The buffers of a cache stand before its size.
                yield f"cache {caches + 1}", {f"buffer {buffer[1]}": size}, {}
            else:
                yield "context", {f"{buffer[2]} buffer {buffer[1]}": size}, {}
        elif "llama" in text or "print_info" in text:
            settings = dict(_settings(text))
            if settings:
                yield "context", settings, {}

    def ranks(self) -> list[RankLog]:
        """The context, every cache and every device."""
        return assemble(self._events, measures=("size",), latest=_LATEST)


def with_points(text: str) -> str:
    """A line with decimal points, whatever the server's locale."""
    return _COMMA.sub(".", text)


def _settings(text: str) -> Iterator[tuple[str, Interval]]:
    """Settings of a context; one that draft and target have of their own, by its value, too."""
    for name, value in _CONTEXT.findall(text):
        yield name, printed(value)
        if name == "n_ctx":
            yield f"{SEEN} {name} {value}", printed(value)
    shape = _SHAPE.search(text)
    if shape is not None and shape[2].isdecimal():
        yield f"{SEEN} {shape[1]} {shape[2]}", printed(shape[2])


def _trait_of(text: str) -> str:
    """Whether rows of layers differ: a list of widths, or caches of several kinds of rows."""
    shape = _SHAPE.search(text)
    if shape is not None and not shape[2].isdecimal():
        return SEVERAL_ROWS
    if "_iswa: creating" in text:
        return WINDOWED
    return SEVERAL_ROWS if "llama_kv_cache_d" in text else ""


def _cache(text: str) -> tuple[dict[str, Interval], dict[str, str]] | None:
    """Size, cells, layers and parts of a cache."""
    match = _CACHE.search(text)
    if match is not None:
        size, cells, layers, live, streams, key_type, keys, value_type, values = match.groups()
        found = {"size": printed(size, "MiB"), "cells": printed(cells), "layers": printed(layers)}
        found["streams"] = printed(streams or live)
        words = {}
        if keys is not None:
            found |= {"K": printed(keys, "MiB"), "V": printed(values, "MiB")}
            words = {"K": key_type, "V": value_type}
        if streams is None:  # older: all sequences share the cells
            found["streams"] = Interval.exactly(1)
        if "R (" in text:
            words["kind"] = "states"
            found["streams"] = Interval.exactly(1)
        return found, words
    match = _LATENT.search(text)  # ik_llama.cpp
    if match is not None:
        found = {"size": printed(match[1], "MiB"), "K": printed(match[3], "MiB")}
        return found | {"V": Interval.exactly(0)}, {"K": match[2]}
    match = _SELF.search(text)
    if match is None:
        return None
    size, key_type, keys, value_type, values = match.groups()
    found = {"size": printed(size, "MiB"), "K": printed(keys, "MiB"), "V": printed(values, "MiB")}
    return found, {"K": key_type, "V": value_type}


def _whole_mib(text: str) -> Interval:
    """A count of MiB that was cut to a whole one."""
    count = int(text)
    if count >= WRAPPED // 2:
        count -= WRAPPED
    return Interval(Fraction(count * MIB), Fraction((count + 1) * MIB))


def _device(text: str) -> tuple[str, dict[str, Interval]] | None:
    match = _DEVICE.search(text)
    names: tuple[str, ...] = _DEVICE_FIGURES
    if match is None:
        match, names = _HOST.search(text), names[2:6]
    if match is None or "breakdown" not in text:
        return None
    label, *values = match.groups()
    return label, dict(zip(names, map(_whole_mib, values), strict=True))
