"""What vLLM derives when a launch does not say it, by version and card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.models import InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.vllm.launch.server import server_of
from kvplan.solver import plan
from support.vllm_server import CONFIGS, TOKENS, architecture, served, settings, speculative

GIB = 2**30
SUPER: dict[str, Any] = {
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 88,
    "hybrid_override_pattern": "ME" * 40 + "*" * 8,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "conv_kernel": 4,
    "chunk_size": 128,
    "max_position_embeddings": 262_144,
    "vocab_size": 131_072,
}
"""The geometry of Nemotron-3-Super-120B-A12B: 40 states, 8 attention layers, 40 of experts."""
DERIVED = {**SUPER, "mamba_ssm_cache_dtype": "float32"}


def card(gpu: str, total_gib: int, flags: str = "") -> Settings:
    common = {"gpu": gpu, "total_bytes": total_gib * GIB, "weights_bytes": GIB}
    return read_settings(vllm.FLAGS, flags.split(), common)


def nemotron(flags: str, config: dict[str, Any] | None = None) -> str:
    known = read_architecture(config or DERIVED)
    given = settings(f"--tensor-parallel-size 8 --max-model-len 8192 --available 20GiB {flags}")
    problem = vllm.build(known, given)
    return vllm.figures(known, given, problem, plan(problem))[TOKENS]


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ("", 2_294_215),
        ("--engine-version 0.32.0", 2_294_215),
        ("--no-enable-prefix-caching", 3_176_605),
        ("--engine-version 0.25.1", 3_176_605),
        ("--engine-version 0.25.1 --enable-prefix-caching", 860_330),
        ("--engine-version 0.26.0", 860_330),
        ("--engine-version 0.27.0 --mamba-cache-mode align", 2_294_215),
        ("--engine-version 0.28.0", 2_294_215),
        ("--prefill-checkpoint-blocks 1", 5041 * 8192 // 23),
    ],
)
def test_hybrids_keep_states_by_the_mode_of_the_version(flags: str, tokens: int) -> None:
    assert nemotron(flags) == f"{tokens:,} tokens"


@pytest.mark.parametrize(
    ("version", "mode"),
    [("0.20.0", "align"), ("0.22.0", "all"), ("0.24.0", "align")],
)
def test_bamba_has_mode_all_up_to_0_23_but_not_with_a_draft_in_0_20(
    version: str, mode: str
) -> None:
    from kvplan.models.engines.vllm.launch.speculation import Speculation
    from kvplan.models.engines.vllm.launch.state_defaults import state_mode
    from kvplan.models.engines.vllm.launch.versions import version_of

    known = Architecture("BambaForCausalLM", "bamba", "bfloat16", jamba_layers(), 32, 4096)
    given = settings(f"--engine-version {version} --enable-prefix-caching")
    draft = Speculation("ngram", 3) if version == "0.20.0" else Speculation()
    assert state_mode(given, version_of(version), known, draft).value == mode


def jamba_layers() -> Any:
    return architecture("Jamba-v0.1").layers


@pytest.mark.parametrize(("version", "dtype_bytes"), [("0.19.0", 2), ("0.20.0", 4), ("0.33.0", 4)])
def test_nemotron_h_states_without_a_dtype(version: str, dtype_bytes: int) -> None:
    given = settings(f"--engine-version {version} --available 9GiB --tensor-parallel-size 8")
    spec = next(s for s in server_of(read_architecture(SUPER), given).specs if s.kind == "mamba")
    assert spec.state_bytes == 3 * 1280 * 2 + 16 * 64 * 128 * dtype_bytes


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        ("", 498_068),
        ("--engine-version 0.28.0", 580_836),
        ("--engine-version 0.29.0", 498_068),
        ("--no-async-scheduling", 580_836),
    ],
)
def test_the_v2_runner_keeps_one_batch_more_than_stages(flags: str, tokens: int) -> None:
    base = "--dtype bfloat16 --max-model-len 32768 --pipeline-parallel-size 2 --available 10GiB"
    figures, _ = served("gpt-oss-20b", f"{base} {flags}")
    assert figures[TOKENS] == f"{tokens:,} tokens"


@pytest.mark.parametrize(
    ("version", "model", "method", "batches"),
    [
        ("0.33.0", "gpt-oss-20b", "suffix", 2),
        ("0.33.0", "gpt-oss-20b", "ngram", 3),
        ("0.31.0", "gpt-oss-20b", "ngram", 2),
        ("0.28.0", "gemma-3-27b-it", None, 3),
        ("0.28.0", "gpt-oss-20b", None, 2),
    ],
)
def test_batches_in_flight_by_runner(
    version: str, model: str, method: str | None, batches: int
) -> None:
    """On two stages: 3 under V2, 2 under V1; dense models run V2 from 0.26 on."""
    more = speculative(method, 2) if method else ()
    flags = f"--engine-version {version} --dtype bfloat16 --pipeline-parallel-size 2"
    given = settings(f"{flags} --available 10GiB", *more)
    assert server_of(architecture(model), given).serving.batches_in_flight == batches


@pytest.mark.parametrize(("version", "window"), [("0.28.0", 4096), ("0.29.0", 4097)])
def test_windows_of_cohere_2_include_their_edge(version: str, window: int) -> None:
    config = {
        "model_type": "cohere2",
        "torch_dtype": "bfloat16",
        "num_hidden_layers": 8,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "hidden_size": 4096,
        "sliding_window": 4096,
        "sliding_window_pattern": 4,
        "max_position_embeddings": 8192,
    }
    given = settings(f"--engine-version {version} --available 9GiB")
    specs = server_of(read_architecture(config), given).specs
    assert {spec.reach for spec in specs if spec.kind == "window"} == {window}


@pytest.mark.parametrize("version", ["0.19.0", "0.20.0"])
def test_0_20_0_prints_tokens_as_0_19_does(version: str) -> None:
    flags = f"--engine-version {version} --max-model-len 8192 --max-num-batched-tokens 8192"
    figures, answer = served("gemma-3-27b-it", f"{flags} --available 20GiB")
    assert figures[TOKENS] == f"{answer.blocks['paged'] // 7 * 16:,} tokens"
    later, _ = served("gemma-3-27b-it", f"{flags} --available 20GiB --engine-version 0.20.1")
    assert later[TOKENS] != figures[TOKENS]


ODD: dict[str, Any] = {
    "model_type": "gemma4_text",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 80,
    "global_head_dim": 128,
    "sliding_window": 512,
    "max_position_embeddings": 8192,
    "layer_types": ["sliding_attention"] * 5 + ["full_attention"],
}
"""Windows of 320 elements a token beside full layers of 512: no page divides the other."""


@pytest.mark.parametrize(
    ("flags", "groups"),
    [
        ("--engine-version 0.24.0", True),
        ("--engine-version 0.25.1", True),
        ("--engine-version 0.25.1 --attention-backend FLASHINFER", False),
        ("--engine-version 0.23.0", False),
        ("--engine-version 0.26.0 --attention-backend FLASHINFER", True),
    ],
)
def test_odd_pages_are_padded_where_the_backend_is_strided(flags: str, groups: bool) -> None:
    given = settings(f"--available 9GiB {flags}")
    if groups:
        pages = {g.spec.page_bytes for g in server_of(read_architecture(ODD), given).layout.groups}
        assert pages == {16 * 2 * 2 * 128 * 2}
        return
    with pytest.raises(InvalidProblem, match="pages that divide the largest one"):
        server_of(read_architecture(ODD), given)


@pytest.mark.parametrize(
    ("gpu", "total_gib", "version", "step", "requests"),
    [
        ("H100-80GB", 79, "0.33.0", 8192, 1024),
        ("A100-80GB", 79, "0.33.0", 2048, 256),
        ("L4", 22, "0.33.0", 2048, 256),
        ("B200", 178, "0.28.0", 16_384, 1024),
        ("B200", 178, "0.27.0", 8192, 1024),
        ("MI300X", 191, "0.33.0", 16_384, 1024),
        ("H200", 139, "0.33.0", 8192, 1024),
    ],
)
def test_steps_and_requests_by_card(
    gpu: str, total_gib: int, version: str, step: int, requests: int
) -> None:
    from kvplan.models.engines.vllm.launch.defaults import sequences, step_tokens
    from kvplan.models.engines.vllm.launch.versions import version_of

    given, number = card(gpu, total_gib), version_of(version)
    assert step_tokens(given, number).value == step
    assert sequences(given, number).value == requests


@pytest.mark.parametrize(
    ("flags", "step", "requests"),
    [
        ("--max-num-batched-tokens 512", 512, 512),
        ("--max-num-seqs 1 --max-model-len 4096", 4096, 1),
        ("--performance-mode throughput", 16_384, 2048),
        ("--no-enable-chunked-prefill --max-model-len 128k", 128_000, 1024),
    ],
)
def test_steps_and_requests_bound_each_other(flags: str, step: int, requests: int) -> None:
    from kvplan.models.engines.vllm.launch.defaults import sequences
    from kvplan.models.engines.vllm.launch.versions import version_of

    given = card("H100-80GB", 79, flags)
    serving = server_of(architecture("Meta-Llama-3.1-8B"), given).serving
    assert serving.batch_tokens == step
    assert sequences(given, version_of("0.33.0")).value == requests


@pytest.mark.parametrize(("version", "share"), [("0.19.0", "9/10"), ("0.20.0", "23/25")])
def test_the_share_of_the_card_by_version(version: str, share: str) -> None:
    given = card("H100-80GB", 79, f"--engine-version {version}")
    memory = vllm.build(architecture("Meta-Llama-3.1-8B"), given).ranks[0].memory
    assert memory is not None
    assert str(memory.utilization) == share


EAGLE = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "hidden_size": 7168,
    "num_hidden_layers": 1,
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "head_dim": 128,
    "max_position_embeddings": 262_144,
    "torch_dtype": "bfloat16",
}


def kimi_blocks(tmp_path: Path, version: str, **keys: str) -> int:
    path = tmp_path / "draft.json"
    path.write_text(json.dumps(EAGLE))
    data = {"method": "eagle3", "model": str(path), "num_speculative_tokens": 3, **keys}
    flags = (
        f"--engine-version {version} --kv-cache-dtype fp8 --block-size 32 --available 16152285184"
    )
    flags += " --tensor-parallel-size 4 --max-model-len 131072"
    _, answer = served("Kimi-K2-Instruct", flags, "--speculative-config", json.dumps(data))
    return answer.blocks["paged"]


def test_the_kv_dtype_holds_for_the_draft_too(tmp_path: Path) -> None:
    """61 x 18,432 + 131,072 = 1,255,424 B a block."""
    assert kimi_blocks(tmp_path, "0.19.0") == 12_866
    assert kimi_blocks(tmp_path, "0.29.0", kv_cache_dtype="bfloat16") == 16152285184 // (
        61 * 18_432 + 262_144
    )


def test_a_draft_key_of_a_later_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblem, match=r"kv_cache_dtype: expected no kv_cache_dtype"):
        kimi_blocks(tmp_path, "0.25.1", kv_cache_dtype="auto")
    with pytest.raises(InvalidProblem, match=r"kv_cache_dtyp: .*'kv_cache_dtype'.*unknown key"):
        kimi_blocks(tmp_path, "0.29.0", kv_cache_dtyp="auto")


def test_the_checkpoint_may_ask_for_an_fp8_cache() -> None:
    quantised = {"quantization_config": {"quant_method": "modelopt", "kv_cache_quant_algo": "FP8"}}
    config = {**CONFIGS["Qwen3-8B"], **quantised}
    given = settings("--available 9GiB")
    fp8 = server_of(read_architecture(config), given).layout.block_bytes(0)
    assert 2 * fp8 == server_of(architecture("Qwen3-8B"), given).layout.block_bytes(0)
    lines = vllm.assumptions(read_architecture(config), given)
    assert "--kv-cache-dtype: fp8 (the checkpoint's quantization_config)" in lines


def test_what_was_assumed_is_listed_with_its_reason() -> None:
    lines = vllm.assumptions(read_architecture(DERIVED), settings("--available 20GiB"))
    assert "--enable-prefix-caching: True (hybrids: on from 0.26)" in lines
    assert "--mamba-cache-mode: align (prefix caching from 0.28)" in lines
    told = settings("--available 20GiB --engine-version 0.25.1 --max-model-len 8192")
    plain = vllm.assumptions(architecture("Meta-Llama-3.1-8B"), told)
    assert plain == ()


def test_estimates_have_a_range_and_are_rows_of_the_budget() -> None:
    common = {"gpu": "H100-80GB", "total_bytes": 79 * GIB, "weights_bytes": 16 * GIB}
    given = read_settings(vllm.FLAGS, [], {**common, "total_is_estimated": True})
    lines = vllm.assumptions(architecture("Meta-Llama-3.1-8B"), given)
    (graphs,) = [line for line in lines if line.startswith("graphs")]
    assert graphs == "graphs: 1.00 GiB, estimated (64.00 MiB to 2.50 GiB); --graphs"
    ledger = plan(vllm.build(architecture("Meta-Llama-3.1-8B"), given)).ranks[0].ledger
    sources = {line.consumer: line.source for line in ledger}
    assert sources["total"] == sources["graphs (estimated)"] == "estimated"
