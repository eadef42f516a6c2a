"""How engines share layers out, on published partitions."""

from __future__ import annotations

import pytest

from kvplan.models.engines.checkpoint.stage_weights import even_weights, stage_weights
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.partitions import (
    all_on_last,
    before_last,
    first_ones,
    largest_remainder,
    last_ones,
)
from support.placement import pipelines, public_cases

RULES = {
    "vllm": before_last,
    "vllm_46217": last_ones,
    "sglang_before_13282": all_on_last,
    "sglang_first": first_ones,
    "sglang_last": last_ones,
}


@pytest.mark.parametrize("source", pipelines())
@pytest.mark.parametrize("rule", RULES)
def test_engines_share_layers_out_as_published(source: str, rule: str) -> None:
    case = pipelines()[source]
    layers = sum(count for count, *_ in case["figures"]["layers_count_weight_cacheblock"])
    stages = len(case["figures"]["quota"])
    assert RULES[rule](layers, stages) == case["engine"][rule][0]


@pytest.mark.parametrize("rule", [before_last, last_ones, first_ones, all_on_last])
def test_no_layer_is_lost(rule: object) -> None:
    assert callable(rule)
    for layers in range(1, 100):
        for stages in range(1, min(layers, 12) + 1):
            counts = rule(layers, stages)
            assert (len(counts), sum(counts)) == (stages, layers)
            assert min(counts) == layers // stages


def test_the_last_stage_never_takes_a_left_over_layer_in_vllm() -> None:
    assert before_last(61, 4) == [15, 15, 16, 15]
    assert before_last(94, 8) == [11, 12, 12, 12, 12, 12, 12, 11]
    assert before_last(63, 4) == [16, 16, 16, 15]


def test_exo_goes_by_largest_remainder_and_overfills_a_small_node() -> None:
    case = public_cases()["exo-explore/exo#2227"]
    counts = largest_remainder(case["figures"]["layers"], case["figures"]["memory_GB"])
    assert counts == case["engine"]["split"]
    small = counts[-1] * case["figures"]["layer_GB"]
    assert round(small, 2) == case["engine"]["small_node_GB"]


def tensors() -> Weights:
    sizes = {
        "model.embed_tokens.weight": 1000,
        "model.layers.0.mlp.weight": 10,
        "model.layers.1.mlp.weight": 21,
        "model.layers.2.eh_proj.weight": 7,
        "model.norm.weight": 3,
        "lm_head.weight": 900,
        "visual.blocks.0.weight": 50,
    }
    return Weights(sizes, sum(sizes.values()), "test")


def model(layers: int = 2) -> Architecture:
    return Architecture("Test", "test", "bfloat16", (), layers, 0, vocabulary=10, hidden_dim=5)


def test_weights_by_stage() -> None:
    known = stage_weights(tensors(), model(), 2)
    assert known is not None
    assert (known.layers, known.first, known.last) == ((5, 11), 525, 452)
    assert known.on([1, 1]) == [530, 463]


def test_a_draft_brings_its_own_embedding_to_the_last_stage() -> None:
    known = stage_weights(tensors(), model(), 1, draft=True)
    assert known is not None
    assert known.last == 903 + 7 + 1000


def test_tied_heads_are_an_embedding_on_both_ends() -> None:
    weights = tensors()
    sizes = {name: size for name, size in weights.tensors.items() if name != "lm_head.weight"}
    known = stage_weights(Weights(sizes, 0, "test"), model(), 1)
    assert known is not None
    assert (known.first, known.last) == (1050, 1003)


def test_without_tensors_layers_are_alike() -> None:
    known = even_weights(1200, model(), 1)
    assert known.is_estimated
    assert (known.layers, known.first, known.last) == ((500, 500), 100, 100)
    assert stage_weights(Weights({}, 1200, "test"), model(), 1) is None
