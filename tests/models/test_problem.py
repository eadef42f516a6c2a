"""Valid problems: defaults, short and long forms, and the way there and back."""

from __future__ import annotations

import copy
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.models import Problem
from kvplan.models.elastic import Prefill, Staging
from kvplan.models.reading.references import known_variables
from support.rich import FLYING, RICH, STAGED

GIB = 2**30


def problem(**sections: Any) -> Problem:
    return Problem.model_validate({"ranks": [{"name": "r0", "quota": 1000}], **sections})


def stage(**fields: Any) -> Staging:
    return Staging.model_validate({"name": "s", **fields})


def chunks(**fields: Any) -> tuple[int, ...]:
    return Prefill.model_validate(fields).candidates


def test_every_section_but_ranks_may_be_left_out() -> None:
    least = problem()
    assert least.version == 1
    assert least.tokens_per_block == 16
    assert least.resume_utilization == 1
    for section in ("pools", "caches", "batches", "consumers", "choices", "constraints", "goals"):
        assert getattr(least, section) == ()
    for section in ("prefill", "experts", "fill"):
        assert getattr(least, section) is None
    assert least.stages == (0,)
    assert least.phases == ("load", "prefill", "decode")


def test_one_pool_may_be_left_out_of_its_caches() -> None:
    one = problem(pools=[{"name": "p", "bytes": 5}], caches=[{"name": "c", "kind": "full"}])
    assert one.pool_of(one.caches[0]) == "p"


def test_a_buffer_is_the_short_form_of_a_pool() -> None:
    short = problem(pools=[{"name": "p", "bytes": "1KiB", "granule": "2MiB"}]).pools[0]
    long = problem(pools=[{"name": "p", "buffers": [{"bytes": 1024, "granule": 2**21}]}]).pools[0]
    assert short.layout == long.layout
    assert problem(pools=[{"name": "p", "bytes": 1}]).pools[0].layout[0].granule == 1


def test_keys_by_stage_may_be_numbers_or_text() -> None:
    ranks = [{"name": "a", "quota": 1}, {"name": "b", "stage": 1, "quota": 1}]
    for keys in ((0, 1), ("0", "1")):
        by_stage = dict(zip(keys, ("1KiB", 0), strict=True))
        pools = [{"name": "p", "bytes": by_stage}]
        assert problem(ranks=ranks, pools=pools).pools[0].bytes == {"0": 1024, "1": 0}
        experts = {"slot_bytes": 1, "layers": dict(zip(keys, (2, 0), strict=True))}
        read = problem(ranks=ranks, experts=experts).experts
        assert read is not None
        assert read.layers == {"0": 2, "1": 0}


def test_consumers_by_rank_name_and_stage() -> None:
    figures = {"r0": "1KiB", 0: 7}
    assert problem(consumers=[{"name": "c", "bytes": figures}]).consumers[0].bytes == {
        "r0": 1024,
        "0": 7,
    }


def test_phases_are_the_built_in_ones_and_those_that_are_named() -> None:
    named = problem(
        consumers=[{"name": "c", "bytes": 1, "phases": ["encode", "prefill"]}],
        choices=[{"name": "x", "options": [{"name": "a", "phases": ["capture"]}, {"name": "b"}]}],
    )
    assert named.phases == ("load", "prefill", "decode", "encode", "capture")


@pytest.mark.parametrize("written", ["0.97", '"0.97"', '"97/100"', "97e-2"])
def test_an_exact_fraction_through_yaml_json_and_python(written: str) -> None:
    text = f'{{"ranks": [{{"name": "r", "quota": 1}}], "resume_utilization": {written}}}'
    exact = Fraction(97, 100)
    assert Problem.parse(text).resume_utilization == exact
    assert Problem.parse(f"# yaml\n{text}").resume_utilization == exact
    assert Problem.model_validate_json(text).resume_utilization == exact
    assert Problem.model_validate_json(text.encode()).resume_utilization == exact
    assert problem(resume_utilization=0.97).resume_utilization == exact


