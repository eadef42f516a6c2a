"""--max-model-len: the length that vLLM derives, and the largest that it takes.

(ModelConfig.get_and_verify_max_len of 0.19 to 0.33: vllm/config/model.py,
transformers_utils/model_arch_config_convertor.py.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.command_line.launch_line import human_count
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.positions import LENGTH_KEYS, LENGTHLESS, Rope
from kvplan.models.engines.vllm.launch.defaults import Derived
from kvplan.models.engines.vllm.launch.flags import HUMAN
from kvplan.models.engines.vllm.launch.runner import v2_runner
from kvplan.models.engines.vllm.launch.speculation import speculation
from kvplan.models.engines.vllm.launch.versions import Version, version_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import Misfit, shown

FLAG, ALLOWED = "--max-model-len", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1"
UNNAMED_LENGTH = 2048
_UNSCALED = ("longrope", "llama3")
_CACHE_ONLY = ("default", "linear", "llama3", "ntk", "proportional")
_YARN = ("yarn", "telechat3-yarn", "deepseek_yarn", "deepseek_llama_scaling")


@dataclass(frozen=True)
class ModelLength:
    """What vLLM derives from a config.

    Attributes
    ----------
    largest : tokens that it takes without the environment variable; 0 where it takes any.
    default : tokens where the launch says none, or auto; 0 where it must be said.
    source : the config's key, and how rotary positions change it.
    """

    largest: int
    default: int
    source: str


def length_tokens(architecture: Architecture, settings: Mapping[str, Any]) -> tuple[int, bool]:
    """Longest request, and whether it may shrink (auto, -1); 128k is 128,000, 128K 131,072.

    Raises
    ------
    InvalidProblem : no length.
    """
    version = version_of(settings["engine_version"])
    asked = _asked_length(settings)
    if asked is None:
        default = model_length(architecture, settings, version).default
        if not default:
            raise InvalidProblem.at(FLAG, "tokens (the config names none)", "none")
        asked = default
    shortest = draft_length(architecture, settings, version, asked)
    may_shrink = settings["max_model_len"] is not None and is_automatic(settings)
    return shortest or asked, may_shrink


def _asked_length(settings: Mapping[str, Any]) -> int | None:
    """--max-model-len in tokens; None where the engine derives it."""
    text = settings["max_model_len"]
    if text is None or is_automatic(settings):
        return None
    try:
        tokens = human_count(text, HUMAN)
    except Misfit as error:
        raise InvalidProblem.at(FLAG, error.expected, error.got) from None
    if tokens is None and text.isdecimal():
        tokens = int(text)
    if tokens is None or tokens < 1:
        raise InvalidProblem.at(FLAG, "tokens, or auto", shown(text))
    return tokens


def is_automatic(settings: Mapping[str, Any]) -> bool:
    """Whether --max-model-len leaves the length to what fits."""
    return str(settings["max_model_len"]).lower() in ("auto", "-1")


def model_length(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> ModelLength:
    """Derive the length: the smallest of the config's keys x the rotary factor.

    model_max_length, where it is not 0, replaces the others. The factor counts unless the model is
    a Gemma 3 or the kind is longrope or llama3. YaRN: before 0.30 original_max_position_embeddings
    x factor, since then the config's length as it is. Longrope starts at the original length.
    Without a key any length is taken, 2048 where none is given. --rope-scaling, which vLLM has no
    more, is read as the versions that had it did.

    Raises
    ------
    InvalidProblem : an override that vLLM fails on.
    """
    positions, lengths = architecture.positions, architecture.lengths
    key, base = _smallest(lengths)
    if not key:
        known = architecture.model_type in LENGTHLESS
        return ModelLength(0, UNNAMED_LENGTH if known else 0, "the config names none")
    factor, source = (
        Fraction(1),
        f"the config's {key}" if positions.declared else "its class's default",
    )
    skips_yarn = skips_yarn_factor(settings, version)
    if "gemma3" not in architecture.model_type:
        for rope in positions.ropes:
            base, factor = _scaled(rope, base, factor, skips_yarn)
    if factor != 1 or base != lengths[key]:
        source = f"{base} x the rotary factor {float(factor):g}"
    largest = int(base * factor)
    default = largest
    if any(rope.kind == "longrope" for rope in positions.ropes):
        default = positions.original or largest
        source = "original_max_position_embeddings (longrope)" if default < largest else source
    return ModelLength(max(largest, lengths.get("model_max_length", 0)), default, source)


def _smallest(lengths: Mapping[str, int]) -> tuple[str, int]:
    """The smallest length and its key; model_max_length before all others."""
    if lengths.get("model_max_length"):
        return "model_max_length", lengths["model_max_length"]
    known = [(lengths[key], key) for key in LENGTH_KEYS if key in lengths]
    count, key = min(known, key=lambda one: one[0], default=(0, ""))
    return key, count


def skips_yarn_factor(settings: Mapping[str, Any], version: Version) -> bool:
    """Whether the config's length is taken to be scaled by YaRN already."""
    return version.takes_yarn_as_scaled and settings["rope_scaling"] is None


