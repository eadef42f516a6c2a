"""Command lines of engines as people paste them: the words before the flags, and every spelling.

An adapter models some flags (`Flag`). Its `Dialect` says the rest: which flags leave the memory
alone, which touch it and are refused by name, and which environment variables stand for flags. A
flag of neither is unknown, and its nearest names are told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import PurePosixPath
from typing import Literal

from kvplan.models.engines.command_line.other_engines import same_elsewhere
from kvplan.models.messages import LONGEST, Misfit, shown

Arity = Literal["switch", "value", "values", "optional"]
"""What follows a flag: nothing, one word, every word up to the next flag, or one word at most."""

PROGRAMS: dict[tuple[str, ...], str] = {
    ("vllm", "serve"): "vllm",
    ("python", "-m", "vllm.entrypoints.openai.api_server"): "vllm",
    ("python", "-m", "vllm.entrypoints.cli.main", "serve"): "vllm",
    ("vllm-openai",): "vllm",
    ("llama.cpp:server",): "llama.cpp",
    ("python", "-m", "sglang.launch_server"): "sglang",
    ("sglang", "serve"): "sglang",
    ("trtllm-serve", "serve"): "tensorrt-llm",
    ("trtllm-serve",): "tensorrt-llm",
    ("python", "-m", "tensorrt_llm.commands.serve"): "tensorrt-llm",
    ("llama-server",): "llama.cpp",
    ("llama-cli",): "llama.cpp",
    ("python", "-m", "atom.entrypoints.openai_server"): "atom",
}
"""Engine of a command. vllm-openai and llama.cpp:server are images, whose command is the server."""
_IMAGES = {("vllm-openai",), ("llama.cpp:server",)}
_SHELL = re.compile(r"\||&&?|;|[0-9]?>>?.*|&>.*")
"""Words of a shell behind a command: pipes, redirections, what comes next."""
VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_PYTHON = re.compile(r"python[0-9.]*")
_TAG = re.compile(r":v?([0-9]+\.[0-9]+\.[0-9]+)(?![0-9])")
_NEAREST = 3
_HUMAN = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z])")


@dataclass(frozen=True)
class Dialect:
    """What a command line may carry beside the modelled flags.

    Attributes
    ----------
    harmless : flags that leave the sizes alone, and what follows each.
    measured : flags that change what a start-up measures and nothing else; told in a note.
    refused : flags and variables that touch the sizes and are not modelled, each with the reason.
    refused_arity : what follows a refused flag, where that is no single value.
    aliases : other spellings of flags; one may carry its value ("-O3": "--level=3").
    variables : environment variables that stand for a modelled flag.
    image_version : the flag that a container's tag sets where it is a version.
    paired : whether --disable-x is --enable-x negated, and the other way round.
    abbreviates : whether the start of a flag will do where only one begins so (argparse).
    true_words : what a variable says to turn a switch on, in lower case.
    """

    harmless: Mapping[str, Arity] = field(default_factory=dict)
    measured: Mapping[str, Arity] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    refused_arity: Mapping[str, Arity] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    image_version: str = ""
    paired: bool = False
    abbreviates: bool = False
    true_words: tuple[str, ...] = ("1", "true", "yes", "y")


@dataclass(frozen=True)
class Line:
    """A command line apart from its flags.

    Attributes
    ----------
    engine : whose program it starts; empty where the line has no program.
    variables : environment variables before the program, the last of a name.
    arguments : what follows the program.
    before : what stands before it, variables apart: a launcher's words, or kvplan's own flags.
    image : the container's image with its tag; empty without one.
    program : the words of the program, such as "llama-server".
    """

    engine: str
    variables: Mapping[str, str]
    arguments: tuple[str, ...]
    image: str = ""
    before: tuple[str, ...] = ()
    program: str = ""

    @property
    def image_version(self) -> str:
        """Version that the image's tag names; empty without one."""
        match = _TAG.search(self.image)
        return match[1] if match else ""


