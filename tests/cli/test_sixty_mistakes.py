"""Sixty typical mistakes: where, what was expected, what came; exit code 2, no traceback."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from support.cli import run_kvplan

Capture = pytest.CaptureFixture[str]

CARD = """ranks: [{name: gpu, quota: 2GiB}]
pools: [{name: kv, bytes: 1MiB}]
caches: [{name: attention, kind: full}]
batches: [{name: one, requests: [{name: long, capacity: 4096}]}]
"""
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "torch_dtype": "bfloat16",
}
FILES: dict[str, bytes] = {
    "card.yaml": CARD.encode(),
    "config.json": json.dumps(CONFIG).encode(),
    "notype.json": b'{"dim": 4096, "n_layers": 32}',
    "empty.yaml": b"",
    "list.yaml": b"- 1\n",
    "tab.yaml": b"ranks:\n\t- {name: gpu, quota: 1GiB}\n",
    "bracket.yaml": b"ranks: [{name: gpu, quota: 1GiB}\npools: []\n",
    "brace.yaml": b"ranks: [{name: gpu, quota: 1GiB]\n",
    "indent.yaml": b"ranks:\n  - name: gpu\n   quota: 1GiB\n",
    "colon.yaml": b"name: a: b\nranks: []\n",
    "quote.yaml": b"name: 'server\nranks: []\n",
    "at.yaml": b"name: @server\n",
    "two.yaml": b"ranks: []\n---\nranks: []\n",
    "twice.yaml": CARD.encode() + b"pools: []\n",
    "model.gguf": b"GGUF\x03\x00\x00\x00\xff\xfe",
    "weights/one.safetensors": (60).to_bytes(8, "little") + b'{"a": {"dtype": "BF16"}}',
    "card.yaml.gz": b"\x1f\x8b\x08\x00\x00",
    "latin.yaml": b"name: caf\xe9\n",
    "server.log": b"INFO nothing about memory\n",
}
PLAN = "plan.json"  # of card.yaml

MISTAKES: dict[str, tuple[str, str]] = {
    # files
    "no such file": ("solve none.yaml", "none.yaml: expected a readable file, got no such file"),
    "a typo in the name": ("solve crad.yaml", "got no such file; 'card.yaml' is there"),
    "no such folder": ("solve here/card.yaml", "expected a readable file, got no folder 'here'"),
    "a folder": ("solve .", "expected the path of a file, or - for standard input, got '.'"),
    "an empty file": ("solve empty.yaml", "empty.yaml: expected a mapping, got null"),
    "a list": ("solve list.yaml", "list.yaml: expected a mapping, got [1]"),
    "another encoding": ("solve latin.yaml", "expected text in UTF-8, got byte 0xe9 at offset 9"),
    "a GGUF file": ("solve model.gguf", "got a GGUF file; kvplan model reads it"),
    "safetensors": (
        "solve weights/one.safetensors",
        "got a safetensors file; kvplan model reads the fo",
    ),
    "gzip": ("solve card.yaml.gz", "got a gzip file; unpack it first"),
    "a plan to solve": ("solve plan.json", "plan.json: expected a problem, got a plan, as solve"),
    "a config to solve": ("solve config.json", "got a model's config; kvplan model turns it into"),
    # verify
    "swapped": ("verify plan.json card.yaml", "got a plan, as solve --json prints it (kvplan ver"),
    "a problem as plan": ("verify card.yaml card.yaml", "expected a plan, as solve --json prints"),
    "one argument": ("verify card.yaml", "Missing argument 'PLAN'. (see kvplan verify --help)"),
    "standard input twice": ("verify - -", "PLAN: expected a file where FILE is standard input"),
    # YAML
    "a tab": ("solve tab.yaml", "got a tab at line 2, column 1; YAML indents with spaces"),
    "a bracket": ("solve bracket.yaml", "'pools: []' at line 2, column 1: ',' or ']' is missing"),
    "a brace": ("solve brace.yaml", "at line 1, column 32: ',' or '}' is missing"),
    "indentation": ("solve indent.yaml", "'quota: 1GiB' at line 3, column 4: items of a list l"),
    "a second colon": ("solve colon.yaml", "at line 1, column 8: one 'key: value' a line; a value"),
    "an open quote": ("solve quote.yaml", "a quote or bracket is not closed"),
    "an at sign": ("solve at.yaml", "'@server' at line 1, column 7: a value that begins with it"),
    "two documents": ("solve two.yaml", "expected one YAML document, got another one at line 2"),
    "a key twice": (
        "solve twice.yaml",
        "twice.yaml: pools: expected each key once, got it twice in",
    ),
    # values
    "16G": ("@ranks.gpu.quota=16G", 'bytes as "16GB" (10^9 B) or "16GiB" (2^30 B), got \'16G\''),
    "gib": ("@ranks.gpu.quota=16gib", 'ranks[0].quota: expected bytes as "16GiB" (2^30 B), got'),
    "512k": ("@pools.kv.bytes=512k", 'bytes as "512kB" (10^3 B) or "512KiB" (2^10 B), got'),
    "16 Gb": ("@ranks.gpu.quota=16 Gb", "bytes as \"16GB\" (10^9 B), got '16 Gb'"),
    "no such unit": ("@ranks.gpu.quota=16XB", 'expected bytes such as 17179869184 or "16GiB" (u'),
    "a negative quota": ("@ranks.gpu.quota=-1GiB", "expected bytes from 0 to below 2^63, got '-1G"),
    "a comma": ("@ranks.gpu.quota=1,5GiB", "ranks[0].quota: expected bytes such as 17179869184"),
    "percent": ("@resume_utilization=97%", "expected a number such as 0.97 or \"9/19\", got '97%'"),
    "above one": ("@resume_utilization=97", "expected a share above 0 and at most 1, got 97"),
    "text for tokens": (
        "@tokens_per_block=big",
        "expected a whole number of at least 1, got 'big'",
    ),
    "half a token": ("@tokens_per_block=0.5", "tokens_per_block: expected a whole number of at l"),
    # names
    "an unknown rank": ("@ranks.tp0.quota=1GiB", "expected one of gpu, or an index below 1"),
    "an unknown pool": ("@pools.vk.bytes=1MiB", "expected one of kv, or an index below 1"),
    "a pool of no cache": (
        "@caches.attention.pool=vk",
        "caches[0].pool: expected one of kv, got 'vk'",
    ),
    "an unknown goal": ('@goals=["blocks:k"]', "goals[0]: expected a variable: 'blocks:kv', got"),
    "an unknown section": ("@pool=1", "pool: expected 'pools', got an unknown key"),
    "an unknown field": ("@ranks.gpu.qouta=1GiB", "ranks[0].qouta: expected 'quota', got an unkno"),
    "an unknown kind": (
        "@caches.attention.kind=sliding",
        "expected 'full', 'window', 'chunked' or",
    ),
    "no window": ("@caches.attention.kind=window", "expected window (tokens) on a window cache, g"),
    "no equals sign": ("@ranks.gpu.quota", "--set: expected path=value, got 'ranks.gpu.quota'"),
    # command lines
    "an unknown command": ("slove card.yaml", "No such command 'slove'. Did you mean 'solve'?"),
    "no file": ("solve", "Missing argument 'FILE'. (see kvplan solve --help)"),
    "an unknown option": ("solve card.yaml --jsn", "No such option: --jsn (Possible options: --j"),
    "-tp": (
        "solve card.yaml -tp 2",
        "kvplan solve has no option -tp; an engine's flags go to kvpl",
    ),
    "another solver": ("solve card.yaml --solver cpsat", "expected cp-sat, auto or bisect, got"),
    "a deadline in words": ("solve card.yaml --deadline 2s", "--deadline: expected seconds of at"),
    "vary nothing": ("explore card.yaml", "Missing option '--vary'. (see kvplan explore --help)"),
    "no step": ("explore card.yaml --vary ranks.gpu.quota=1GiB:2GiB", "expected A:B:STEP or A,B,C"),
    "a spreadsheet": (
        "explore card.yaml --vary ranks.gpu.quota=1GiB,2GiB --out t.xlsx",
        "--out: expected a file ending in .csv, .jsonl, .parquet, .png, .svg or .html, got",
    ),
    "no figures in a log": ("check-log server.log", "server.log: expected memory lines of ATOM, "),
    # models
    "a config without a type": ("model notype.json", "got neither (the file has 'dim', 'n_layers"),
    "10 bytes": ("model config.json --available 10", "expected bytes with a unit, such as 10GiB,"),
    "no budget": ("model config.json", "expected --available or --kv-cache-memory-bytes, or --gpu"),
    "a near miss of --check": (
        "model config.json --available 10GiB --check 'GPU KV cahce size: 1,000 tokens'",
        "--check: expected a line with 'GPU KV cache size', got 'GPU KV cahce size: 1,000 tokens'",
    ),
    "a flag of no engine": (
        "model config.json --available 10GiB -- vllm serve x -tpp 2",
        "-tpp: expected a flag of this engine: '-tp', '-pp', '-pcp', got an unknown argument",
    ),
    "an unknown card": (
        "model config.json --gpu RTX4900 --weights-gib 8",
        "--gpu: expected",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """The files of the table, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / PLAN).write_text(run_kvplan(capsys, "solve", "card.yaml", "--json").out)
    return tmp_path


