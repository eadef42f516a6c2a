"""What an engine derives where a launch line says nothing, as a list to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Assumed:
    """One value that was derived.

    Attributes
    ----------
    flag : that sets it, as the engine spells it.
    before, after : what the line said ("not given"), and what the engine makes of it.
    why : what it follows from, or what it means; may be empty.
    source : the engine and version that does so.
    """

    flag: str
    before: str
    after: str
    why: str
    source: str

    def __str__(self) -> str:
        why = f", {self.why}" if self.why else ""
        return f"{self.flag}: {self.before} -> {self.after}{why} ({self.source})"


class Derivation:
    """Values of an engine's flags while its rules lay theirs over them, in the engine's order.

    Attributes
    ----------
    values : by key, as far as they are known.
    assumed : what the rules have changed so far.
    """

    def __init__(self, values: Mapping[str, Any], source: str) -> None:
        self.values: dict[str, Any] = dict(values)
        self.assumed: list[Assumed] = []
        self._source = source

    def __getitem__(self, key: str) -> Any:
        return self.values[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Value of a key that may be missing."""
        return self.values.get(key, default)

    def set(self, flag: str, value: Any, why: str, *, quiet: bool = False) -> None:
        """Lay a value over a flag; quiet where it is no news."""
        key = flag.lstrip("-").replace("-", "_")
        before = self.values.get(key)
        if before == value:
            return
        self.values[key] = value
        if not quiet:
            changed = Assumed(flag, _text(before), _text(value), why, self._source)
            self.assumed.append(changed)

    def default(self, flag: str, value: Any, why: str, *, quiet: bool = False) -> None:
        """Lay a value over a flag that was not given."""
        if self.values.get(flag.lstrip("-").replace("-", "_")) is None:
            self.set(flag, value, why, quiet=quiet)


def _text(value: Any) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
