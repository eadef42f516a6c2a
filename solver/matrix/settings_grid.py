"""Every combination of models and settings, and what a value of a setting changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from kvplan.models import InvalidProblem
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.registry import engine_named
from kvplan.models.messages import Misfit, one_of, shown
from kvplan.models.units import parse_bytes

MOST_ROWS = 100_000
OWN = ("engine", "gpu", "variant")
"""Settings that are no flag of an engine and no field of a problem."""


@dataclass(frozen=True)
class Combination:
    """One model with one value of every setting.

    Attributes
    ----------
    values : by setting, as they were typed.
    arguments : the flags that every combination has.
    """

    model: str
    values: Mapping[str, str]
    engine: str
    arguments: tuple[str, ...]
    weights: Weights | None

    @property
    def adapter(self) -> Any:
        """The engine's adapter."""
        return engine_named(self.values.get("engine", self.engine))

    @property
    def fields(self) -> dict[str, str]:
        """Values of fields of the problem, by path."""
        return {name: value for name, value in self.values.items() if _is_path(name)}

    def command_line(self) -> list[str]:
        """The engine's flags, those that vary last."""
        switches = {
            name.replace("_", "-"): flag.kind == "switch"
            for flag in self.adapter.FLAGS
            for name in flag.names
        }
        line = list(self.arguments)
        for name, value in self.values.items():
            if name in OWN or _is_path(name):
                continue
            flag = next(each for each in (f"--{name}", f"-{name}") if each in switches)
            if not switches[flag]:
                line += [flag, value]
            elif _is_on(name, value):
                line.append(flag)
        return line


@dataclass(frozen=True)
class Combinations:
    """The grid of models and settings, the last setting varying fastest."""

    models: tuple[str, ...]
    settings: Mapping[str, tuple[str, ...]]
    engine: str
    arguments: tuple[str, ...]
    weights: Mapping[str, Weights]

    def __len__(self) -> int:
        return len(self.models) * prod(map(len, self.settings.values()))

    def __iter__(self) -> Iterator[Combination]:
        for model, *values in product(self.models, *self.settings.values()):
            named = dict(zip(self.settings, values, strict=True))
            weights = self.weights.get(model)
            yield Combination(model, named, self.engine, self.arguments, weights)


def read_combinations(
    models: Sequence[str | Path],
    vary: Mapping[str, str | Sequence[object]],
    engine: str,
    arguments: Sequence[str],
    weights_gib: object,
) -> Combinations:
    """Read what varies.

    Raises
    ------
    InvalidProblem : see `matrix`.
    """
    names = [str(model) for model in ([models] if isinstance(models, str | Path) else models)]
    if not names:
        raise InvalidProblem.at("MODEL", "a model's config.json, folder or GGUF file", "none")
    settings = {_name(name): _values(name, values) for name, values in vary.items()}
    for name in settings.get("engine", (engine,)):
        engine_named(name)
    found = Combinations(
        tuple(names), settings, engine, tuple(arguments), _weights(names, weights_gib)
    )
    if len(found) > MOST_ROWS:
        raise InvalidProblem.at("--vary", f"at most {MOST_ROWS:_} rows", f"{len(found):_}")
    _check_flags(found)
    return found


def _name(text: str) -> str:
    """A flag without its dashes, underscores as dashes; a path stays as it is."""
    name = text.strip()
    return name if _is_path(name) else name.lstrip("-").replace("_", "-")


def _values(name: str, values: str | Sequence[object]) -> tuple[str, ...]:
    parts = values.split(",") if isinstance(values, str) else [str(value) for value in values]
    texts = tuple(part.strip() for part in parts)
    if not texts or not all(texts):
        raise InvalidProblem.at(f"--vary {name}", "values, as A,B,C", shown(values))
    if len(set(texts)) < len(texts):
        raise InvalidProblem.at(f"--vary {name}", "each value once", "one twice")
    return texts


def _is_path(name: str) -> bool:
    return "." in name or "[" in name


def _is_on(name: str, value: str) -> bool:
    if value.lower() not in ("on", "off"):
        raise InvalidProblem.at(f"--vary {name}", "on or off, since it is a switch", shown(value))
    return value.lower() == "on"


def _check_flags(combinations: Combinations) -> None:
    """Reject a flag that no engine of the table has."""
    engines = combinations.settings.get("engine", (combinations.engine,))
    flags = {
        name.lstrip("-").replace("_", "-"): name
        for engine in engines
        for flag in engine_named(engine).FLAGS
        for name in flag.names
    }
    for name in combinations.settings:
        if name not in OWN and not _is_path(name) and name not in flags:
            known = (*OWN, *flags)
            expected = f"a flag of {' or '.join(engines)}, or {one_of(known, name)}"
            raise InvalidProblem.at("--vary", expected, shown(name))


def _weights(models: Sequence[str], given: object) -> dict[str, Weights]:
    """Weights of whole models, in bytes, from GiB for all or by the name of a file."""
    if given is None:
        return {}
    by_name = given if isinstance(given, Mapping) else dict.fromkeys(models, given)
    found = {}
    for name, gib in by_name.items():
        if name not in models:
            raise InvalidProblem.at("--weights-gib", one_of(models, str(name)), shown(name))
        try:
            size = parse_bytes(f"{gib}GiB", round_up=True)
        except Misfit:
            raise InvalidProblem.at("--weights-gib", "a number of GiB", shown(gib)) from None
        found[str(name)] = Weights({}, size, "--weights-gib")
    return found
