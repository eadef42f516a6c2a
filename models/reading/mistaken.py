"""What else a file can be: named, where a problem, JSON or YAML was expected."""

from __future__ import annotations

import errno
from collections.abc import Collection
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from kvplan.models.messages import shown

_MOST_FILES = 1000  # of a folder, compared for similarity
_MAGIC = {
    b"GGUF": "a GGUF file; kvplan model reads it",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"PK\x03\x04": "a zip archive (or a torch checkpoint); unpack it first",
    b"\x80\x02": "a pickle; kvplan reads no code",
}
_PLAN = {"blocks", "proof", "ranks"}
_CONFIG = {"model_type", "architectures", "hidden_size", "num_hidden_layers"}


def binary_kind(raw: bytes | bytearray) -> str | None:
    """Name a binary file by how it begins."""
    if raw[8:10] == b'{"' and not any(raw[5:8]):
        return "a safetensors file; kvplan model reads the folder that it lies in"
    return next((kind for magic, kind in _MAGIC.items() if raw.startswith(magic)), None)


def other_document(keys: Collection[object]) -> str | None:
    """Name a document that is not a problem, by its keys."""
    if {*keys} >= _PLAN:
        return "a plan, as solve --json prints it (kvplan verify takes FILE, then PLAN)"
    if "ranks" not in keys and _CONFIG & {*keys}:
        return "a model's config; kvplan model turns it into a problem"
    return None


def unreadable(source: str | Path, error: OSError) -> str:
    """Say why a file cannot be read, and which file of its folder has a similar name."""
    if error.errno != errno.ENOENT:
        text = error.strerror or "an error"
        return text[:1].lower() + text[1:]
    path = Path(source)
    if not path.parent.is_dir():
        return f"no folder {shown(str(path.parent))}"
    names: list[str] = []
    with suppress(OSError):
        names = [each.name for each in islice(path.parent.iterdir(), _MOST_FILES)]
    near = get_close_matches(path.name, names, n=1)
    return "no such file" + (f"; {shown(near[0])} is there" if near else "")
