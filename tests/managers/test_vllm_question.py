"""From vLLM's own objects to a problem: recorded layouts of three versions, without vLLM."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem
from kvplan.models.engines.vllm.pool_problem import POOL
from kvplan.solver import plan
from kvplan.solver.managers.guard import LeftAlone
from kvplan.solver.managers.vllm import question
from support.vllm import Case, cases
from support.vllm_objects import objects

CASES = cases()
STARTED = {name: case for name, case in CASES.items() if "refused" not in case.answer}
UNFIT = {name: case for name, case in CASES.items() if case.answer.get("refused") == "fit"}


def asked(case: Case) -> Any:
    config, specs, available, version = objects(case)
    return question(config, specs, available, version=version)


@pytest.mark.parametrize("name", STARTED)
def test_the_plan_has_the_blocks_that_vllm_sized(name: str) -> None:
    case = STARTED[name]
    answer = plan(asked(case))
    assert [answer.blocks[POOL]] * len(case.data["available"]) == case.for_workers("blocks")
    assert answer.requests[0].capacity == case.answer["length"] or (
        "num_gpu_blocks_override" in case.data
    )


@pytest.mark.parametrize("name", UNFIT)
def test_what_vllm_refuses_is_refused_with_the_length_that_starts(name: str) -> None:
    """The engine's text names the longest length; so does the remedy, in the engine's flag."""
    case = UNFIT[name]
    with pytest.raises(Infeasible) as refused:
        plan(asked(case))
    longest = min(case.for_workers("longest"))
    lengths = [r for r in refused.value.remedies if r.change.endswith(".capacity")]
    assert [remedy.to for remedy in lengths] == ([longest] if longest else [])
    assert all("--max-model-len" in remedy.text for remedy in lengths)


SOME = CASES["windows-000 0.33.0"]


def test_the_cases_are_enough() -> None:
    assert len(STARTED) > 300
    assert len(UNFIT) > 30


def test_nothing_that_is_asked_is_changed() -> None:
    config, specs, available, version = objects(SOME)
    before = repr((config, specs, available))
    question(config, specs, available, version=version)
    assert repr((config, specs, available)) == before


@pytest.mark.parametrize("word", ["SlidingWindowMLASpec", "RSWASpec", "TQFullAttentionSpec"])
def test_an_unknown_class_is_refused_by_name(word: str) -> None:
    config, specs, available, version = objects(SOME)
    first = next(iter(specs[0]))
    known = specs[0][first]
    strange = type(word, (type(known),), {})(**vars(known))
    held = [{**worker, first: strange} for worker in specs]
    with pytest.raises(InvalidProblem, match=rf"kv_cache_specs\.{first}: .*got {word}"):
        question(config, held, available, version=version)


@pytest.mark.parametrize(
    ("field", "value"), [("alignment", 64), ("get_block_stride_alignment", lambda: 4099)]
)
def test_pages_of_an_unknown_stride_are_refused_by_name(field: str, value: Any) -> None:
    config, specs, available, version = objects(SOME)
    for spec in specs[0].values():
        setattr(spec, field, value)
    with pytest.raises(InvalidProblem, match=r"alignment"):
        question(config, specs, available, version=version)


def test_an_unknown_version_is_refused() -> None:
    config, specs, available, _ = objects(SOME)
    with pytest.raises(InvalidProblem, match=r"0\.19 to 0\.33, got .0\.34\.0"):
        question(config, specs, available, version="0.34.0")


def test_workers_that_share_some_layers_are_refused() -> None:
    config, specs, available, version = objects(SOME)
    fewer = dict(list(specs[0].items())[1:])
    with pytest.raises(InvalidProblem, match="none in common"):
        question(config, [specs[0], fewer], available[:2], version=version)


@pytest.mark.parametrize(
    ("where", "value"),
    [("speculative_config", object()), ("hisparse_config", object()), ("grouping", True)],
)
def test_what_is_not_modelled_is_left_alone(where: str, value: object) -> None:
    config, specs, available, version = objects(SOME)
    if where == "speculative_config":
        config.speculative_config = value
    elif where == "hisparse_config":
        config.attention_config.hisparse_config = value
    else:
        config.model_config.supports_kv_cache_grouping = value
    with pytest.raises(LeftAlone):
        question(config, specs, available, version=version)


def test_a_model_without_a_cache_is_left_alone() -> None:
    config, _, available, version = objects(SOME)
    with pytest.raises(LeftAlone, match="without a KV cache"):
        question(config, [{}, {}], available, version=version)


def test_a_worker_with_less_decides() -> None:
    config, specs, available, version = objects(replace(SOME, version="0.25.1"))
    before = plan(question(config, specs, available, version=version)).blocks[POOL]
    less = [available[0] - 3 * (available[0] // before), *available[1:]]
    assert plan(question(config, specs, less, version=version)).blocks[POOL] == before - 3