def read_line(words: Sequence[str]) -> Line:
    """Find the program among the words; what stands before it are variables and a launcher's words.

    Without a program every word is an argument.
    """
    for start in range(len(words)):
        for program, engine in PROGRAMS.items():
            if tuple(map(_base, words[start : start + len(program)])) == program:
                return _started(words, start, program, engine)
    return Line("", {}, tuple(words))


def _started(words: Sequence[str], start: int, program: tuple[str, ...], engine: str) -> Line:
    """Take a line apart around its program; the command in a container may be another one."""
    rest = _command(words[start + len(program) :])
    variables: dict[str, str] = {}
    before = []
    for word in words[:start]:
        match = VARIABLE.fullmatch(word)
        if match:
            variables[match[1]] = match[2]
        else:
            before.append(word)
    image = words[start] if program in _IMAGES else ""
    if image and (inner := read_line(rest)).engine:
        variables |= dict(inner.variables)
        return replace(inner, variables=variables, image=image, before=tuple(before))
    if image and "vllm" in before and rest[:1] == ["serve"]:  # docker run --entrypoint vllm
        del rest[0]
    named = " ".join(program)
    return Line(engine, variables, tuple(rest), image, tuple(before), named)


def _command(words: Sequence[str]) -> list[str]:
    """Leave out what a shell would not pass on."""
    end = next((at for at, word in enumerate(words) if _SHELL.fullmatch(word)), len(words))
    return list(words[:end])


def _base(word: str) -> str:
    """Name of a program without its folder, version or tag: /usr/bin/python3.12 is python."""
    name = PurePosixPath(word).name if "/" in word else word
    name = name.removesuffix(".exe")
    if _PYTHON.fullmatch(name):
        return "python"
    if name.startswith("llama.cpp:server"):
        return "llama.cpp:server"
    return name.partition(":")[0] if name.startswith("vllm-openai") else name


def canonical(name: str) -> str:
    """Spell a long flag with dashes, up to the first dot: --max_model_len, --a_b.c_d."""
    if not name.startswith("--"):
        return name
    head, dot, tail = name.partition(".")
    return head.replace("_", "-") + dot + tail


def opposites(name: str, *, paired: bool) -> tuple[str, ...]:
    """Switches that `name` would negate, most literal first."""
    found = []
    if name.startswith("--no-"):
        found.append(f"--{name.removeprefix('--no-')}")
    swaps = {"--enable-": "--disable-", "--disable-": "--enable-"} if paired else {}
    for own, other in swaps.items():
        if name.startswith(own):
            found.append(f"{other}{name.removeprefix(own)}")
    return tuple(found)


def nearest(names: Iterable[str], name: str) -> str:
    """Say which flags could be meant: what another engine's is here, up to three near, or none."""
    known = set(names)
    same = same_elsewhere(name, known)
    if same is not None:
        return f"{shown(same)}, as this engine calls it"
    found = get_close_matches(name[:LONGEST], sorted(known), n=_NEAREST, cutoff=0.55)
    if not found:
        return "a flag of this engine (--flags lists those that count)"
    return f"a flag of this engine: {', '.join(map(shown, found))}"


def is_flag(word: str) -> bool:
    """Whether a word starts a flag; a negative number does not."""
    return len(word) > 1 and word[0] == "-" and not re.fullmatch(r"-[0-9.]+", word)


def human_count(text: str, suffixes: Mapping[str, int]) -> int | None:
    """Read "128k" with an engine's own suffixes; None where it is no such text.

    A multiplier that is a power of two takes whole numbers only (vLLM's human_readable_int, whose
    product of a decimal is a float that is cut).

    Raises
    ------
    Misfit : a decimal before a binary suffix.
    """
    match = _HUMAN.fullmatch(text.strip())
    if match is None or match[2] not in suffixes:
        return None
    multiplier = suffixes[match[2]]
    if "." not in match[1]:
        return int(match[1]) * multiplier
    if multiplier & (multiplier - 1) == 0:
        raise Misfit(f"a whole number before {match[2]} ({match[2].lower()} is 1000s)", shown(text))
    return int(float(match[1]) * multiplier)
