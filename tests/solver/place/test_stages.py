"""Pipeline partitions: published cases, the oracle, CP-SAT."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Any

import pytest

from kvplan.models.errors import InvalidProblem
from kvplan.solver.cpsat.stages import LayerRow, even_partition, partition_with
from kvplan.solver.oracle.pipeline_cuts import best_blocks, best_in_any_order, blocks_of
from kvplan.solver.place.constrained import best_under
from kvplan.solver.place.search.device_order import best_order
from kvplan.solver.place.search.pipeline_stages import (
    Partition,
    Pipeline,
    Reach,
    Stages,
    best_partition,
)
from support.placement import pipelines, stages_of

CASES = pipelines()


def oracle_layers(stages: Stages) -> list[tuple[int, tuple[int, ...]]]:
    return list(zip(stages.layer_bytes, zip(*stages.columns, strict=True), strict=True))


def held(stages: Stages, counts: tuple[int, ...]) -> int:
    ends = (stages.first, stages.last)
    layers = oracle_layers(stages)
    return blocks_of(layers, stages.limits, counts, ends, stages.draft_columns)


@pytest.mark.parametrize("source", CASES)
def test_published_cases_to_the_block_and_layer(source: str) -> None:
    case = CASES[source]
    best = best_partition(stages_of(case["figures"]))
    assert best == Partition(tuple(case["best"]["partition"]), case["best"]["blocks"])


@pytest.mark.parametrize("source", CASES)
def test_engines_partitions_hold_what_they_were_found_to_hold(source: str) -> None:
    case = CASES[source]
    stages, page = stages_of(case["figures"]), case["figures"]["tokens_per_block"]
    for counts, tokens in case["engine"].values():
        blocks = held(stages, tuple(counts))
        assert (blocks * page if blocks >= 0 else None) == tokens


@pytest.mark.parametrize("source", CASES)
def test_cpsat_refutes_one_block_more(source: str) -> None:
    case = CASES[source]
    stages, blocks = stages_of(case["figures"]), case["best"]["blocks"]
    order = range(len(stages.limits))
    assert partition_with(stages, order, blocks) is not None
    assert partition_with(stages, order, blocks + 1) is None


def drawn(count: int, seed: int) -> Iterator[Stages]:
    """Small pipelines: layers without a cache, groups, drafts and quotas that are too small."""
    draw = random.Random(seed)
    for _ in range(count):
        layers, groups = draw.randint(2, 8), draw.randint(1, 2)
        places = draw.randint(1, min(4, layers))
        columns = [[draw.randint(0, 4) for _ in range(layers)] for _ in range(groups)]
        columns[0][-1] = 1
        yield Stages(
            tuple(draw.randint(1, 30) for _ in range(layers)),
            tuple(map(tuple, columns)),
            tuple(draw.randint(20, 160) for _ in range(places)),
            draw.randint(0, 10),
            draw.randint(0, 10),
            tuple(draw.randint(0, 3) for _ in range(groups)) if draw.random() < 0.3 else (),
        )


def largest(stages: Stages, counts: tuple[int, ...]) -> int:
    sums = [0, *accumulate(stages.layer_bytes)]
    return max(sums[j] - sums[i] for i, j in pairwise((0, *accumulate(counts))))


def test_the_oracle_agrees_on_random_pipelines() -> None:
    infeasible = 0
    for stages in drawn(600, seed=1):
        want = best_blocks(
            oracle_layers(stages), stages.limits, (stages.first, stages.last), stages.draft_columns
        )
        best = best_partition(stages)
        if best is None:
            assert want[0] == -1
            infeasible += 1
            continue
        assert (best.blocks, largest(stages, best.layers)) == want
        assert held(stages, best.layers) == best.blocks
    assert infeasible > 50


def test_cpsat_agrees_on_random_pipelines() -> None:
    for stages in drawn(150, seed=2):
        best, order = best_partition(stages), range(len(stages.limits))
        if best is None:
            assert partition_with(stages, order, 0) is None
            continue
        assert partition_with(stages, order, best.blocks + 1) is None
        even = even_partition(stages, order, best.blocks)
        assert even is not None
        assert largest(stages, even) == largest(stages, best.layers)


def test_any_order_agrees_with_every_order() -> None:
    for stages in drawn(150, seed=3):
        if stages.draft_columns:
            continue
        ends = (stages.first, stages.last)
        layers, found = oracle_layers(stages), best_order(stages)
        want = best_in_any_order(layers, stages.limits, ends)
        if found is None:
            assert want == -1
            continue
        order, best = found
        limits = [stages.limits[stage] for stage in order]
        assert best.blocks == want == blocks_of(layers, limits, best.layers, ends)


def test_equal_stages_keep_their_order() -> None:
    stages = Stages((10,) * 6, ((1,) * 6,), (100, 100, 100))
    found = best_order(stages)
    assert found is not None
    assert found[0] == (0, 1, 2)


def test_too_many_stages_in_free_order() -> None:
    stages = Stages((1,) * 20, ((1,) * 20,), tuple(range(100, 110)))
    with pytest.raises(InvalidProblem, match="at most 9 stages in free order, got 10"):
        best_order(stages)


def test_a_stage_that_finds_no_layer_behind_the_longest_prefix_takes_a_shorter_one() -> None:
    """The longest prefix leaves the third stage a layer that it cannot hold."""
    stages = Stages((16, 12, 5, 14, 5), ((0, 1, 2, 2, 1),), (93, 125, 86, 151), 4, 6)
    cuts = Reach(Pipeline(stages), 40).cuts(range(4), sum(stages.layer_bytes))
    assert cuts.fits
    best = best_partition(stages)
    assert best is not None
    assert best.blocks == 40


def test_every_stage_holds_an_anchor() -> None:
    """Layers 0 to 3 keep nothing: vLLM divides by a stage's pages, so it needs one that does."""
    stages = Stages((1,) * 6, ((0, 0, 0, 0, 1, 1),), (100, 100), anchors=(4, 5))
    best = best_partition(stages)
    assert best is not None
    assert best.layers == (5, 1)


def test_linear_rows_on_layers() -> None:
    case: dict[str, Any] = next(iter(CASES.values()))
    stages = stages_of(case["figures"])
    least = LayerRow((1, 0), least=9, most=9)
    found = best_under(stages, [least])
    assert found is not None
    assert found.layers == (9, 31)
    assert found.blocks == held(stages, (9, 31))
    assert best_under(stages, [LayerRow((1, 0), least=39)]) is None
    assert best_under(stages, []) == best_partition(stages)
