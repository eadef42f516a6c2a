"""vLLM's flags: defaults, budgets, block sizes, stages, refusals; and every config on them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.cards import CARDS, total_bytes
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import ENGINES, engine_named
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.models.ranks import RankMemory
from kvplan.solver import oracle, plan
from support.vllm_server import CONFIGS, architecture, problem, served, settings, speculative

GIB = 2**30


@pytest.mark.parametrize("model", sorted(CONFIGS))
def test_every_config_has_a_valid_problem_with_a_plan(model: str) -> None:
    figures, answer = served(model, "--dtype bfloat16 --max-model-len auto --available 40GiB")
    assert answer.status == "optimal"
    assert int(figures["num_gpu_blocks"]) == answer.blocks["paged"] > 0


@pytest.mark.parametrize("model", ["gpt-oss-20b", "Qwen3-Next-80B-A3B-Thinking", "GLM-5.2"])
def test_the_oracle_finds_nothing_in_the_plan(model: str) -> None:
    asked = problem(model, "--dtype bfloat16 --max-model-len 4096 --available 8GiB")
    assert oracle.check(asked, plan(asked)) == []


@pytest.mark.parametrize("said", [{}, {"torch_dtype": "float32"}])
def test_auto_never_runs_in_float32(said: dict[str, str]) -> None:
    """_resolve_auto_dtype of vllm/config/model.py; gpt-oss and MiniMax-M2 name no dtype."""
    config = {**CONFIGS["gpt-oss-120b"], **said}
    flags = "--available 10GiB --max-model-len 4096"
    auto = vllm.build(read_architecture(config), settings(flags))
    assert auto.pools == problem("gpt-oss-120b", f"{flags} --dtype bfloat16").pools
    assert auto.pools != problem("gpt-oss-120b", f"{flags} --dtype float32").pools
    lines = vllm.assumptions(read_architecture(config), settings(flags))
    reason = "says float32" if said else "names no dtype"
    assert f"--dtype: bfloat16 (auto; the config {reason})" in lines


def memory(budget: str) -> RankMemory:
    common = {"gpu": "H100-80GB", "total_bytes": 79 * GIB, "weights_bytes": 16 * GIB}
    given = read_settings(vllm.FLAGS, budget.split(), {**common, "total_is_estimated": True})
    found = vllm.build(architecture("Meta-Llama-3.1-8B"), given).ranks[0].memory
    assert found is not None
    return found


def test_terms_that_nobody_measured_are_estimated_and_say_so() -> None:
    assert list(memory("").other) == [
        "weights",
        "activation (estimated)",
        "non-torch (estimated)",
        "graphs (estimated)",
    ]


def test_measured_terms_have_their_own_fields() -> None:
    found = memory("--activation 1GiB --non-torch 256MiB --graphs 512MiB")
    assert (found.peak_torch, found.non_torch, found.graphs) == (17 * GIB, GIB // 4, GIB // 2)
    assert found.other == {}


def test_the_budget_of_a_log_follows_from_its_terms() -> None:
    """llm-d-incubation/llm-d-planner#205: 79.19 x 0.95 - 14.99 - 1.89 - 0.25, logged 58.11 GiB."""
    common = {"total_bytes": 7919 * GIB // 100, "weights_bytes": 1499 * GIB // 100}
    terms = "--engine-version 0.19.0 --gpu-memory-utilization 0.95 --activation 1.89GiB"
    given = read_settings(vllm.FLAGS, [*terms.split(), "--non-torch", "0.25GiB"], common)
    quota = vllm.build(architecture("Meta-Llama-3.1-8B"), given).ranks[0].quota_bytes
    assert abs(Fraction(quota, GIB) - Fraction("58.11")) <= Fraction("0.01")


def test_the_name_of_the_problem_lists_the_estimates() -> None:
    common = {"total_bytes": 79 * GIB, "weights_bytes": 16 * GIB, "total_is_estimated": True}
    given = read_settings(vllm.FLAGS, ["--non-torch", "1GiB"], common)
    name = vllm.build(architecture("Meta-Llama-3.1-8B"), given).name
    said = name.partition("; estimated: ")[2]
    assert said.startswith("total (78.70 GiB to 79.00 GiB), activation (")
    assert said.endswith(", graphs (64.00 MiB to 2.50 GiB)")


def test_a_row_of_the_budget_has_its_range() -> None:
    common = {"total_bytes": 79 * GIB, "weights_bytes": 16 * GIB, "total_is_estimated": True}
    asked = vllm.build(
        architecture("Meta-Llama-3.1-8B"),
        read_settings(vllm.FLAGS, ["--non-torch", "1GiB"], common),
    )
    rows = {line.consumer: line for line in plan(asked).ranks[0].ledger}
    assert (rows["total"].source, rows["total"].note) == ("estimated", "78.70 GiB to 79.00 GiB")
    assert rows["graphs (estimated)"].note == "64.00 MiB to 2.50 GiB"
    assert (rows["non_torch"].source, rows["non_torch"].note) == ("measured", "")
    assert rows["utilization share"].source == "estimated"


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm", "atom", "llama.cpp"])
def test_every_engine_says_that_a_cards_total_is_an_estimate(engine: str) -> None:
    adapter, known = engine_named(engine), architecture("Qwen3-8B")
    common = {"total_bytes": 79 * GIB, "weights_bytes": 16 * GIB, "total_is_estimated": True}
    given = read_settings(adapter.FLAGS, [], common)
    said = "total (78.70 GiB to 79.00 GiB)"
    assert f"; estimated: {said}" in adapter.build(known, given).name
    assert "total: 79.00 GiB, estimated (78.70 GiB to 79.00 GiB); --total" in (
        adapter.assumptions(known, given)
    )
    measured = read_settings(adapter.FLAGS, ["--available", "9GiB"], common)
    assert "estimated" not in adapter.build(known, measured).name


@pytest.mark.parametrize(
    ("model", "length", "seqs", "logged_gib"),
    [
        ("CodeLlama-7b-hf", 8192, 1024, "0.77"),
        ("Qwen2.5-7B-Instruct", 8192, 1024, "2.21"),
        ("gemma-2-2b-it", 8192, 1024, "3.62"),
        ("gemma-3-4b-it", 8192, 1024, "3.89"),
        ("Meta-Llama-3.1-70B", 8192, 1024, "1.96"),
    ],
)
def test_the_estimated_activation_is_near_the_logged_peak(
    model: str, length: int, seqs: int, logged_gib: str
) -> None:
    from kvplan.models.engines.vllm.budget import activation_estimate

    flags = f"--max-model-len {length} --max-num-seqs {seqs} --max-num-batched-tokens 8192"
    estimate = Fraction(activation_estimate(architecture(model), settings(flags)), GIB)
    assert abs(estimate - Fraction(logged_gib)) < Fraction("0.5")


def test_graphs_are_charged_from_0_21_on() -> None:
    old = memory("--engine-version 0.19.0 --graphs 1GiB")
    assert old.graphs == 0
    assert [term for term in old.other if term.startswith("graphs")] == []


def test_without_a_budget_the_flags_that_would_give_one_are_named() -> None:
    with pytest.raises(InvalidProblem, match="--available or --kv-cache-memory-bytes, or --gpu"):
        problem("Meta-Llama-3.1-8B", "")


@pytest.mark.parametrize(
    ("stages", "partition", "bytes_a_layer"),
    [
        (2, "", [40, 40]),
        (3, "", [26, 27, 27]),
        (4, "--pp-layer-partition 10,20,30,20", [10, 20, 30, 20]),
    ],
)
def test_layers_of_pipeline_stages(stages: int, partition: str, bytes_a_layer: list[int]) -> None:
    """get_pp_indices: what is left goes to the stages before the last, backwards."""
    flags = f"--available 1GiB --pipeline-parallel-size {stages} {partition}"
    layout = server_of(architecture("Meta-Llama-3.1-70B"), settings(flags)).layout
    one = 16 * 8 * 2 * 128 * 2
    found = [layout.block_bytes(stage) // one for stage in range(stages)]
    assert sorted(found) == sorted(bytes_a_layer)
    assert found[-1] == min(found) or partition


def test_a_draft_layer_lies_on_the_last_stage() -> None:
    flags = "--available 1GiB --pipeline-parallel-size 2 --dtype bfloat16"
    given = settings(flags, *speculative("mtp", 1))
    layout = server_of(architecture("MiniMax-M2.5"), given).layout
    one = 16 * 8 * 2 * 128 * 2
    assert [layout.block_bytes(stage) // one for stage in range(2)] == [31, 31 + 3]


@pytest.mark.parametrize(
    ("flags", "blocks"),
    [
        ("", 3),
        ("--no-enable-prefix-caching", 2),
        ("--mamba-cache-mode align", 3),
        ("--enable-prefix-caching", 3),
        ("--engine-version 0.26.0", 3),
        ("--engine-version 0.25.1", 2),
    ],
)
def test_states_of_a_request(flags: str, blocks: int) -> None:
    asked = problem("Qwen3.6-27B-NVFP4", f"--available 9GiB {flags}", *speculative("mtp", 1))
    state = next(cache for cache in asked.caches if cache.kind == "state")
    assert state.blocks == blocks


def test_states_in_mode_all_grow_with_the_length() -> None:
    flags = "--engine-version 0.25.1 --mamba-cache-mode all --available 90GiB"
    asked = problem("Qwen3.6-27B-NVFP4", flags, *speculative("mtp", 2))
    assert {cache.kind for cache in asked.caches} == {"full"}
    assert sorted(cache.extra_blocks for cache in asked.caches) == [0, 2]


def test_context_shards_share_the_tokens_of_full_layers() -> None:
    flags = "--available 10GiB --max-model-len 65536 --tensor-parallel-size 8 --dtype bfloat16"
    one, _ = served("DeepSeek-R1", flags)
    four, answer = served("DeepSeek-R1", f"{flags} --decode-context-parallel-size 4")
    tokens = [int(f["GPU KV cache size"].split()[0].replace(",", "")) for f in (one, four)]
    assert tokens[1] == 4 * tokens[0]
    assert answer.floors["paged"] == 65_536 // 4 // 16


@pytest.mark.parametrize(
    ("model", "flags", "fault"),
    [
        ("Meta-Llama-3.1-8B", "--engine-version 0.9", "a vLLM version"),
        ("Meta-Llama-3.1-8B", "--block-size 10", "a multiple of 16"),
        ("Meta-Llama-3.1-8B", "--max-model-len many", "tokens, or auto"),
        ("Meta-Llama-3.1-8B", "--tensor-parallel-size 3", "a divisor or a multiple of 8 KV heads"),
        ("Meta-Llama-3.1-8B", "--kv-cache-dtype fp8_ds_mla", "a dtype for keys and values"),
        ("DeepSeek-R1", "--kv-cache-dtype nvfp4", "auto or fp8 for MLA"),
        ("gpt-oss-120b", "--dtype bfloat16 --decode-context-parallel-size 2", "vLLM asserts it"),
        ("Qwen3.6-27B-NVFP4", "--tensor-parallel-size 32", "a divisor of"),
        ("Qwen3.6-27B-NVFP4", "--mamba-cache-mode all", "none or align in 0.33.0"),
        ("Meta-Llama-3.1-8B", "--kv-cache-layout BLHNC --engine-version 0.25.1", "LBNHC with"),
        ("Meta-Llama-3.1-8B", "--pipeline-parallel-size 2 --pp-layer-partition 1,2", "sum to 32"),
    ],
)
def test_what_vllm_refuses_is_bad_input_with_its_reason(model: str, flags: str, fault: str) -> None:
    with pytest.raises(InvalidProblem, match=fault):
        problem(model, f"--available 10GiB {flags}")


@pytest.mark.parametrize(
    ("method", "tokens", "fault"),
    [("mtp", 2, "a config with MTP layers"), ("eagle3", 2, "the draft's config.json")],
)
def test_a_draft_that_nothing_describes_is_refused(method: str, tokens: int, fault: str) -> None:
    with pytest.raises(InvalidProblem, match=fault):
        problem("Meta-Llama-3.1-8B", "--available 10GiB", *speculative(method, tokens))


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--blok-size", "16"], "--blok-size: expected a flag of this engine: '--block-size'"),
        (["--block-size"], "--block-size: expected a value"),
        (["--block-size", "x"], "--block-size: expected a whole number"),
        (["--available", "1Gib"], "--available: expected bytes"),
        (["--no-async-scheduling=1"], "--no-async-scheduling: expected no value"),
        (["--kv-cache-dtype", "fp9"], "--kv-cache-dtype: expected 'fp8'"),
    ],
)
def test_flags_that_do_not_read(arguments: list[str], fault: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_settings(vllm.FLAGS, arguments, {})
    assert str(refusal.value).startswith(fault)


def test_every_bad_flag_is_named() -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_settings(vllm.FLAGS, ["--foo", "1", "--bar=2", "--block-size", "16"], {})
    assert [fault.path for fault in refusal.value.faults] == ["--foo", "--bar"]


def test_values_given_and_defaults() -> None:
    given = read_settings(
        vllm.FLAGS,
        ["--available=1GiB", "--available", "2GiB", "--gpu-memory-utilization", "0.95"],
        {},
    )
    assert given["available"] == (GIB, 2 * GIB)
    assert given["gpu_memory_utilization"] == Fraction(95, 100)
    assert given["tensor_parallel_size"] == 1
    assert given.given == {"available", "gpu_memory_utilization"}


def test_cards_by_name() -> None:
    assert total_bytes("h100") == total_bytes("H100-80GB") == 7919 * GIB // 100
    assert total_bytes("rtx4090") == CARDS["RTX 4090"] * GIB // 100
    with pytest.raises(InvalidProblem, match="A100-40GB, A100-80GB"):
        total_bytes("a100")
    with pytest.raises(InvalidProblem, match="--gpu"):
        total_bytes("abacus")


def test_engines_by_name() -> None:
    assert engine_named("vllm") is vllm
    assert len(ENGINES) == 5
    with pytest.raises(InvalidProblem, match="'vllm'"):
        engine_named("vlm")


def test_versions() -> None:
    assert version_of("v0.25.1").text == "0.25.1"
    assert version_of("0.26").flight_counts_batches
    assert not version_of("0.25.9").flight_counts_batches
    for text in ("0.18.9", "0.34.0", "1", "x"):
        with pytest.raises(InvalidProblem, match=r"0\.19 to 0\.33"):
            version_of(text)