@pytest.mark.parametrize("name", RICH)
def test_a_problem_survives_the_way_through_plain_data(name: str) -> None:
    original = Problem.model_validate(RICH[name])
    for exclude_unset in (True, False):
        dumped = original.model_dump(mode="json", exclude_unset=exclude_unset)
        again = Problem.model_validate(dumped)
        assert again == original
        assert again.model_dump(mode="json", exclude_unset=exclude_unset) == dumped
        assert Problem.parse(json.dumps(dumped)) == original
        assert Problem.parse(yaml.safe_dump(dumped)) == original
        assert Problem.model_validate_json(json.dumps(dumped)) == original


@pytest.mark.parametrize("name", RICH)
def test_json_and_yaml_files_give_equal_problems(name: str, tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(RICH[name]))
    (tmp_path / "p.yaml").write_text(yaml.safe_dump(RICH[name]))
    expected = Problem.model_validate(RICH[name])
    assert Problem.load(tmp_path / "p.json") == expected
    assert Problem.load(str(tmp_path / "p.yaml")) == expected
    changed = Problem.load(tmp_path / "p.json", ("ranks.*.stage=0", "name=x", *UNSTAGED[name]))
    assert changed.name == "x"
    assert changed.stages == (0,)


UNSTAGED = {
    "staged": (
        "pools.0.buffers.0.bytes=1",
        "experts.layers=1",
        "consumers.0.bytes=1",
        "choices.0.options.1.bytes=1",
    ),
    "flying": (),
    "placed": (),
}
UNSTAGED["mixed"] = (*UNSTAGED["staged"], "pools.2.bytes=64")


@pytest.mark.parametrize("name", RICH)
def test_a_problem_travels_between_processes(name: str) -> None:
    original = Problem.model_validate(RICH[name])
    assert pickle.loads(pickle.dumps(original)) == original
    assert copy.deepcopy(original) == original


def test_tuples_are_lists_and_a_problem_is_its_own_input() -> None:
    listed = Problem.model_validate(STAGED)
    tupled = Problem.model_validate({**STAGED, "ranks": tuple(STAGED["ranks"])})
    assert tupled == listed
    assert Problem.model_validate(listed) == listed
    assert Problem(**{**FLYING, "ranks": Problem.model_validate(FLYING).ranks}).ranks[0].memory


def test_requests_default_to_one_token_in_flight() -> None:
    requests = [
        {"capacity": 10},
        {"capacity": 0, "count": 512},
        {"capacity": 10, "history": 10},
        {"capacity": 10, "history": 0, "name": "fresh"},
    ]
    batch = problem(batches=[{"name": "b", "requests": requests}]).batches[0]
    assert [r.history_tokens for r in batch.requests] == [9, 0, 10, 0]
    assert [r.flight_tokens for r in batch.requests] == [1, 0, 0, 10]
    assert [r.least_capacity for r in batch.requests] == [1, 1, 1, 10]


@pytest.mark.parametrize(
    ("request_fields", "least"),
    [
        ({"capacity": 10}, 1),
        ({"capacity": 10, "history": 2}, 8),
        ({"capacity": 10, "min_capacity": 4}, 4),
        ({"capacity": 10, "history": 2, "min_capacity": 4}, 8),
        ({"capacity": 10, "history": 10}, 1),
    ],
)
def test_the_lower_bound_of_a_fitted_capacity(request_fields: Any, least: int) -> None:
    requests = [{"fit": "capacity", **request_fields}]
    fitted = problem(batches=[{"name": "b", "requests": requests}])
    assert fitted.batches[0].requests[0].least_capacity == least
    assert list(fitted.fitted("capacity")) == ["b.0"]


def test_known_variables() -> None:
    known = known_variables(Problem.model_validate(STAGED))
    assert [name for name, why in known.items() if not why] == [
        "blocks:paged",
        "blocks:state",
        "capacity:fitted",
        "count:slots",
        "prefill",
        "experts",
        "choice:scratch",
        "choice:scratch=dense",
        "choice:scratch=tiled",
        "copies:chat",
        "copies:many",
    ]
    assert known["capacity:long"] == "a request with fit: capacity"


