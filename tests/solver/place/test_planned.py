"""Problems with a placement, from the file to the plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.models import Infeasible, InvalidProblem, Plan, Problem
from kvplan.solver import plan
from kvplan.solver.place.trade import frontier
from kvplan.solver.verify import violations
from support.cli import run_kvplan
from support.placement import pipelines, small_mixture

GIB = 2**30


def two_cards(**changes: Any) -> dict[str, Any]:
    """A mixture of 45 layers, two cards and a host."""
    place = {
        "engine": "llama.cpp",
        "order": ["host", "gpu0", "gpu1"],
        "host": "host",
        "layers": [
            {"count": 3, "dense": "251.18MiB", "cache": "full"},
            {
                "count": 42,
                "dense": "131.37MiB",
                "experts": ["765MiB", "765MiB", "765MiB"],
                "active": "8/288",
                "cache": "full",
            },
        ],
        "ends": {"first": {"bytes": "535MiB", "spaces": ["host"]}, "last": {"bytes": "535MiB"}},
        "used": {name: {"base": "1GiB", "per_token": 1024} for name in ("gpu0", "gpu1")},
        "read": {"gpu0": "936GB/s", "gpu1": "360GB/s", "host": "60GB/s"},
    }
    return {
        "ranks": [
            {"name": "gpu0", "quota": "23GiB"},
            {"name": "gpu1", "quota": "11GiB"},
            {"name": "host", "quota": "120GiB"},
        ],
        "pools": [{"name": "kv", "bytes": "64KiB"}],
        "caches": [{"name": "full", "kind": "full"}],
        "batches": [
            {"name": "b", "requests": [{"name": "r", "capacity": 2**22, "fit": "capacity"}]}
        ],
        "place": {**place, **changes},
        "goals": ["capacity:r", "speed"],
        "fill": "none",
    }


def dense_bytes(answer: Plan) -> int:
    assert answer.placement is not None
    return sum(space.layer_bytes for space in answer.placement.spaces)


def test_capacity_first_then_speed() -> None:
    problem = Problem.model_validate(two_cards())
    answer = plan(problem)
    placement = answer.placement
    assert placement is not None
    assert answer.status == "optimal"
    tokens = answer.requests[0].capacity
    assert placement.context_tokens == tokens
    assert violations(problem, answer) == []
    used = {space.name: space for space in placement.spaces}
    for name in ("gpu0", "gpu1"):
        space = used[name]
        assert space.cache_bytes == -(-tokens // 16) * 65536 * space.layers
        assert space.buffer_bytes == GIB + 1024 * tokens


def test_one_token_more_fits_nowhere() -> None:
    data = two_cards()
    tokens = plan(Problem.model_validate(data)).requests[0].capacity
    data["batches"][0]["requests"][0] = {"name": "r", "capacity": tokens + 1}
    data["goals"] = ["speed"]
    with pytest.raises(Infeasible) as refusal:
        plan(Problem.model_validate(data))
    assert {short.rank for short in refusal.value.shortfall} <= {"gpu0", "gpu1", "host"}
    (shorter,) = [r for r in refusal.value.remedies if r.change.endswith("capacity")]
    assert shorter.to == tokens


def test_a_refusal_names_the_variants_that_fit() -> None:
    """Each is solved: smaller rows or a smaller base help, a larger base does not."""
    data = two_cards()
    tokens = plan(Problem.model_validate(data)).requests[0].capacity
    data["batches"][0]["requests"][0] = {"name": "r", "capacity": tokens + 1}
    data["goals"] = ["speed"]
    data["variants"] = [
        {"name": "-ctk q8_0 -ctv q8_0", "set": ["pools.kv.bytes=34KiB"]},
        {"name": "-ub 256", "set": ["place.used.gpu0.base=0", "place.used.gpu1.base=0"]},
        {"name": "-ub 4096", "set": ["place.used.gpu0.base=2GiB"]},
        {"name": "gone", "set": ["ranks.gpu7.quota=99GiB"]},
    ]
    with pytest.raises(Infeasible) as refusal:
        plan(Problem.model_validate(data))
    named = [r.to for r in refusal.value.remedies if r.change.startswith("variants")]
    assert named == ["-ctk q8_0 -ctv q8_0", "-ub 256"]


def test_a_refusal_says_how_many_layers_may_stay() -> None:
    """The nearest bound that fits: one layer more on the card does not."""
    data = two_cards()
    data["batches"][0]["requests"][0] = {"name": "r", "capacity": 65536}
    data["goals"] = ["speed"]
    data["constraints"] = [{"terms": {"layers:gpu1": 1}, "min": 45}]
    with pytest.raises(Infeasible) as refusal:
        plan(Problem.model_validate(data))
    (bound,) = [r for r in refusal.value.remedies if r.change == "constraints[0].min"]
    assert bound.text == f"layers:gpu1: at least {bound.to} instead of 45"
    assert isinstance(bound.to, int)
    for least, fits in ((bound.to, True), (bound.to + 1, False)):
        data["constraints"][0]["min"] = least
        problem = Problem.model_validate(data)
        if fits:
            assert plan(problem).placement is not None
        else:
            with pytest.raises(Infeasible):
                plan(problem)


def test_what_is_short_is_enough_and_a_byte_less_is_not() -> None:
    data = two_cards()
    data["ranks"][2]["quota"] = "40GiB"
    with pytest.raises(Infeasible) as refusal:
        plan(Problem.model_validate(data))
    (host,) = [short for short in refusal.value.shortfall if short.rank == "host"]
    for less, fits in ((0, True), (1, False)):
        data["ranks"][2]["quota"] = 40 * GIB + host.bytes - less
        problem = Problem.model_validate(data)
        if fits:
            assert plan(problem).placement is not None
        else:
            with pytest.raises(Infeasible):
                plan(problem)


def test_layers_first_keep_every_layer_on_a_card() -> None:
    data = two_cards()
    data["goals"] = ["layers_on_gpu", "capacity:r", "speed"]
    answer = plan(Problem.model_validate(data))
    assert answer.placement is not None
    assert answer.placement.spaces[0].layers == 0


def test_speed_first_takes_the_shortest_context() -> None:
    data = two_cards()
    data["batches"][0]["requests"][0]["min_capacity"] = 4096
    data["goals"] = ["speed", "capacity:r"]
    fast = plan(Problem.model_validate(data))
    data["goals"] = ["capacity:r", "speed"]
    long = plan(Problem.model_validate(data))
    assert fast.placement is not None
    assert long.placement is not None
    assert fast.requests[0].capacity < long.requests[0].capacity
    assert (fast.placement.picoseconds or 0) < (long.placement.picoseconds or 0)


def test_the_frontier_falls() -> None:
    points = frontier(Problem.model_validate(two_cards()))
    assert len(points) > 4
    assert points[0].context_tokens == 4096
    times = [point.picoseconds for point in points]
    assert times == sorted(times)


@pytest.mark.parametrize("source", pipelines())
def test_published_pipelines_as_problem_files(source: str) -> None:
    case = pipelines()[source]
    figures, best = case["figures"], case["best"]
    runs = [
        {"count": count, "dense": weight, "cache": {"kv": block}}
        for count, weight, block in figures["layers_count_weight_cacheblock"]
    ]
    data = {
        "ranks": [
            {"name": f"s{at}", "stage": at, "quota": quota}
            for at, quota in enumerate(figures["quota"])
        ],
        "tokens_per_block": figures["tokens_per_block"],
        "pools": [{"name": "kv", "bytes": 1}],
        "caches": [{"name": "kv", "kind": "full"}],
        "place": {
            "engine": "vllm",
            "layers": runs,
            "ends": {
                "first": {"bytes": figures["first_stage"]},
                "last": {"bytes": figures["last_stage"]},
            },
        },
    }
    problem = Problem.model_validate(data)
    answer = plan(problem)
    assert answer.placement is not None
    assert answer.blocks["kv"] == best["blocks"]
    assert answer.placement.flags[0] == best["flag"]
    assert violations(problem, answer) == []
    counts, tokens = case["engine"]["vllm"]
    default = answer.placement.default
    assert default["layers a stage"] == ",".join(map(str, counts))
    if tokens is None:
        assert "out of memory" in default["fits"]
    else:
        assert default["blocks of kv"] == f"{tokens // figures['tokens_per_block']:,}"


def test_a_free_order_names_the_devices() -> None:
    case = pipelines()["vllm-project/vllm#6824"]["figures"]
    data = {
        "ranks": [
            {"name": "small", "quota": 5 * GIB},
            {"name": "large", "stage": 1, "quota": 30 * GIB},
            {"name": "middle", "stage": 2, "quota": 9 * GIB},
        ],
        "pools": [{"name": "kv", "bytes": 327680}],
        "caches": [{"name": "kv", "kind": "full"}],
        "place": {
            "order": "any",
            "engine": "sglang",
            "layers": [{"count": 40, "dense": 630456320, "cache": "kv"}],
            "ends": {"first": {"bytes": 4 * GIB}, "last": {"bytes": case["last_stage"]}},
        },
    }
    problem = Problem.model_validate(data)
    answer = plan(problem)
    assert answer.placement is not None
    order = [space.name for space in answer.placement.spaces]
    assert order != ["small", "large", "middle"]
    assert any(f"CUDA_VISIBLE_DEVICES to {', '.join(order)}" in n for n in answer.placement.notes)
    assert violations(problem, answer) == []


def test_linear_rows() -> None:
    data = two_cards()
    data["constraints"] = [{"terms": {"layers:gpu0": 1}, "max": 20}]
    problem = Problem.model_validate(data)
    answer = plan(problem)
    assert answer.placement is not None
    assert answer.placement.spaces[1].layers <= 20


def test_the_command_prints_flags_that_paste(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(two_cards()))
    outcome = run_kvplan(capsys, "solve", path)
    assert outcome.code == 0, outcome.err
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("set: ")]
    assert line.startswith("set: -fit off -ngl ")
    for word in (" -ts ", " -c ", "--fit", "context against speed", "ms a token"):
        assert word in outcome.out
    dumped = run_kvplan(capsys, "solve", path, "--json")
    answer = json.loads(dumped.out)
    assert answer["placement"]["flags"][0] == "-fit off"
    (tmp_path / "plan.json").write_text(dumped.out)
    assert run_kvplan(capsys, "verify", path, tmp_path / "plan.json").code == 0
    answer["placement"]["spaces"][1]["expert_bytes"] += 1
    (tmp_path / "plan.json").write_text(json.dumps(answer))
    assert run_kvplan(capsys, "verify", path, tmp_path / "plan.json").code == 1


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "host": ({"host": "gpu9"}, "place.host: expected 'gpu1', got 'gpu9'"),
    "order": ({"order": ["gpu0", "gpu1"]}, "place.order: expected every rank, got none for 'host'"),
    "twice": ({"order": ["host", "gpu0", "gpu0", "gpu1"]}, "place.order: expected each rank once"),
    "any": ({"order": "any"}, "place.order: expected ranks in order beside a host"),
    "stages": ({"engine": "vllm"}, "place.engine: expected stages alone"),
    "read": ({"read": {"gpu0": "1GB/s"}}, "place.read: expected bytes a second for each rank"),
    "unit": ({"read": {"gpu0": "fast"}}, 'expected bytes a second, such as "936GB/s"'),
    "hop": ({"read": {"hop": "20 parsecs"}}, 'expected a time such as "20us"'),
    "cache": ({"layers": [{"cache": "none"}]}, "place.layers[0].cache: expected one of full"),
    "left out": ({"layers": [{"dense": 1}]}, "expected a layer with the cache 'full'"),
    "names": ({"layers": [{"experts": [1], "tensors": []}]}, "expected one for each of 1 experts"),
    "none": ({"layers": []}, "place.layers: expected at least one layer"),
    "many": (
        {"layers": [{"count": 10**9, "dense": 1}]},
        "expected at most 1024 layers in all, got",
    ),
    "end": ({"ends": {"last": {"spaces": ["gpu0", "host"]}}}, "expected one space, or none"),
    "used": ({"used": {"gpu7": {}}}, "place.used: expected 'gpu1', got 'gpu7'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line(name: str) -> None:
    changes, message = BAD[name]
    with pytest.raises(InvalidProblem) as error:
        Problem.model_validate(two_cards(**changes))
    assert any(message in str(fault) for fault in error.value.faults), str(error.value)


@pytest.mark.parametrize(
    ("section", "value"),
    [
        ("choices", [{"name": "c", "options": [{"name": "o"}]}]),
        ("experts", {"slot_bytes": 1}),
        ("constraints", [{"terms": {"blocks:kv": 1}, "min": 1}]),
        ("consumers", [{"name": "placed layers", "bytes": 1}]),
        ("fill", {"shares": {"kv": 0.5}}),
        ("pools", [{"name": "kv", "bytes": 1, "granule": 2}]),
    ],
)
def test_what_a_placement_does_not_take_beside_it(section: str, value: Any) -> None:
    with pytest.raises(InvalidProblem, match=section):
        Problem.model_validate({**two_cards(), section: value})


def test_explain_and_explore_as_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(yaml.safe_dump(small_mixture()))
    outcome = run_kvplan(capsys, "explain", path)
    assert outcome.code == 0
    assert "what 1 GiB more buys" in outcome.out
    outcome = run_kvplan(capsys, "explore", path, "--vary", "ranks.gpu0.quota=1500,2500")
    assert outcome.code == 0
    assert outcome.out.startswith("ranks.gpu0.quota,status,blocks:kv,capacity:r,layers:gpu0,")
    outcome = run_kvplan(capsys, "frontier", path, "--goals", "capacity:r,speed")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)


def test_no_request_is_longer_than_the_buffers() -> None:
    """Half a byte a token: the blocks have room for 288 tokens, the buffers for 274."""
    data = small_mixture()
    data["ranks"][0]["quota"] += 225
    problem = Problem.model_validate(data)
    answer = plan(problem)
    assert answer.placement is not None
    (request,) = answer.requests
    assert request.capacity == answer.placement.context_tokens == 274
    assert (request.requested.capacity, request.reduced) == (2_000, True)
    assert violations(problem, answer) == []
    longer = request.model_copy(update={"capacity": 288, "history": 287})
    assert violations(problem, answer.model_copy(update={"requests": (longer,)})) != []
