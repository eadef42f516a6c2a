"""kvplan model A --and B: several models on one card, who fits, and the flags of each start."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import Infeasible, Plan, Problem
from kvplan.models.engines.cards import total_bytes
from kvplan.solver import plan
from support.cli import Outcome, run_kvplan
from support.vllm_server import CONFIGS

GIB = 2**30
CARD = total_bytes("h100-80gb")
SMALL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 1024,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 40960,
    "vocab_size": 151936,
    "torch_dtype": "bfloat16",
}
A = "Qwen3-8B.json --gpu h100-80gb --weights-gib 15.3 -- vllm serve a --max-model-len 32768"
B = "--and small.json --weights-gib 1.2 -- vllm serve b --max-model-len 8192"


@pytest.fixture(autouse=True)
def configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of configs, as the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, config in {**CONFIGS, "small": SMALL}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(config))


def run(capsys: pytest.CaptureFixture[str], line: str) -> Outcome:
    return run_kvplan(capsys, "model", *line.split())


def document(capsys: pytest.CaptureFixture[str], line: str) -> dict[str, Any]:
    done = run(capsys, line)
    assert (done.code, done.err) == (0, "")
    data: dict[str, Any] = json.loads(done.out)
    return data


def test_two_servers_fit_and_take_their_utilizations(capsys: pytest.CaptureFixture[str]) -> None:
    data = document(capsys, f"--json {A} {B}")
    assert data["fits"]
    assert data["short_bytes"] == 0
    answer = plan(Problem.model_validate(data["problem"]))
    first, second = data["starts"]
    shares = [Fraction(one["flags"]["--gpu-memory-utilization"]) for one in (first, second)]
    assert sum(shares) <= Fraction(92, 100)
    assert second["free_bytes"] == CARD - first["taken_bytes"] >= second["taken_bytes"]
    for one, share, model in zip((first, second), shares, data["models"], strict=True):
        pool = next(pool for pool in data["problem"]["pools"] if pool["name"] == one["model"])
        spare = int(share * CARD) - model["other_bytes"] - one["cache_bytes"]
        assert 0 <= spare <= CARD // 10_000  # a utilization is rounded up by a step at most
        assert one["cache_bytes"] == answer.blocks[one["model"]] * pool["bytes"]["card"]


def test_each_start_alone_gets_the_blocks_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    """The printed flags, given to the engine's own adapter: to the block, and a step more."""
    data = document(capsys, f"--json {A} {B}")
    answer = plan(Problem.model_validate(data["problem"]))
    lines = {"A": "Qwen3-8B.json --weights-gib 15.3", "B": "small.json --weights-gib 1.2"}
    for start in data["starts"]:
        flags, planned = dict(start["flags"]), answer.blocks[start["model"]]
        whole = " ".join(f"{flag} {value}" for flag, value in flags.items())
        alone = f"{lines[start['model']]} --gpu h100-80gb --json"
        exact = document(capsys, f"{alone} {whole}")
        assert exact["figures"]["num_gpu_blocks"] == str(planned)
        share = f"--gpu-memory-utilization {flags['--gpu-memory-utilization']}"
        by_share = int(document(capsys, f"{alone} {share}")["figures"]["num_gpu_blocks"])
        assert 0 <= by_share - planned <= CARD // 10_000 // (16 * 28 * 4096)


