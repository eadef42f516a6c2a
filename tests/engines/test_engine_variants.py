"""Variants and labels of SGLang, llama.cpp, TensorRT-LLM and ATOM: flags to paste."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.registry import engine_named
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver.explain import explain
from support.shapes import CONFIGS

CASES = {
    "llama.cpp": ("Meta-Llama-3.1-70B", "--ctx-size 131072 --available 24GiB"),
    "llama.cpp sequences": ("Qwen3-32B", "--ctx-size 65536 --parallel 4 --available 10GiB"),
    "tensorrt-llm": (
        "Qwen3.5-27B",
        "--max_seq_len 131072 --max_batch_size 512 --constraint_policy FIT_TO_QUOTA "
        "--available 3.11GiB",
    ),
    "atom": ("Qwen3.6-27B-NVFP4", "--max-num-seqs 512 --available 20GiB"),
    "sglang": (
        "Qwen3.5-27B",
        "--max-mamba-cache-size 512 --max-running-requests 128 --speculative-algorithm NEXTN "
        "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 "
        "--available 50GiB",
    ),
    "sglang share": (
        "Qwen3-8B",
        "--mem-fraction-static 0.5 --free-before-load 79GiB --free-after-load 40GiB",
    ),
}
"""Launches, and by engine what its remedies say (SPOKEN)."""
SPOKEN = {
    "llama.cpp": ("--ctx-size 78592 (", "variant --cache-type-k q8_0 --cache-type-v q8_0"),
    "llama.cpp sequences": ("variant --cache-type-k q8_0 --cache-type-v q8_0",),
    "tensorrt-llm": ("variant --max_batch_size 16",),
    "atom": ("--max-num-seqs 273 (", "variant --tensor-parallel-size 2"),
    "sglang": ("variant --max-mamba-cache-size ",),
}


def built(case: str, more: str = "") -> Problem:
    model, flags = CASES[case]
    adapter = engine_named(case.split()[0])
    given = read_settings(adapter.FLAGS, [*flags.split(), *more.split()], {})
    problem: Problem = adapter.build(read_architecture(CONFIGS[model]), given)
    return problem


@pytest.mark.parametrize("case", CASES)
def test_each_variant_is_the_problem_of_its_flags(case: str) -> None:
    asked = built(case)
    assert asked.variants
    data = asked.model_dump(mode="json", exclude_unset=True)
    for entry in asked.variants:
        changed = Problem.model_validate(apply_overrides(data, entry.set))
        other = built(case, entry.name)
        for section in ("ranks", "pools", "caches", "batches", "constraints", "fill"):
            assert getattr(changed, section) == getattr(other, section), entry.name


@pytest.mark.parametrize("case", SPOKEN)
def test_remedies_speak_the_flags_of_the_engine(case: str) -> None:
    with pytest.raises(Infeasible) as refusal:
        explain(built(case))
    texts = [remedy.text for remedy in refusal.value.remedies]
    for said in SPOKEN[case]:
        assert any(text.startswith(said) for text in texts), texts


def test_the_share_of_sglang_is_its_flag() -> None:
    asked = built("sglang share")
    assert asked.labels == {"ranks.*.memory.utilization": "--mem-fraction-static"}
    names = [entry.name for entry in asked.variants]
    assert names[:2] == ["--mem-fraction-static 0.9", "--mem-fraction-static 0.95"]
    assert "labels" not in built("sglang").model_fields_set
