"""The engines that `kvplan model` knows; each adapter registers itself by one line here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol

from kvplan.models.engines.assumed import Assumed, Derivation
from kvplan.models.engines.checkpoint.weights import weights_lines
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown

if TYPE_CHECKING:
    from kvplan.models.engines.checkpoint.weights import Weights
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.plan import Plan
    from kvplan.models.problem import Problem

SPECULATION = (
    *("speculative_config", "spec_method", "speculative_algorithm", "num_speculative_tokens"),
)
"""Settings that load a draft, as the engines spell them."""


@dataclass(frozen=True)
class Flag:
    """One flag of an engine, as its own command line spells it.

    Attributes
    ----------
    name : as typed, with dashes: "--block-size".
    kind : how the text is read: "count" (an integer of at least 0), "number" (exact Fraction),
        "bytes", "word" or "switch" (no value: True, or False by its --no- form).
    default : of the parsed value; None is "not given".
    help : one line.
    choices : words allowed; empty for any.
    repeated : the flag may come several times; its value is a tuple.
    aliases : other spellings, short forms included: ("-tp",).
    suffixes : what letters behind a number multiply it by, as this engine reads them.
    bare : the text that the flag means where no value follows; None where one must.
    many : every word up to the next flag belongs to it; they are joined by commas.
    """

    name: str
    kind: Literal["count", "number", "bytes", "word", "switch"]
    default: Any
    help: str
    choices: tuple[str, ...] = ()
    repeated: bool = False
    aliases: tuple[str, ...] = ()
    suffixes: Mapping[str, int] = field(default_factory=dict)
    bare: str | None = None
    many: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """Every spelling."""
        return (self.name, *self.aliases)

    @property
    def key(self) -> str:
        """Key in the settings: dashes become underscores."""
        return self.name.lstrip("-").replace("-", "_")


class Settings(Mapping[str, Any]):
    """Values by flag key, defaults included, and the terms common to all engines.

    Common keys: total_bytes, weights_bytes (None where unknown), gpu (name or None).

    Attributes
    ----------
    given : keys that were given, not left to their default.
    notes : lines on the command line itself, such as flags that leave the sizes alone.
    assumed : what the engine derived; None before its rules were asked.
    """

    def __init__(
        self, flags: tuple[Flag, ...], given: Mapping[str, Any], notes: tuple[str, ...] = ()
    ) -> None:
        self._values = {flag.key: flag.default for flag in flags} | dict(given)
        self.given = frozenset(given)
        self.notes = notes
        self.assumed: tuple[Assumed, ...] | None = None

    def resolved(self, derivation: Derivation) -> Settings:
        """Return the settings with what an engine derives laid over them, and a list of it."""
        settings = Settings((), derivation.values, self.notes)
        settings.given, settings.assumed = self.given, tuple(derivation.assumed)
        return settings

    @property
    def ranks(self) -> int:
        """GPUs of one replica: tensor x pipeline parallel, which the engines spell apart."""
        keys = ("tp_size", "tensor_parallel_size", "pp_size", "pipeline_parallel_size")
        return prod(int(self._values.get(key) or 1) for key in keys)

    def weighed(self, weights: Weights | None, architecture: Architecture) -> Settings:
        """Return the settings with weights that lie at hand, unless --weights-gib says them.

        A rank is taken to hold its even share, which is an estimate; llama.cpp goes by tensor.
        """
        if weights is None or self._values.get("weights_bytes") is not None:
            return self
        stored_bytes, ranks = weights.total_bytes, self.ranks
        by_tensor = "n_gpu_layers" in self._values
        if not by_tensor:
            element = 4 if self._values.get("dtype") in ("float", "float32") else 2
            drafts = any(self._values.get(key) for key in SPECULATION)
            weights = weights.held(element, architecture.total_layers, draft=drafts)
        values = {**self._values, "weights": weights}
        if not by_tensor:
            values["weights_bytes"] = -(-weights.total_bytes // ranks)
        lines = weights_lines(weights, ranks, architecture, stored_bytes)
        settings = Settings((), values, (*self.notes, *lines))
        settings.given = self.given
        return settings

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Engine(Protocol):
    """What an adapter module offers: FLAGS, build and figures (module-level functions do).

    `build` raises InvalidProblem where the engine would refuse the model or the flags, with the
    engine's reason. `figures` are what the engine prints in its log, by the words of the log, so
    that `--check "GPU KV cache size: 123,456 tokens"` finds its line: each entry is the log line's
    label and its value as printed. The problem is the one that `build` returned for the same input.

    An adapter may offer more: `DIALECT` (a `launch.Dialect`: what else its command line may carry),
    `PLATFORMS` (unified-memory machines that it runs on; default CUDA and ROCm),
    `assumptions(architecture, settings)` (a line for each value that it derived, with the reason)
    and `refusal(architecture, settings)` (what it says where its problem has no plan). What finds
    better settings solves, so it stands apart: `kvplan.solver.advise.optimizer_of(adapter)`.
    """

    FLAGS: tuple[Flag, ...]

    def build(self, architecture: Architecture, settings: Settings) -> Problem:
        """Make the problem whose plan is what the engine would do."""

    def figures(
        self, architecture: Architecture, settings: Settings, problem: Problem, plan: Plan
    ) -> dict[str, str]:
        """Return the engine's own printed figures as functions of the plan."""


_MODULES = {
    "vllm": "kvplan.models.engines.vllm",
    "sglang": "kvplan.models.engines.sglang",
    "tensorrt-llm": "kvplan.models.engines.trtllm",
    "atom": "kvplan.models.engines.atom",
    "llama.cpp": "kvplan.models.engines.llamacpp",
}
ENGINES = tuple(_MODULES)


def engine_named(name: str) -> Any:
    """Import the adapter of an engine (an `Engine`).

    Raises
    ------
    InvalidProblem : no such engine.
    """
    if name not in _MODULES:
        raise InvalidProblem.at("--engine", one_of(ENGINES, name), shown(name))
    return import_module(_MODULES[name])
