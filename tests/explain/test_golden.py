"""Real refusals, as the command line explains them; the figures are worked out here again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.solver import plan
from support.cases import CASES
from support.cli import run_kvplan

HERE = Path(__file__).parent
GIB, MIB = 2**30, 2**20

SLOT = 2_330_461  # bytes of a Strata expert slot: 2.2225 MiB, rounded up
STRATA_REST = int(15.4 * GIB) - 2048 * 1_806_592 - 1_400_000_000 - 700 * MIB
CACHE_FIRST = STRATA_REST // SLOT
"""Slots of a cache that takes all that is free before the prompt buffers are priced."""

GOLDEN: dict[str, tuple[Path, tuple[str, ...]]] = {
    "strata_765": (
        CASES["strata_765"],
        (f"experts.min_slots={CACHE_FIRST}", "prefill.min=24576"),
    ),
    "atom_heavy_rank": (HERE / "cases/atom_heavy_rank.yaml", ()),
    "vllm_27508": (CASES["vllm_gpt_oss_27508"], ("batches.longest.requests.long.fit=none",)),
    "trtllm_fixed": (
        CASES["trtllm_fit_to_quota"],
        ("batches.decode.requests.long.fit=none", "batches.decode.requests.long.history=null"),
    ),
    "vllm_metal_505": (HERE / "cases/vllm_metal_505.yaml", ()),
    "two_phases": (HERE / "cases/two_phases.yaml", ()),
    "sm70_startup": (HERE / "cases/sm70_startup.yaml", ()),
}


def refusal_of(name: str) -> Infeasible:
    path, overrides = GOLDEN[name]
    with pytest.raises(Infeasible) as caught:
        plan(Problem.load(path, overrides))
    return caught.value


def remedies_of(name: str) -> dict[str, int | str]:
    return {remedy.change: remedy.to for remedy in refusal_of(name).remedies}


@pytest.mark.parametrize("name", GOLDEN)
def test_a_refusal_reads_as_it_did(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run with KVPLAN_WRITE_GOLDEN=1 to write the texts anew; then read them."""
    path, overrides = GOLDEN[name]
    flags = [part for text in overrides for part in ("--set", text)]
    done = run_kvplan(capsys, "explain", path, *flags)
    assert (done.code, done.err) == (1, "")
    golden = HERE / "golden" / f"{name}.txt"
    if os.environ.get("KVPLAN_WRITE_GOLDEN"):
        golden.write_text(done.out, encoding="utf-8")
    assert done.out == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", GOLDEN)
def test_every_remedy_makes_the_real_case_fit(name: str) -> None:
    path, overrides = GOLDEN[name]
    refusal = refusal_of(name)
    assert refusal.conflict
    assert refusal.remedies
    for remedy in refusal.remedies:
        if not remedy.change.startswith("variants"):
            plan(Problem.load(path, (*overrides, f"{remedy.change}={remedy.to}")))


def test_strata_gives_back_the_slots_that_the_staging_needs() -> None:
    """The cache took 4,592 slots; beside the staging of 24,576 tokens 3,565 fit."""
    staging = (64 * MIB + 74 * 1024 * 24_576) + -(-4_422_775 * MIB // 10_000)
    slots = (STRATA_REST - staging) // SLOT
    found = remedies_of("strata_765")
    assert found["experts.min_slots"] == slots == 3565
    short = CACHE_FIRST * SLOT + staging - STRATA_REST
    assert found["ranks.gpu.quota"] == int(15.4 * GIB) + short
    kinds = {claim.kind for claim in refusal_of("strata_765").conflict}
    assert {"expert floor", "staging", "request", "quota"} <= kinds


def test_atom_count_that_fits_is_computed_for_the_heavy_rank() -> None:
    total = int(287.98 * GIB)
    headroom = -(-8 * total // 100)
    free = 55 * GIB - headroom
    pages = 512 * 1_399_040  # 131,072 tokens in pages of 256
    refusal = refusal_of("atom_heavy_rank")
    found = remedies_of("atom_heavy_rank")
    slots = (free - pages) // 101_600_598 - 1  # the longest request holds one, too
    assert found["batches.serving.requests.slots.count"] == slots
    assert {entry.rank for entry in refusal.shortfall} == {"tp3"}
    stuck = [entry for entry in refusal.ruled_out if entry.change.endswith("utilization")]
    assert {entry.change for entry in stuck} >= {"ranks.*.memory.utilization"}
    assert any("rank tp3 is bound by free memory, raising it does" in e.reason for e in stuck)


def test_vllm_27508_names_the_length_that_fits_and_the_bytes_that_lack() -> None:
    quota, needed = 171 * GIB // 100, (8192 + 73) * 589_824
    found = remedies_of("vllm_27508")
    assert found["batches.longest.requests.long.capacity"] == (quota // 589_824 - 73) * 16 == 48_624
    assert found["ranks.gpu.quota"] == needed


def test_trtllm_fixed_workload_needs_what_fixed_would_silently_take() -> None:
    found = remedies_of("trtllm_fixed")
    assert found["ranks.gpu.quota"] == 1_126_170_624
    assert found["batches.decode.requests.long.capacity"] == 57_984


def test_vllm_metal_505_inverts_the_window_and_not_a_line() -> None:
    quota, windows = 2013 * GIB // 100, 64 * 13_107_200
    found = remedies_of("vllm_metal_505")
    capacity = found["batches.one.requests.long.capacity"]
    assert capacity == (quota - windows) // 1_310_720 * 16 == 253_600
    assert quota // (60 * 16 * 1024) != capacity
    assert 23_984 * 10 < 253_600


def test_two_phases_lack_bytes_in_prefill_only() -> None:
    refusal = refusal_of("two_phases")
    assert {(entry.rank, entry.phase) for entry in refusal.shortfall} == {("last", "prefill")}
    kinds = [claim.kind for claim in refusal.conflict]
    assert "quota" in kinds
    assert "graphs" not in " ".join(claim.text for claim in refusal.conflict)
    changes = {remedy.change: remedy.to for remedy in refusal.remedies}
    assert changes["variants.fp8"] == "fp8"
    assert "variants.eager" not in changes
    assert "ranks.first.quota" not in changes
