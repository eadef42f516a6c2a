"""An engine's own flags, from the command line to its settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kvplan.models.engines.command_line.flag_values import follows, json_or_text, read_value
from kvplan.models.engines.command_line.launch_line import (
    PROGRAMS,
    Arity,
    Dialect,
    canonical,
    is_flag,
    nearest,
    opposites,
    read_line,
)
from kvplan.models.engines.registry import Flag, Settings
from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import Misfit, cut, shown
from kvplan.models.units import bare_bytes

_LONGEST_NOTE = 400
_OFF = ("0", "false", "no", "n")
"""Words of environment variables that are switches."""
PLAIN = Dialect()


def read_settings(
    flags: tuple[Flag, ...],
    arguments: Sequence[str],
    common: Mapping[str, Any],
    dialect: Dialect = PLAIN,
) -> Settings:
    """Read flags, or a whole command line with its program and environment variables.

    `--flag value`, `--flag=value`, `--flag.key value` (JSON by keys), switches and their --no-
    forms, underscores for dashes.

    Parameters
    ----------
    common : settings that all engines share (total_bytes, weights_bytes, gpu).
    dialect : what else the engine's command line may carry.

    Raises
    ------
    InvalidProblem : one fault for each unknown flag and each value that does not fit.
    """
    line = read_line(arguments)
    named = {"program": line.program} if line.program else {}
    reader = _Reader(flags, {**common, **named}, dialect)
    reader.variables(line.variables)
    reader.image(line.image_version)
    reader.before(list(line.before))
    reader.started = bool(line.engine)
    reader.arguments(list(line.arguments), models=1 if line.engine else 0)
    if reader.faults:
        raise InvalidProblem(reader.faults)
    return Settings(flags, reader.given, notes=reader.notes())


class _Reader:
    """Reads one command line; faults are gathered."""

    def __init__(
        self, flags: tuple[Flag, ...], common: Mapping[str, Any], dialect: Dialect
    ) -> None:
        self.known = {canonical(name): flag for flag in flags for name in flag.names}
        self.dialect, self.given = dialect, dict(common)
        self.faults: list[Fault] = []
        self.ignored: dict[str, None] = {}
        self.measured: dict[str, None] = {}
        self.nested: dict[str, dict[str, Any]] = {}
        self.started = False

    def variables(self, variables: Mapping[str, str]) -> None:
        """Read the environment variables that stand for flags; the others are counted."""
        for name, text in variables.items():
            if name in self.dialect.refused:
                self.faults.append(Fault(name, self.dialect.refused[name], shown(text)))
            elif name in self.dialect.variables:
                flag = self.known[canonical(self.dialect.variables[name])]
                self._variable(flag, name, text)
            else:
                self.ignored[name] = None

    def image(self, version: str) -> None:
        """Take the engine's version from a container's tag; a flag of its own wins."""
        if version and self.dialect.image_version:
            self._take(self.known[self.dialect.image_version], self.dialect.image_version, version)

    def _variable(self, flag: Flag, name: str, text: str) -> None:
        word, on = text.strip().lower(), self.dialect.true_words
        if flag.kind != "switch":
            self._take(flag, name, text)
        elif word in (*on, *_OFF):
            self.given[flag.key] = word in on
        else:
            self.faults.append(Fault(name, "0 or 1", shown(text)))

    def before(self, rest: list[str]) -> None:
        """Read the modelled flags before a program; a launcher's own words are passed over."""
        while rest:
            written, equals, text = rest.pop(0).partition("=")
            flag = self.known.get(canonical(written)) if written.startswith("--") else None
            if flag is not None:
                self._flag(flag, written, text if equals else None, rest)

    def arguments(self, rest: list[str], models: int) -> None:
        """Read the arguments; so many words that are no flags name a model."""
        while rest:
            word = rest.pop(0)
            if not is_flag(word) and models:
                models -= 1
                continue
            if not self.started and not is_flag(word) and rest:
                known = ", ".join(dict.fromkeys(" ".join(program) for program in PROGRAMS))
                self.faults.append(Fault(word, f"a flag, or one of {known}", "an unknown command"))
                break
            written, equals, text = word.partition("=")
            self._argument(written, text if equals else None, rest)
        for name, data in self.nested.items():
            self._take(self.known[name], name, json.dumps(data))

    def _argument(self, written: str, text: str | None, rest: list[str]) -> None:
        name = canonical(written)
        name, equals, fixed = self._whole(name).partition("=")
        text = fixed if equals else text
        head, dot, keys = name.partition(".")
        if dot and self._section(self.dialect.aliases.get(head, head), keys, text, rest):
            return
        if name in self.known:
            self._flag(self.known[name], written, text, rest)
        elif (switch := self._negated(name)) is not None:
            self._switch(switch, written, text, value=False)
        elif (arity := self._arity(name)) is not None:
            skipped = [] if text is not None else follows(arity, rest)
            if name in self.dialect.refused:
                got = text if text is not None else " ".join(skipped)
                self.faults.append(Fault(written, self.dialect.refused[name], shown(got)))
            self._note(name)
        else:
            self.faults.append(Fault(written, nearest(self._names(), name), "an unknown argument"))
            if text is None and rest and not is_flag(rest[0]):
                rest.pop(0)

    def _whole(self, name: str) -> str:
        """Spell out an alias, or the beginning of one flag alone."""
        if name in self.dialect.aliases or not (self.dialect.abbreviates and name.startswith("--")):
            return self.dialect.aliases.get(name, name)
        begun = {one for one in self._names() if one.startswith(name)}
        if name in begun or len(begun) != 1:
            return name
        return self._whole(begun.pop())

    def _negated(self, name: str) -> Flag | None:
        for other in opposites(name, paired=self.dialect.paired):
            flag = self.known.get(other)
            if flag is not None and flag.kind == "switch":
                return flag
        return None

    def _arity(self, name: str) -> Arity | None:
        """What follows a flag that is not modelled; None where it is unknown."""
        if name in self.dialect.refused:
            return self.dialect.refused_arity.get(name, "value")
        others = {**self.dialect.harmless, **self.dialect.measured}
        if name in others:
            return others[name]
        for other in opposites(name, paired=self.dialect.paired):
            if others.get(other) == "switch":
                return "switch"
        return None

    def _names(self) -> Iterable[str]:
        dialect = self.dialect
        return (*self.known, *dialect.harmless, *dialect.measured, *dialect.refused)

    def _note(self, name: str) -> None:
        """Count a flag that is not modelled: as one that changes measurements, or as harmless."""
        spelled = (name, *opposites(name, paired=self.dialect.paired))
        measured = any(other in self.dialect.measured for other in spelled)
        (self.measured if measured else self.ignored)[name] = None

    def _section(self, head: str, keys: str, text: str | None, rest: list[str]) -> bool:
        """Read --flag.key value into the JSON of --flag; False where --flag takes no JSON."""
        flag = self.known.get(head)
        if flag is None and self._arity(head) is None:
            return False
        value = text if text is not None else (rest.pop(0) if rest else "")
        if flag is None:
            if head in self.dialect.refused:
                self.faults.append(Fault(head, self.dialect.refused[head], shown(value)))
            self._note(head)
            return True
        data = self.nested.setdefault(canonical(flag.name), {})
        *path, last = keys.removesuffix("+").split(".")
        for step in path:
            data = data.setdefault(step, {})
        data[last] = value.split(",") if keys.endswith("+") else json_or_text(value)
        return True

    def _flag(self, flag: Flag, written: str, text: str | None, rest: list[str]) -> None:
        if flag.kind == "switch":
            self._switch(flag, written, text, value=True)
            return
        if text is None and flag.bare is not None and (not rest or is_flag(rest[0])):
            text = flag.bare
        elif text is None and flag.many:
            text = ",".join(follows("values", rest))
        elif text is None and rest:
            text = rest.pop(0)
        self._take(flag, written, text)

    def _switch(self, flag: Flag, written: str, text: str | None, *, value: bool) -> None:
        if text is not None:
            self.faults.append(Fault(written, "no value (a switch)", shown(text)))
        self.given[flag.key] = value

    def _take(self, flag: Flag, written: str, text: str | None) -> None:
        try:
            read = read_value(flag, text)
        except Misfit as error:
            self.faults.append(Fault(written, error.expected, error.got))
            return
        if flag.kind == "bytes" and (got := bare_bytes(str(text), read)):
            self.faults.append(Fault(written, f"bytes with a unit, such as {text}GiB", got))
            return
        key = flag.key
        self.given[key] = (*self.given.get(key, ()), read) if flag.repeated else read

    def notes(self) -> tuple[str, ...]:
        """One line on what leaves the sizes alone, on what changes measurements."""
        one = {"ignored": "leaves the sizes alone", "measured": "changes what is measured"}
        many = {"ignored": "leave the sizes alone", "measured": "change what is measured"}
        lines = []
        for kind in one:
            names = getattr(self, kind)
            flags = f"1 flag {one[kind]}" if len(names) == 1 else f"{len(names)} flags {many[kind]}"
            if names:
                lines.append(cut(f"{flags}: {', '.join(names)}", _LONGEST_NOTE))
        return tuple(lines)