def test_a_name_may_hold_any_sign_a_variable_uses() -> None:
    requests = [{"name": "a=b:c", "capacity": 9, "fit": "capacity"}]
    odd = problem(batches=[{"name": "b", "requests": requests}], goals=["capacity:a=b:c"])
    assert odd.goals[0].single == "capacity:a=b:c"


@pytest.mark.parametrize(
    ("fields", "candidates"),
    [
        ({"requested": 100}, (100,)),
        ({"requested": 100, "min": 40}, tuple(range(40, 101))),
        ({"requested": 100, "step": 30}, (30, 60, 90, 100)),
        ({"requested": 100, "min": 10, "step": 45}, (10, 55, 100)),
        ({"requested": 100, "step": 200}, (100,)),
        ({"requested": 100, "min": 100, "step": 7}, (100,)),
        ({"requested": 100, "chunks": [20, 50]}, (20, 50, 100)),
        ({"requested": 100, "chunks": [20, 100]}, (20, 100)),
    ],
)
def test_the_requested_chunk_is_always_a_candidate(
    fields: Any, candidates: tuple[int, ...]
) -> None:
    assert chunks(**fields) == candidates


@pytest.mark.parametrize(
    ("fields", "chunk", "staged"),
    [
        ({"base": 10, "per_token": "64KiB"}, 3, 10 + 3 * 65536),
        ({"per_token": "0.3KiB"}, 10, 3072),
        ({"per_token": "0.3KiB"}, 11, 3380),  # 3379.2, rounded up once
        ({"per_token": "1/3"}, 100, 34),
        ({"per_token": 0.1, "base": 5}, 10, 6),
        ({"per_token": "1/3", "granule": 16}, 100, 48),
        ({"base": "0.3B"}, 1, 1),
        ({"per_token": 0}, 9, 0),
        ({"table": [[10, 5], [20, "1KiB"]]}, 1, 5),
        ({"table": [[10, 5], [20, "1KiB"]]}, 10, 5),
        ({"table": [[10, 5], [20, "1KiB"]]}, 11, 1024),
        ({"table": [[10, 5], [20, "1KiB"]], "granule": "1MiB"}, 20, 2**20),
    ],
)
def test_staging_is_exact_and_rounded_up_once(fields: Any, chunk: int, staged: int) -> None:
    assert stage(**fields).bytes_of(chunk) == staged


def test_defaults_may_be_written_out() -> None:
    caches = [
        {"name": "a", "kind": "window", "window": 8, "keep": "live", "sink": 0, "in_flight": 1},
        {"name": "b", "kind": "window", "window": 8, "in_flight_per": "request", "scratch": None},
        {"name": "c", "kind": "full", "shards": 1, "window": None, "keep": None},
        {"name": "d", "kind": "window", "window": 8, "keep": "in_flight", "sink": 0},
    ]
    read = problem(pools=[{"name": "p", "bytes": 1}], caches=caches)
    assert [cache.retention for cache in read.caches] == ["live", "peak", "full", "in_flight"]


def test_tokens_of_a_block_are_those_of_all_shards() -> None:
    caches = [
        {"name": "a", "kind": "full", "shards": 4},
        {"name": "b", "kind": "full", "tokens_per_block": 64},
    ]
    read = problem(tokens_per_block=32, pools=[{"name": "p", "bytes": 1}], caches=caches)
    assert [read.block_tokens(cache) for cache in read.caches] == [128, 64]


def test_a_thousand_requests_are_read() -> None:
    requests = [{"name": f"q{i}", "capacity": 1000 + i} for i in range(1024)]
    data = {
        "ranks": [{"name": "r", "quota": "80GiB"}],
        "pools": [{"name": f"p{i}", "bytes": 1000 + i} for i in range(9)],
        "caches": [{"name": f"c{i}", "pool": f"p{i}", "kind": "full"} for i in range(9)],
        "batches": [{"name": "b", "requests": requests}],
    }
    assert len(Problem.model_validate(data).batches[0].requests) == 1024
