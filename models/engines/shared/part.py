"""One of several models on a card: what its process takes beside caches, and what it must hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.llamacpp.flags import context_of
from kvplan.models.engines.registry import Flag, Settings
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.unified import BEYOND, SYSTEM
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown
from kvplan.models.problem import Problem
from kvplan.models.ranks import RankMemory

SHARE_FLAGS = {"vllm": "--gpu-memory-utilization", "sglang": "--mem-fraction-static"}
CONTEXT_FLAGS = {
    "vllm": "--max-model-len",
    "sglang": "--context-length",
    "llama.cpp": "--ctx-size",
}
_MEASURED = {
    "vllm": ("--available", "--kv-cache-memory-bytes", "--num-gpu-blocks-override"),
    "sglang": ("--available", "--free-before-load", "--max-total-tokens"),
    "llama.cpp": ("--available", "--card"),
}
_OWN_DRAFTS = {"vllm": "--speculative-config", "sglang": "--speculative-draft-model-path"}
_CONTEXT_TERMS = ("CUDA context", "HIP context")


@dataclass(frozen=True)
class Part:
    """A model under an engine, on a card that it shares.

    Attributes
    ----------
    label : "A", "B", ... in the order of the starts; "A draft" for a draft.
    problem : what the engine alone would face on the card.
    target : label of the model that this one drafts for; empty for a model of its own.
    """

    label: str
    engine: str
    architecture: Architecture
    settings: Settings
    problem: Problem
    target: str = ""

    @property
    def memory(self) -> RankMemory:
        """Readings of the card, as this engine would take them."""
        memory = self.problem.ranks[0].memory
        assert memory is not None  # `part_of` refuses a bare quota
        return memory

    @property
    def charges(self) -> dict[str, int]:
        """Bytes beside the caches, by term; what the system keeps is the card's, and once."""
        memory = self.memory
        own = {
            "weights and activation": memory.peak_torch,
            "non-torch": memory.non_torch,
            "graphs": memory.graphs_bytes,
            **memory.other,
        }
        aside = (SYSTEM, BEYOND, *(_CONTEXT_TERMS if self.target else ()))
        return {term: size for term, size in own.items() if size and not term.startswith(aside)}

    @property
    def has_own_share(self) -> bool:
        """Whether the launch line says which share of the card the engine takes."""
        flag = SHARE_FLAGS.get(self.engine)
        return flag is not None and Flag(flag, "number", None, "").key in self.settings.given

    def with_problem(self, problem: Problem) -> Part:
        """The same model with another problem."""
        return replace(self, problem=problem)


def part_of(
    label: str,
    engine: str,
    adapter: Any,
    architecture: Architecture,
    settings: Settings,
    target: str = "",
) -> Part:
    """Build one of several models; the first one is labelled "A".

    Raises
    ------
    InvalidProblem : an engine, a flag or a layout that a shared card is not planned for.
    """
    check_engine(engine, is_draft=bool(target))
    _check_flags(label, engine, settings)
    problem = _with_request(engine, architecture, settings, adapter.build(architecture, settings))
    _check_shape(problem)
    return Part(label, engine, architecture, settings, problem, target)


def check_engine(engine: str, *, is_draft: bool) -> None:
    """Refuse an engine that a shared card is not planned for, or a draft that it reads itself.

    Raises
    ------
    InvalidProblem : either.
    """
    if engine not in CONTEXT_FLAGS:
        raise InvalidProblem.at("--engine", f"{one_of(CONTEXT_FLAGS)} beside --and", shown(engine))
    if is_draft and engine in _OWN_DRAFTS:
        expected = f"a llama.cpp model before it ({engine} has {_OWN_DRAFTS[engine]})"
        raise InvalidProblem.at("--and-draft", expected, f"one of {engine}")


def _check_flags(label: str, engine: str, settings: Settings) -> None:
    """Refuse what an engine measured, or fixed, as if the card were its own."""
    for name in _MEASURED[engine]:
        if settings.get(Flag(name, "word", None, "").key):
            expected = f"a line without it ({label} shares the card: --gpu and --weights-gib)"
            raise InvalidProblem.at(name, expected, "given beside --and")
    if settings.get("total_bytes") is None:
        raise InvalidProblem.at("--gpu", "the card of all models, or --total", "neither")
    if engine == "sglang" and label != "A" and settings["mem_fraction_static"] is not None:
        expected = (
            f"a line without it (a share of what is free when {label} starts: kvplan says it)"
        )
        raise InvalidProblem.at(SHARE_FLAGS[engine], expected, "given behind --and")


def _with_request(
    engine: str, architecture: Architecture, settings: Mapping[str, Any], problem: Problem
) -> Problem:
    """SGLang starts with any number of tokens; here they must hold one request of full length."""
    if engine != "sglang":
        return problem
    if problem.constraints or len(problem.pools) > 1:
        expected = "a model with one pool of tokens (SGLang splits its pools by the whole rest)"
        raise InvalidProblem.at("--and", expected, f"{len(problem.pools)} pools")
    length = context_tokens(architecture, resolve(architecture, settings))
    data = problem.model_dump(mode="json", exclude_unset=True)
    del data["goals"]
    data["batches"] = [{"name": "longest", "requests": [{"name": "longest", "capacity": length}]}]
    return Problem.model_validate(data)


def _check_shape(problem: Problem) -> None:
    """Refuse stages of a pipeline; llama.cpp's host is a space of its own."""
    others = [rank.name for rank in problem.ranks[1:] if rank.name != "host"]
    if others:
        raise InvalidProblem.at("--and", "models of one pipeline stage each", ", ".join(others))


def asked_tokens(part: Part) -> int:
    """Tokens of the longest request that the launch line asks for."""
    return max(one.capacity for batch in part.problem.batches for one in batch.requests)


def context_flag(part: Part, tokens: int) -> tuple[str, str]:
    """The flag, and its value, that makes requests so long (llama.cpp counts all sequences)."""
    flag = CONTEXT_FLAGS[part.engine]
    if part.engine != "llama.cpp":
        return flag, str(tokens)
    streams = context_of(part.architecture, part.settings).streams
    return ("--ctx-size-draft" if part.target else flag), str(tokens * streams)
