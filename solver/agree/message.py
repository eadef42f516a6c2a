"""What a rank sends to the others: a view before the solve, an outcome after it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from kvplan.models.measured.local import LocalView, brief, canonical
from kvplan.models.ranks import Rank


class Told(NamedTuple):
    """A rank's view as it travels: the sections of its problem as fingerprints."""

    settings: dict[str, str]  # what must be alike, by name: versions, options
    sections: dict[str, str]  # sha256 of each section of the problem
    rank: Rank | None
    error: str

    def encode(self) -> bytes:
        """As JSON."""
        entry = self.rank and self.rank.model_dump(mode="json", exclude_unset=True)
        return canonical([self.settings, self.sections, entry, self.error]).encode()

    @classmethod
    def decode(cls, raw: bytes) -> Told:
        """Read what `encode` wrote; anything else becomes the error of that rank."""
        try:
            settings, sections, entry, error = json.loads(raw)
            rank = None if entry is None else Rank.model_validate(entry)
            return cls(dict(settings), dict(sections), rank, str(error))
        except Exception as failure:
            what = type(failure).__name__
            return cls({}, {}, None, f"it sent something other than a view of kvplan ({what})")


def tell(view: LocalView, options: dict[str, str]) -> Told:
    """The view of a rank as it travels."""
    settings = {"kvplan": _version("kvplan"), "OR-Tools": _version("ortools"), **options}
    error = brief(view.error)
    if not error and view.rank is None:
        error = "it sent neither an entry nor an error"
    sections = {} if error else {key: _fingerprint(view.question[key]) for key in view.question}
    return Told(settings, sections, None if error else view.rank, error)


@cache
def _version(package: str) -> str:
    """Without importing it: what decides is installed or not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _fingerprint(section: Any) -> str:
    """Of a section, whatever the order of its keys, but for that of shares, which counts."""
    shares = section.get("shares") if isinstance(section, Mapping) else None
    order = [*shares] if isinstance(shares, Mapping) else []
    return hashlib.sha256(canonical([section, order]).encode()).hexdigest()[:16]
