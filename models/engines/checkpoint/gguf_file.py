"""A GGUF file's header: its metadata and the bytes of its tensors, read by the `gguf` package."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import LONGEST, cut

MAGIC = b"GGUF"
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")


@dataclass(frozen=True)
class GgufFile:
    """Metadata by key, and the weights of all parts."""

    metadata: Mapping[str, Any]
    weights: Weights


def is_gguf(path: Path) -> bool:
    """Whether a file begins as GGUF files do."""
    try:
        with path.open("rb") as file:
            return file.read(4) == MAGIC
    except (OSError, ValueError):
        return False


def read_gguf(path: Path) -> GgufFile:
    """Read the header; tensor data stays on disk. A split file is read with its other parts.

    Raises
    ------
    InvalidProblem : no `gguf` package, a part that is missing, or a header that cannot be read.
    """
    metadata: dict[str, Any] = {}
    tensors: dict[str, int] = {}
    for part in _parts(path):
        reader = _reader(part)
        own = {name: _contents(field) for name, field in reader.fields.items()}
        metadata = {**own, **metadata}
        tensors |= {str(one.name): int(one.n_bytes) for one in reader.tensors}
    return GgufFile(metadata, Weights(tensors, sum(tensors.values()), str(path)))


def _parts(path: Path) -> list[Path]:
    match = _PART.search(path.name)
    if match is None:
        return [path]
    stem, count = path.name[: match.start()], int(match[2])
    parts = [
        path.with_name(f"{stem}-{index:05d}-of-{count:05d}.gguf") for index in range(1, count + 1)
    ]
    for part in parts:
        if not part.is_file():
            raise InvalidProblem.at(str(path), f"all {count} parts beside it", f"no {part.name}")
    return parts


def _reader(path: Path) -> Any:
    try:
        from gguf import GGUFReader
    except ImportError:
        expected = "the gguf package (pip install 'kvplan[gguf]')"
        raise InvalidProblem.at(str(path), expected, "none") from None
    try:
        return GGUFReader(path)
    except (ValueError, IndexError, KeyError, OSError, OverflowError, UnicodeDecodeError) as error:
        got = f"a header that breaks off or is damaged ({cut(str(error), LONGEST)})"
        raise InvalidProblem.at(str(path), "a complete GGUF file", got) from None


def _contents(field: Any) -> Any:
    """Value of a field; long lists of words (the vocabulary) only by their length."""
    if len(field.data) > 10_000:
        return len(field.data)
    return field.contents()
