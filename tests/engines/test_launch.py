"""Command lines as people paste them: programs, spellings, human sizes, unknown flags."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.command_line.launch_line import Dialect, human_count, nearest, read_line
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import Flag, Settings
from kvplan.models.messages import Misfit

SUFFIXES = {"k": 1000, "m": 10**6, "K": 1024, "M": 2**20}
FLAGS = (
    Flag("--max-len", "count", None, "", suffixes=SUFFIXES, aliases=("-ml",)),
    Flag("--eager", "switch", None, ""),
    Flag("--disable-cache", "switch", None, ""),
    Flag("--spec", "word", None, "", aliases=("-s",)),
    Flag("--skip", "word", None, "", many=True),
    Flag("--flash", "word", "auto", "", bare="on"),
)
DIALECT = Dialect(
    harmless={"--port": "value", "--names": "values", "--quiet": "switch", "--log": "optional"},
    refused={"--offload": "no offload (not modelled)", "BAD_ENV": "unset (not modelled)"},
    aliases={"-p": "--port", "-o": "--offload"},
    variables={"ENGINE_EAGER": "--eager", "ENGINE_LEN": "--max-len"},
    paired=True,
)


def read(*words: str) -> Settings:
    return read_settings(FLAGS, words, {}, DIALECT)


def fault(*words: str) -> str:
    with pytest.raises(InvalidProblem) as refusal:
        read(*words)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("line", "engine", "arguments"),
    [
        ("vllm serve org/model -tp 8", "vllm", ("org/model", "-tp", "8")),
        ("/opt/venv/bin/vllm serve m", "vllm", ("m",)),
        ("A=1 python3 -m vllm.entrypoints.openai.api_server --x", "vllm", ("--x",)),
        ("uv run /usr/bin/python3.12 -m sglang.launch_server --tp 2", "sglang", ("--tp", "2")),
        ("numactl -N 0 ./build/bin/llama-server -c 4096", "llama.cpp", ("-c", "4096")),
        ("mpirun -n 2 trtllm-serve serve m", "tensorrt-llm", ("m",)),
        ("trtllm-serve m", "tensorrt-llm", ("m",)),
        (
            "docker run --gpus all -e A=1 vllm/vllm-openai:v0.25.1 --model m",
            "vllm",
            ("--model", "m"),
        ),
        ("docker run reg/vllm-openai:x vllm serve m", "vllm", ("m",)),
        ("--max-len 1", "", ("--max-len", "1")),
    ],
)
def test_the_program_of_a_line(line: str, engine: str, arguments: tuple[str, ...]) -> None:
    found = read_line(line.split())
    assert (found.engine, found.arguments) == (engine, arguments)


def test_variables_and_the_image_of_a_line() -> None:
    found = read_line(
        ["env", "A=1", "B=x=y", "docker", "-e", "A=2", "vllm/vllm-openai:v0.25.1", "C=3"]
    )
    assert found.variables == {"A": "2", "B": "x=y"}
    assert found.image == "vllm/vllm-openai:v0.25.1"


@pytest.mark.parametrize(
    ("words", "key", "value"),
    [
        ("--max_len 7", "max_len", 7),
        ("--max-len=128k", "max_len", 128_000),
        ("-ml 128K", "max_len", 131_072),
        ("--max-len 1.5m", "max_len", 1_500_000),
        ("--eager", "eager", True),
        ("--no-eager", "eager", False),
        ("--no-disable-cache", "disable_cache", False),
        ("--enable-cache", "disable_cache", False),
        ("--disable_cache", "disable_cache", True),
        (
            "--spec.a.b 3 --spec.c=x --spec.d+ 1,2",
            "spec",
            '{"a": {"b": 3}, "c": "x", "d": ["1", "2"]}',
        ),
        ("-s.a 3", "spec", '{"a": 3}'),
        ("--skip a b c --eager", "skip", "a,b,c"),
        ("--flash --eager", "flash", "on"),
        ("--flash off", "flash", "off"),
        ("ENGINE_EAGER=1 vllm serve m", "eager", True),
        ("ENGINE_EAGER=0 vllm serve m", "eager", False),
        ("ENGINE_LEN=2k vllm serve m", "max_len", 2000),
    ],
)
def test_spellings(words: str, key: str, value: Any) -> None:
    assert read(*words.split())[key] == value


def test_own_flags_may_stand_before_the_program() -> None:
    line = "--max-len 7 docker run --gpus all --name x vllm/vllm-openai:v1.2.3 --eager"
    found = read(*line.split())
    assert (found["max_len"], found["eager"], found.notes) == (7, True, ())


def test_harmless_flags_are_counted_in_one_note() -> None:
    line = "X=1 vllm serve m --names a b --port 80 --log --no-quiet --eager --log file -p 81"
    assert read(*line.split()).notes == (
        "5 flags leave the sizes alone: X, --names, --port, --log, --no-quiet",
    )
    assert read("--eager").notes == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--offload 3 --eager", "--offload: expected no offload (not modelled), got '3'"),
        ("-o=3", "-o: expected no offload"),
        ("BAD_ENV=1 vllm serve m", "BAD_ENV: expected unset (not modelled), got '1'"),
        ("--max-lenn 3", "--max-lenn: expected a flag of this engine: '--max-len'"),
        ("--prot 3", "--prot: expected a flag of this engine: '--port'"),
        ("--zzzzzz", "--zzzzzz: expected a flag of this engine (--flags"),
        ("stray", "stray: expected a flag"),
        ("vllm serve m stray", "stray: expected a flag"),
        ("--max-len 1.5K", "--max-len: expected a whole number before K"),
        ("--max-len 3x", "--max-len: expected a whole number"),
        ("--eager=1", "--eager: expected no value (a switch)"),
        ("ENGINE_EAGER=maybe vllm serve m", "ENGINE_EAGER: expected 0 or 1"),
        ("--max-len", "--max-len: expected a value"),
    ],
)
def test_what_does_not_read(words: str, message: str) -> None:
    assert fault(*words.split()).startswith(message)


def test_every_fault_of_a_line_is_told() -> None:
    text = fault("--offload", "1", "--unknown", "2", "--max-len", "x")
    assert [line.split(":")[0] for line in text.splitlines()] == [
        "--offload",
        "--unknown",
        "--max-len",
    ]


def test_nearest_names_are_several() -> None:
    assert nearest(["--max-model-len", "--max-num-seqs", "--max-num-tokens"], "--max-num") == (
        "a flag of this engine: '--max-num-seqs', '--max-num-tokens', '--max-model-len'"
    )


@pytest.mark.parametrize(
    ("text", "count"),
    [("25.6k", 25_600), ("8k", 8000), ("8K", 8192), ("1M", 2**20), ("7", None), ("3q", None)],
)
def test_human_counts(text: str, count: int | None) -> None:
    assert human_count(text, SUFFIXES) == count


def test_a_decimal_before_a_binary_suffix_is_refused() -> None:
    with pytest.raises(Misfit):
        human_count("1.5M", SUFFIXES)


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ("vllm serve ORG/M -tp 2 > v.log 2>&1 &", ("ORG/M", "-tp", "2")),
        ("vllm serve ORG/M -tp 2 2>&1 | tee v.log", ("ORG/M", "-tp", "2")),
        ("vllm serve ORG/M --port 80 && curl x", ("ORG/M", "--port", "80")),
        ("docker run --entrypoint vllm vllm/vllm-openai:v0.29.0 serve ORG/M -pp 2", "ORG/M -pp 2"),
        ("docker run -p 80:80 ghcr.io/ggml-org/llama.cpp:server-cuda -m x -c 8", "-m x -c 8"),
        ("python3 -m tensorrt_llm.commands.serve ORG/M --tp_size 2", "ORG/M --tp_size 2"),
        ("python -m atom.entrypoints.openai_server --model ORG/M -tp 8", "--model ORG/M -tp 8"),
    ],
)
def test_a_command_ends_where_the_shell_goes_on(line: str, arguments: Any) -> None:
    expected = tuple(arguments.split()) if isinstance(arguments, str) else arguments
    assert read_line(line.split()).arguments == expected


@pytest.mark.parametrize("line", ["llama-bench -m x", "python -m sglang_router.launch_server -x y"])
def test_an_unknown_command_is_one_fault(line: str) -> None:
    said = fault("--eager", *line.split())
    assert said.startswith(f"{line.split()[0]}: expected a flag, or one of vllm serve, ")
    assert said.count("expected") == 1
