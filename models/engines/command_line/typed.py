"""A model under an engine as it was typed: flags, card, weights, what lies over the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from kvplan.models.engines.cards import machine_of, total_bytes
from kvplan.models.engines.command_line.launch_line import Dialect
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.config.config_overrides import Overrides
from kvplan.models.engines.estimates import Estimate
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.unified import BEYOND
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import Misfit, shown
from kvplan.models.reading.loader import parse_text
from kvplan.models.units import bare_bytes, parse_bytes

CONFIG_FLAGS: dict[str, Literal["top", "below"]] = {
    "hf_overrides": "below",
    "json_model_override_args": "top",
    "rope_scaling": "below",
}
"""Flags that lay fields over a config, and where each merges rotary parameters."""
_BEFORE_LINE = ("--gpu", "--total", "--weights-gib")


@dataclass(frozen=True)
class Budget:
    """The card and the weights on it, as they were typed.

    Attributes
    ----------
    gpu : --gpu, a name of the table.
    total : --total, bytes.
    weights_gib : --weights-gib, a number.
    """

    gpu: str | None
    total: str | None
    weights_gib: str | None

    @property
    def terms(self) -> dict[str, Any]:
        """Settings that all engines share; bytes are None where nothing says them.

        Raises
        ------
        InvalidProblem : an unknown card, or text that is no byte figure.
        """
        table = total_bytes(self.gpu) if self.gpu is not None else None
        known = _bytes_of("--total", self.total) if self.total is not None else table
        weights, text, machine = None, self.weights_gib, machine_of(self.gpu)
        drivers_differ = machine is None or machine.platform != "metal"
        if machine is not None and machine.settable and self.total is not None:
            machine = None  # what the GPU reaches was said
        if text is not None:
            weights = _bytes_of("--weights-gib", f"{text}GiB", text)
        return {
            "gpu": self.gpu,
            "total_bytes": known,
            "total_is_estimated": self.total is None and table is not None and drivers_differ,
            "weights_bytes": weights,
            "kept": machine and machine.estimate,
        }


def _bytes_of(flag: str, text: str, written: str | None = None) -> int:
    """Read bytes; `written` is what was typed, where that is a number of GiB."""
    try:
        read = parse_bytes(int(text) if text.isdecimal() else text, round_up=False)
    except Misfit as error:
        if written is not None:
            raise InvalidProblem.at(flag, "a number of GiB", shown(written)) from None
        raise InvalidProblem.at(flag, error.expected, error.got) from None
    if written is None and (got := bare_bytes(text, read)):
        raise InvalidProblem.at(flag, f"bytes with a unit, such as {text}GiB", got)
    return read


def typed_settings(adapter: Any, arguments: Sequence[str], budget: Budget) -> Settings:
    """Read an engine's own flags, or its whole command line, by its dialect.

    Raises
    ------
    InvalidProblem : a flag that cannot be read, or a machine that the engine does not run on.
    """
    check_order(arguments)
    _check_platform(adapter, budget.gpu)
    terms = _reached(budget.terms, served_platforms(adapter))
    dialect = getattr(adapter, "DIALECT", Dialect())
    return read_settings(adapter.FLAGS, arguments, terms, dialect)


def check_order(arguments: Sequence[str]) -> None:
    """Refuse kvplan's own options behind an engine's line.

    vLLM itself reads "--gpu 0.9" as --gpu-memory-utilization, so a number may stand there.

    Raises
    ------
    InvalidProblem : --gpu, --total or --weights-gib among the engine's words.
    """
    for word, after in pairwise([*arguments, ""]):
        option, _, value = word.partition("=")
        value = value or after
        shortened = option == "--gpu" and value.replace(".", "", 1).isdecimal()
        if option in _BEFORE_LINE and not shortened:
            raise InvalidProblem.at(option, "it before -- and the engine's line", "it behind them")


def _check_platform(adapter: Any, gpu: str | None) -> None:
    """Refuse a machine that the engine does not run on.

    Raises
    ------
    InvalidProblem : no CUDA or ROCm, or one memory where the adapter knows cards alone.
    """
    machine = machine_of(gpu)
    if machine is not None and machine.platform not in served_platforms(adapter):
        engines = "llama.cpp" if machine.platform == "metal" else "another engine"
        raise InvalidProblem.at(
            "--gpu", f"a card of this engine ({engines} runs there)", shown(gpu)
        )


def served_platforms(adapter: Any) -> tuple[str, ...]:
    """Platforms with one memory for GPU and host that an engine runs on."""
    served: tuple[str, ...] = getattr(adapter, "PLATFORMS", ("cuda", "rocm"))
    return served


def _reached(terms: dict[str, Any], served: tuple[str, ...]) -> dict[str, Any]:
    """Take what the GPU reaches as the total, as its driver does; Metal's engine sees it all."""
    kept: Estimate | None = terms["kept"]
    if kept is None or kept.term != BEYOND or "metal" in served:
        return terms
    total = terms["total_bytes"]
    spread = (total - kept.most, total - kept.least)
    return {**terms, "total_bytes": total - kept.bytes, "total_range": spread, "kept": None}


def config_overrides(settings: Mapping[str, Any]) -> Overrides | None:
    """Fields that the command line lays over the config; None without any.

    --hf-overrides of vLLM, --json-model-override-args of SGLang.

    Raises
    ------
    InvalidProblem : no JSON mapping.
    """
    for key, merges in CONFIG_FLAGS.items():
        flag, text = "--" + key.replace("_", "-"), settings.get(key)
        if text is None:
            continue
        data = parse_text(text, name=flag)
        if not isinstance(data, dict):
            raise InvalidProblem.at(flag, "JSON, a mapping", shown(text))
        if key == "rope_scaling":
            return Overrides(flag, {"rope_scaling": data}, ropes_standard=True)
        return Overrides(flag, data, merges)
    return None