def test_the_table_has_sixty_rows() -> None:
    assert len(MISTAKES) >= 60


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_in_one_line(name: str, folder: Path, capsys: Capture) -> None:
    line, message = MISTAKES[name]
    if line.startswith("@"):
        arguments = ["solve", "card.yaml", "--set", line[1:]]
    else:
        arguments = shlex.split(line)
    done = run_kvplan(capsys, *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert len(done.err.splitlines()) == 1
    assert len(done.err) < 400


def test_a_plan_of_another_problem_is_said_to_be_that(folder: Path, capsys: Capture) -> None:
    done = run_kvplan(capsys, "verify", "card.yaml", PLAN, "--set", "ranks.gpu.quota=3GiB")
    assert done.code == 1
    assert done.out.startswith("question: the plan answers another problem than this one; verify")


@pytest.mark.parametrize(("weights", "said"), [("20", "26368 tokens"), ("28", "none: rank device")])
def test_a_refusal_says_the_largest_that_starts(
    weights: str, said: str, folder: Path, capsys: Capture
) -> None:
    measured = "--compute-buffer 0 --cuda-context 0"
    card = f"--engine llama.cpp --gpu 'RTX 4090' {measured}"
    arguments = f"model config.json {card} -c 40960 --weights-gib"
    done = run_kvplan(capsys, *shlex.split(arguments), weights)
    assert f"#   largest context that starts: {said}" in done.out
    if weights == "20":
        fits = run_kvplan(capsys, *shlex.split(arguments.replace("40960", "26368")), weights)
        more = run_kvplan(capsys, *shlex.split(arguments.replace("40960", "26369")), weights)
        assert ("refuses" in fits.out, "refuses" in more.out) == (False, True)
