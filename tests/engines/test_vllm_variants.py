"""Variants that come with vLLM's problem: flags to paste, verified by explain."""

from __future__ import annotations

import pytest

from kvplan.models import Infeasible, Problem
from kvplan.models.engines import vllm
from kvplan.models.engines.alternatives import variant
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.reading.overrides import apply_overrides
from kvplan.solver import plan
from kvplan.solver.explain import explain
from support.vllm_server import architecture, problem, settings

GIB = 2**30
LLAMA = "--tensor-parallel-size 8 --max-model-len 131072 --available 3.11GiB"
A3 = "--kv-cache-dtype fp8 --max-model-len 131072 --available 1.90GiB --max-num-seqs 256"


def remedies(asked: Problem) -> list[str]:
    with pytest.raises(Infeasible) as refusal:
        explain(asked)
    return [remedy.text for remedy in refusal.value.remedies]


def applied(asked: Problem, name: str) -> Problem:
    (entry,) = [one for one in asked.variants if one.name == name]
    data = asked.model_dump(mode="json", exclude_unset=True)
    return Problem.model_validate(apply_overrides(data, entry.set))


def test_an_fp8_cache_alone_fits_llama_70b() -> None:
    asked = problem("Meta-Llama-3.1-70B", LLAMA)
    texts = remedies(asked)
    assert any(text.startswith("variant --kv-cache-dtype fp8 (163,040 tokens)") for text in texts)
    assert plan(applied(asked, "--kv-cache-dtype fp8")).blocks["paged"] == 10_190


def test_a_remedy_speaks_the_flags_of_the_engine() -> None:
    texts = remedies(problem("Meta-Llama-3.1-70B", LLAMA))
    assert any(text.startswith("--max-model-len 81504 (") for text in texts)


def test_states_that_are_too_few_are_met_by_fewer_requests() -> None:
    asked = problem("Qwen3.6-35B-A3B-NVFP4", f"{A3} --engine-version 0.25.0")
    assert any("variant --max-num-seqs 95 (" in text for text in remedies(asked))
    assert any("variant --enforce-eager (" in text for text in remedies(asked))


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("Meta-Llama-3.1-70B", LLAMA),
        ("gpt-oss-20b", "--dtype bfloat16 --available 4GiB --pipeline-parallel-size 2"),
        ("Qwen3-Next-80B-A3B-Thinking", "--available 9GiB --max-num-seqs 16"),
        ("gemma-3-27b-it", "--available 9GiB --max-model-len 8192"),
    ],
)
def test_each_variant_is_the_problem_of_its_flags(model: str, flags: str) -> None:
    asked = problem(model, flags)
    assert asked.variants
    for entry in asked.variants:
        words = [*flags.split(), *entry.name.split()]
        other = vllm.build(architecture(model), read_settings(vllm.FLAGS, words, {}))
        changed = applied(asked, entry.name)
        for section in ("ranks", "pools", "caches", "batches"):
            assert getattr(changed, section) == getattr(other, section), entry.name


def test_variants_of_an_estimated_budget_change_its_terms() -> None:
    common = {"gpu": "L4", "total_bytes": 22 * GIB, "weights_bytes": 15 * GIB}
    given = read_settings(vllm.FLAGS, [], common)
    asked = vllm.build(architecture("Meta-Llama-3.1-8B"), given)
    names = [entry.name for entry in asked.variants]
    assert names == [
        "--gpu-memory-utilization 0.95",
        "--gpu-memory-utilization 0.98",
        "--max-num-batched-tokens 1024",
        "--enforce-eager",
        "--kv-cache-dtype fp8",
        "--tensor-parallel-size 2",
    ]
    memory = applied(asked, "--enforce-eager").ranks[0].memory
    assert memory is not None
    assert "graphs (estimated)" not in memory.other
    assert asked.labels["ranks.gpu.memory.utilization"] == "--gpu-memory-utilization"


def test_twice_the_ranks_hold_half_the_weights_each() -> None:
    common = {"gpu": "L4", "total_bytes": 22 * GIB, "weights_bytes": 15 * GIB + 1}
    asked = vllm.build(architecture("Meta-Llama-3.1-8B"), read_settings(vllm.FLAGS, [], common))
    memory = applied(asked, "--tensor-parallel-size 2").ranks[0].memory
    assert memory is not None
    assert memory.other["weights"] == 15 * GIB // 2 + 1


def test_a_problem_that_does_not_change_has_no_variant() -> None:
    asked = problem("Meta-Llama-3.1-8B", "--available 9GiB")
    assert variant("--x", asked, asked) is None
    assert settings("--available 9GiB")
