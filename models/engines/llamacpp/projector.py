"""A projector beside the model (--mmproj): its file lies on the first card, unless it may not.

(tools/mtmd/clip.cpp takes the first GPU; --no-mmproj-offload keeps it on the host.) Its own compute
buffer is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

PROJECTOR = "projector"


def projector_bytes(settings: Mapping[str, Any]) -> int:
    """Bytes of the projector's file on the card; 0 without one, or where it is not at hand."""
    path = settings["mmproj"]
    if path is None or not settings["mmproj_offload"]:
        return 0
    file = Path(str(path))
    return file.stat().st_size if file.is_file() else 0


def projector_lines(settings: Mapping[str, Any]) -> Iterator[str]:
    """Say what is not charged: a file that is not here, and what it computes with."""
    if settings["mmproj"] is None or not settings["mmproj_offload"]:
        return
    if projector_bytes(settings):
        yield "--mmproj: the file's bytes; its compute buffer is not counted"
    else:
        yield "--mmproj: not counted (no such file here)"