def _scaled(rope: Rope, base: int, factor: Fraction, skips_yarn: bool) -> tuple[int, Fraction]:
    """Base and factor behind one section of rotary parameters."""
    if rope.kind is None:
        where, expected = "--hf-overrides", "rope_type in the rotary parameters (vLLM reads it)"
        raise InvalidProblem.at(where, expected, "none")
    if rope.kind in _UNSCALED or (rope.kind in _YARN and skips_yarn):
        return base, factor
    if rope.has_factor:
        factor = rope.factor if rope.factor is not None else Fraction(1)
    if rope.kind != "yarn":
        return base, factor
    if not rope.original:
        expected = "original_max_position_embeddings (before 0.30 vLLM reads it of YaRN)"
        raise InvalidProblem.at("--hf-overrides", expected, "none")
    return rope.original, factor


def check_length(architecture: Architecture, settings: Mapping[str, Any]) -> None:
    """Refuse a length above the derived one, unless the environment allows it.

    Raises
    ------
    InvalidProblem : with the largest length that starts.
    """
    asked, version = _asked_length(settings), version_of(settings["engine_version"])
    if asked is None or settings["allow_long_max_model_len"]:
        return
    if not architecture.positions.declared:
        return
    length = model_length(architecture, settings, version)
    if not length.largest or asked <= length.largest:
        return
    expected = f"at most {length.largest} ({length.source}), or {ALLOWED} before vllm serve"
    yarn = any(rope.kind == "yarn" for rope in architecture.positions.ropes)
    if yarn and skips_yarn_factor(settings, version):
        expected += (
            "; since 0.30 max_position_embeddings must say YaRN's scaled length (--hf-overrides)"
        )
    raise InvalidProblem.at(FLAG, expected, str(asked))


def draft_length(
    architecture: Architecture, settings: Mapping[str, Any], version: Version, asked: int
) -> int:
    """The draft's length where that limits the target's, else 0.

    The V2 runner of 0.33 speculates at every length (VllmConfig._limit_max_model_len_to_draft):
    a draft model, or any draft whose rotary parameters follow from its length, is not extended.
    """
    draft = speculation(architecture, settings)
    known = draft.architecture
    if known is None or not known.positions.declared or version.number < (0, 33, 0):
        return 0
    if not v2_runner(settings, version, architecture, draft).value:
        return 0
    ropes = known.positions.ropes
    if draft.method != "draft_model" and all(rope.kind in _CACHE_ONLY for rope in ropes):
        return 0
    length = draft.length or model_length(known, settings, version).default
    return length if 0 < length < asked else 0


def length_lines(
    architecture: Architecture, settings: Mapping[str, Any], version: Version
) -> Iterator[Derived]:
    """What the length follows from, where that is not the launch line alone."""
    length = model_length(architecture, settings, version)
    asked, _ = length_tokens(architecture, settings)
    draft = draft_length(architecture, settings, version, length.default or asked)
    if settings["rope_scaling"] is not None:
        reason = f"no flag since 0.11.1 (#28006): {version.text} takes --hf-overrides"
        yield Derived("--rope-scaling", "read as older versions did", reason)
    if draft == asked:
        yield Derived(FLAG, asked, "the draft's, beyond which 0.33 cannot speculate")
    elif settings["max_model_len"] is None:
        yield Derived(FLAG, asked, length.source)
    elif 0 < length.largest < asked:
        yield Derived(FLAG, asked, f"above {length.largest} ({length.source}): {ALLOWED}")
