"""Public launch lines of four engines paste whole, or say what does not."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.launch_line import read_line
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.models.reading.loader import load_data
from support.cli import run_kvplan
from support.shapes import CONFIGS

FILE = Path(__file__).parent / "launch_lines.yaml"
LINES: list[dict[str, Any]] = load_data(FILE)["lines"]
TAKEN = [entry for entry in LINES if "settings" in entry]
REFUSED = [entry for entry in LINES if "refused" in entry]


def config(folder: Path, name: str) -> Path:
    path = folder / "model.json"
    path.write_text(json.dumps(CONFIGS[name]), encoding="utf-8")
    return path


@pytest.mark.parametrize("entry", TAKEN, ids=lambda entry: str(entry["source"])[-40:])
def test_a_line_pastes_whole(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = shlex.split(entry["line"])
    adapter = engine_named(read_line(words).engine)
    settings = read_settings(adapter.FLAGS, words, {}, adapter.DIALECT)
    assert {key: settings[key] for key in entry["settings"]} == entry["settings"]
    path = config(tmp_path, entry["config"])
    done = run_kvplan(capsys, "model", path, "--available", "400GiB", "--", *words)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("entry", REFUSED, ids=lambda entry: str(entry["source"])[-40:])
def test_what_is_not_modelled_is_named(
    entry: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, entry["config"])
    words = shlex.split(entry["line"])
    done = run_kvplan(capsys, "model", path, "--available", "400GiB", "--", *words)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith(f"{entry['refused']}: expected ")


def test_there_are_lines_of_each_engine() -> None:
    engines = [read_line(shlex.split(entry["line"])).engine for entry in TAKEN]
    assert {name: engines.count(name) >= 2 for name in set(engines)} == dict.fromkeys(
        ("sglang", "llama.cpp", "tensorrt-llm", "atom"), True
    )
    assert len(TAKEN) >= 18


def test_servers_have_defaults_of_their_own() -> None:
    """llama-server runs 4 sequences in one buffer; trtllm-serve 2,048 requests."""
    known = read_architecture(CONFIGS["Meta-Llama-3.1-8B"])
    for line, expected in (
        ("llama-server -c 8192", "--parallel: auto -> 4"),
        ("trtllm-serve m", "--max_batch_size: not given -> 2048"),
    ):
        words = line.split()
        adapter = engine_named(read_line(words).engine)
        settings = read_settings(adapter.FLAGS, words, {}, adapter.DIALECT)
        assert any(found.startswith(expected) for found in adapter.assumptions(known, settings))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("python -m sglang.launch_server --mem-fraction-statik 0.8", "'--mem-fraction-static'"),
        ("python -m sglang.launch_server --disable-radix-cash", "'--disable-radix-cache'"),
        ("llama-server --ctx-sise 4096", "'--ctx-size'"),
        ("trtllm-serve m --max_batch_sise 4", "'--max-batch-size'"),
        ("python -m sglang.launch_server --max-model-len 4096", "'--context-length', as this"),
        ("llama-server --context-length 4096", "'--ctx-size', as this engine calls it"),
        ("vllm serve m --mem-fraction-static 0.8", "'--gpu-memory-utilization', as this"),
        (
            "python -m atom.entrypoints.openai_server --context-length 4096",
            "'--max-model-len', as this",
        ),
        ("trtllm-serve m --max-model-len 4096", "'--max-seq-len', as this engine calls it"),
        ("python -m sglang.launch_server --enable-hisparse", "not modelled: host tokens"),
    ],
)
def test_unknown_flags_get_the_nearest_names(line: str, message: str) -> None:
    words = line.split()
    adapter = engine_named(read_line(words).engine)
    with pytest.raises(InvalidProblem, match=message):
        read_settings(adapter.FLAGS, words, {}, adapter.DIALECT)


def test_a_variable_stands_for_a_flag() -> None:
    words = ["LLAMA_ARG_CTX_SIZE=4096", "LLAMA_ARG_N_PARALLEL=2", "llama-server", "-m", "x.gguf"]
    adapter = engine_named("llama.cpp")
    settings = read_settings(adapter.FLAGS, words, {}, adapter.DIALECT)
    assert (settings["ctx_size"], settings["parallel"]) == (4096, "2")
