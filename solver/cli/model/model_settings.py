"""What `kvplan model` was told: the engine, its flags and readings, and what is laid over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvplan.models import InvalidProblem
from kvplan.models.engines.cards import total_bytes
from kvplan.models.engines.launch import Dialect, read_line
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.settings import read_settings
from kvplan.models.messages import Misfit, shown
from kvplan.models.reading.loader import parse_text
from kvplan.models.units import bare_bytes_doubt, parse_bytes
from kvplan.solver.cli.model.readings import End, arguments_at, gib_at, reading_at

ENDS: tuple[End, End] = ("low", "high")


@dataclass(frozen=True)
class Budget:
    """The card as it was typed.

    Attributes
    ----------
    gpu : --gpu, a name of the table.
    total : --total, bytes.
    weights_gib : --weights-gib, a number.
    """

    gpu: str | None
    total: str | None
    weights_gib: str | None

    def at(self, end: End) -> Budget:
        """The card with printed readings at an end of what they can stand for."""
        total = reading_at("--total", self.total, end) or self.total
        return Budget(self.gpu, total, gib_at(self.weights_gib, end))

    @property
    def terms(self) -> dict[str, Any]:
        """Settings that all engines share; bytes are None where nothing says them.

        Raises
        ------
        InvalidProblem : an unknown card, or text that is no byte figure.
        """
        table = total_bytes(self.gpu) if self.gpu is not None else None
        known = _bytes_of("--total", self.total) if self.total is not None else table
        weights, text = None, self.weights_gib
        if text is not None:
            weights = _bytes_of("--weights-gib", f"{text}GiB", text)
        return {
            "gpu": self.gpu,
            "total_bytes": known,
            "total_is_estimated": self.total is None and table is not None,
            "weights_bytes": weights,
        }


def _bytes_of(flag: str, text: str, written: str | None = None) -> int:
    """Read bytes; `written` is what was typed, where that is a number of GiB."""
    try:
        return parse_bytes(int(text) if text.isdecimal() else text, round_up=False)
    except Misfit as error:
        if written is not None:
            raise InvalidProblem.at(flag, "a number of GiB", shown(written)) from None
        raise InvalidProblem.at(flag, error.expected, error.got) from None


def typed_settings(adapter: Any, arguments: Sequence[str], budget: Budget) -> Settings:
    """Read an engine's own flags, or its whole command line, by its dialect."""
    terms = budget.terms
    dialect = getattr(adapter, "DIALECT", Dialect())
    settings = read_settings(adapter.FLAGS, arguments, terms, dialect)
    if budget.total is not None and (doubt := bare_bytes_doubt(budget.total, terms["total_bytes"])):
        settings.notes = (f"--total: {doubt}", *settings.notes)
    return settings


def settings_at_ends(
    adapter: Any, arguments: Sequence[str], budget: Budget
) -> tuple[Settings, Settings]:
    """Settings with every printed reading at the low and at the high end of what it stands for."""
    low, high = (
        typed_settings(adapter, arguments_at(arguments, end), budget.at(end)) for end in ENDS
    )
    return low, high


def engine_of(named: str | None, arguments: Sequence[str], logged: str | None = None) -> str:
    """The engine of a log, else that named by --engine, else of the pasted line, else vllm.

    Raises
    ------
    InvalidProblem : two of them differ.
    """
    started = read_line(arguments).engine
    if logged and named and named != logged:
        raise InvalidProblem.at("--engine", f"{logged}, whose log --from-log reads", named)
    known = logged or named
    if known and started and known != started:
        flag = "--from-log" if logged else "--engine"
        raise InvalidProblem.at(flag, f"{started}, whose command line follows", known)
    return known or started or "vllm"


def config_overrides(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the command line lays over the config (--hf-overrides).

    Raises
    ------
    InvalidProblem : no JSON mapping.
    """
    text = settings.get("hf_overrides")
    if text is None:
        return {}
    data = parse_text(text, name="--hf-overrides")
    if not isinstance(data, dict):
        raise InvalidProblem.at("--hf-overrides", "JSON, a mapping", shown(text))
    return data