def test_the_rest_holds_as_many_requests_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    answer = plan(Problem.parse(run(capsys, f"{A} {B}").out))
    assert isinstance(answer, Plan)
    copies = answer.copies or 0
    assert copies > 1
    more = {name: answer.blocks[name] // answer.floors[name] for name in ("A", "B")}
    assert more["A"] - copies in (0, 1)
    assert more["B"] >= copies
    first = plan(Problem.parse(run(capsys, f"--share priority {A} {B}").out))
    assert first.blocks["A"] > answer.blocks["A"]
    assert first.blocks["B"] - 1 == first.floors["B"]  # and the null block


def test_what_does_not_fit_says_who_is_short_and_how_long_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = A.replace("15.3", "60") + f" {B.replace('1.2', '6')} --max-num-seqs 64"
    data = document(capsys, f"--json {line}")
    assert not data["fits"]
    problem = Problem.model_validate(data["problem"])
    with pytest.raises(Infeasible) as refused:
        plan(problem)
    assert max(row.bytes for row in refused.value.shortfall) == data["short_bytes"] > 0
    first, second = data["models"]  # the first start succeeds, the second one is short
    assert (first["short_bytes"], second["short_bytes"]) == (0, data["short_bytes"])
    needs = [one["cache_bytes"] + one["other_bytes"] for one in (first, second)]
    assert second["found_bytes"] == first["found_bytes"] - needs[0]
    columns = data["contexts"]
    assert list(columns) == ["A first", "B first", "alike"]
    assert columns["A first"]["A"] >= columns["alike"]["A"] >= columns["B first"]["A"]
    assert columns["B first"]["B"] == 8192
    for lengths in columns.values():  # each fits, and the model in turn could not have more
        assert _fits(data["problem"], lengths)
    assert not _fits(data["problem"], {"A": columns["A first"]["A"] + 16, "B": 1})


def _fits(problem: dict[str, Any], lengths: dict[str, int]) -> bool:
    changed = json.loads(json.dumps(problem))
    for request in changed["batches"][0]["requests"]:
        request["capacity"] = lengths[request["name"]]
    try:
        plan(Problem.model_validate(changed))
    except Infeasible:
        return False
    return True


def test_explain_names_the_model_that_is_short(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = A.replace("15.3", "60") + f" {B.replace('1.2', '6')} --max-num-seqs 64"
    done = run(capsys, line)
    assert "# the models do not fit on the card as asked: " in done.out
    (tmp_path / "both.yaml").write_text(done.out)
    told = run_kvplan(capsys, "explain", "both.yaml")
    assert told.code == 1
    assert "A: --max-model-len (request A: a capacity of " in told.out
    assert "variants.B: --enforce-eager" in told.out or "B: --enforce-eager" in told.out
    assert "tensor-parallel" not in told.out


def test_an_automatic_length_is_what_the_sharing_leaves(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = A.replace("15.3", "62").replace("32768", "auto") + f" {B.replace('8192', 'auto')}"
    data = document(capsys, f"--json {line}")
    assert [model["asked_tokens"] for model in data["models"]] == [40960, 40960]
    assert not data["fits"]
    lengths = [start["flags"]["--max-model-len"] for start in data["starts"]]
    assert lengths == [str(data["contexts"]["alike"][label]) for label in ("A", "B")]
    first = document(capsys, f"--json --share priority {line}")
    assert first["starts"][0]["flags"]["--max-model-len"] == str(data["contexts"]["A first"]["A"])


def test_a_given_utilization_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    line = f"{A} --gpu-memory-utilization 0.4 {B} --gpu-memory-utilization 0.5"
    data = document(capsys, f"--json {line}")
    assert data["fits"]
    assert [one["taken_bytes"] for one in data["starts"]] == [CARD * 4 // 10, CARD // 2]
    answer = plan(Problem.model_validate(data["problem"]))
    alone = document(capsys, f"--json {A} --gpu-memory-utilization 0.4")
    assert str(answer.blocks["A"]) == alone["figures"]["num_gpu_blocks"]


def test_shares_above_the_card_are_refused_as_the_second_start_would_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = f"{A} --gpu-memory-utilization 0.6 {B} --gpu-memory-utilization 0.5"
    done = run(capsys, line)
    assert "their shares add up to 1.1; " in done.out
    data = document(capsys, f"--json {line}")
    assert not data["fits"]
    assert data["short_bytes"] > 0
    assert not data["contexts"]


def test_its_own_share_may_be_too_small(capsys: pytest.CaptureFixture[str]) -> None:
    data = document(capsys, f"--json {A} --gpu-memory-utilization 0.25 {B}")
    assert not data["fits"]
    assert data["models"][0]["alone_short_bytes"] > 0 == data["models"][1]["alone_short_bytes"]
    (row,) = {(row.rank, row.bytes) for row in _refusal(data["problem"]) if row.rank == "A share"}
    assert row[1] == data["models"][0]["short_bytes"] == data["models"][0]["alone_short_bytes"]


def _refusal(problem: dict[str, Any]) -> Any:
    with pytest.raises(Infeasible) as refused:
        plan(Problem.model_validate(problem))
    return refused.value.shortfall


def test_sglang_counts_from_what_is_free_at_its_start(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "--json Qwen3-8B.json --gpu h100-80gb --weights-gib 15.3 -- "
        "python -m sglang.launch_server --model a --context-length 8192 "
        "--and small.json --weights-gib 1.2 -- python -m sglang.launch_server --model b "
        "--context-length 8192"
    )
    data = document(capsys, line)
    answer = plan(Problem.model_validate(data["problem"]))
    weights = {"A": int(Fraction("15.3") * GIB), "B": int(Fraction("1.2") * GIB)}
    for start in data["starts"]:
        share = Fraction(start["flags"]["--mem-fraction-static"])
        before = start["free_bytes"] - 600 * 2**20
        rest = int(share * before) - weights[start["model"]]
        bytes_by = next(p for p in data["problem"]["pools"] if p["name"] == start["model"])["bytes"]
        assert rest // bytes_by["card"] >= answer.blocks[start["model"]]
        assert rest - start["cache_bytes"] <= before // 10_000 + 1


def test_a_draft_shares_its_target_s_context_and_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = (
        "--json Qwen3-8B.json --gpu rtx4090 --weights-gib 8 -- llama-server -c 16384 -np 1 "
        "--and-draft small.json --weights-gib 0.6 --cache-type-k q8_0 --cache-type-v q8_0"
    )
    data = document(capsys, line)
    assert data["fits"]
    request = data["problem"]["batches"][0]["requests"][0]
    assert (request["capacity"], request["caches"]) == (16384, ["A", "A draft"])
    terms = data["problem"]["ranks"][0]["memory"]["other"]
    assert [term for term in terms if "CUDA context" in term] == ["A CUDA context (estimated)"]
    answer = plan(Problem.model_validate(data["problem"]))
    assert answer.blocks["A"] == answer.blocks["A draft"] == 64
    q8 = 28 * 2 * 8 * 128 * 34 // 32 * 256
    draft = next(pool for pool in data["problem"]["pools"] if pool["name"] == "A draft")
    assert sum(one["bytes"]["card"] for one in draft["buffers"]) == q8
    flags = [dict(start["flags"]) for start in data["starts"]]
    assert flags == [{"--ctx-size": "16384"}, {"--ctx-size-draft": "16384"}]


def test_on_one_memory_the_system_is_charged_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "--json Qwen3-8B.json --gpu apple64gb --weights-gib 8 -- llama-server -c 16384 -np 1 "
        "--and small.json --weights-gib 0.6 -- llama-server -c 16384 -np 1"
    )
    data = document(capsys, line)
    terms = data["problem"]["ranks"][0]["memory"]["other"]
    assert [size for term, size in terms.items() if "reach" in term] == [16 * GIB]
    assert data["starts"][0]["free_bytes"] == 48 * GIB


def test_the_card_may_stand_in_any_group(capsys: pytest.CaptureFixture[str]) -> None:
    bare = A.replace("--gpu h100-80gb ", "")
    later = B.replace("--weights-gib 1.2", "--weights-gib 1.2 --gpu h100-80gb")
    first = document(capsys, f"--json {A} {B}")
    assert document(capsys, f"--json {bare} {later}") == first


@pytest.mark.parametrize("flag", ["--gpu h100-80gb", "--gpu=h100-80gb", "--total 80GiB"])
def test_a_card_behind_the_engine_s_line_is_told_where_it_belongs(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    bare = A.replace("--gpu h100-80gb ", "")
    for line in (f"{bare} {B} {flag}", f"{bare} {flag}", f"{A} {flag}"):
        done = run(capsys, line)
        assert (done.code, done.out) == (2, "")
        option = flag.replace("=", " ").split()[0]
        assert done.err.startswith(f"{option}: expected it before -- and the engine's line")
        assert done.err.count("\n") == 1
    assert run(capsys, f"{A} --gpu 0.9").code == 0  # vLLM's --gpu-memory-utilization, shortened


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("Qwen3-8B.json --and small.json", "--gpu: "),
        (f"{A} --and", "CONFIG.json: expected a model's config behind --and,"),
        ("--and small.json", "CONFIG.json: expected a model's config before the first --and,"),
        (f"{A} {B.replace('small.json', 'small.json --gpu h200')}", "--gpu: "),
        (f"{A} {B.replace('small.json', 'small.json --json')}", "--json: "),
        (f"--optimize {A} {B}", "--optimize: "),
        (f"--share best {A} {B}", "--share: "),
        (f"--share joint {A}", "--share: "),
        (f"{A} --and-draft small.json --weights-gib 1", "--and-draft: "),
        (f"{A} -tp 2 {B}", "--and: "),
        (f"{A} -pp 2 {B} -pp 2", "--and: "),
        (f"{A} {B} --kv-cache-memory-bytes 8GiB", "--kv-cache-memory-bytes: "),
        (f"{A} {B} --no-such-flag 1", "--no-such-flag: "),
        (f"{A} --and small.json --engine atom --weights-gib 1", "--engine: "),
        (
            f"{A} --and small.json --weights-gib 1 -- sglang serve b --mem-fraction-static 0.5",
            "--mem-fraction-static: ",
        ),
    ],
)
def test_what_is_ambiguous_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], line: str, path: str
) -> None:
    done = run(capsys, line)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(path)
    assert done.err.count("\n") == 1
