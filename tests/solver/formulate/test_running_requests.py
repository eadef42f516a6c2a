"""Bytes of each running request: `per_request` on a consumer."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models import Problem
from kvplan.solver import plan
from kvplan.solver.sweep.by_name import fit
from kvplan.solver.verify import violations
from support.bad import refused as lines
from support.micro import micro, one
from support.solvers import agreed, refused


def each(figure: Any = 7, **fields: Any) -> dict[str, Any]:
    """The section of one consumer with bytes of each running request."""
    return {"consumers": [{"name": "g", "per_request": figure, **fields}]}


def test_a_count_pays_for_what_runs() -> None:
    answer = agreed(micro(100, **one(4, fit="count"), **each(bytes=5)))
    assert (answer.requests[0].count, answer.running) == (5, 5)  # 5 + 5 x (10 + 7)
    (line,) = [line for line in answer.ranks[0].ledger if line.consumer == "g"]
    assert (line.bytes, line.note) == (40, "5 B + 7 B x 5 requests")


def test_the_largest_batch_counts_and_those_without_tokens_run_too() -> None:
    batches = [
        {"name": "a", "requests": [{"capacity": 0, "count": 5}, {"capacity": 4}]},
        {"name": "b", "requests": [{"capacity": 8, "count": 2}]},
    ]
    answer = agreed(micro(100, batches=batches, **each()))
    assert (answer.running, answer.blocks) == (6, {"p": 5})  # 6 x 7 B beside 5 blocks


@pytest.mark.parametrize(
    ("figure", "counts"), [(7, 7), ({"r0": 7}, 7), ({"r1": 7}, 7), ({0: 3, "r1": 14}, 5)]
)
def test_by_rank_and_stage(figure: Any, counts: int) -> None:
    ranks = [{"name": name, "quota": 120} for name in ("r0", "r1")]
    problem = micro(ranks=ranks, **one(4, fit="count"), **each(figure))
    assert agreed(problem).requests[0].count == counts


@pytest.mark.parametrize(("phases", "count"), [(["load"], 10), (["decode"], 8), (["encode"], 8)])
def test_in_some_phases(phases: list[str], count: int) -> None:
    other = {"name": "w", "bytes": 13, "phases": ["decode"]}
    consumers = [*each(3, phases=phases)["consumers"], other]
    answer = agreed(micro(113, **one(4, fit="count"), consumers=consumers))
    assert answer.requests[0].count == (count if phases != ["decode"] else 7)


def test_copies_and_mix_pay_for_each() -> None:
    batch = one(4, count=2)
    answer = agreed(micro(100, **batch, **each(), fill={"batch": "b"}))
    assert (answer.copies, answer.running, answer.blocks) == (2, 4, {"p": 7})
    mix = [{"capacity": 4, "share": 1}, {"capacity": 8, "share": "1/2"}]
    mixed = agreed(micro(100, fill={"mix": mix}, **each()))
    assert mixed.scale is not None
    assert mixed.running == -(-mixed.scale * 3 // 2)
    assert mixed.ranks[0].slack < 10


def test_a_bound_on_copies_holds_running_requests() -> None:
    rows = [{"terms": {"copies:b": 1}, "min": 3}]
    answer = agreed(micro(100, **one(4), **each(), constraints=rows, fill="none"))
    assert (answer.running, answer.blocks) == (3, {"p": 3})
    most = [{"terms": {"copies:b": 1}, "max": 2}]
    assert agreed(micro(100, **one(4), **each(), constraints=most)).blocks == {"p": 9}


def test_a_refusal_names_it_and_what_helps() -> None:
    refusal = refused(micro(100, **one(4, count=6), **each()))
    assert "rank r0 is short by 2 B in prefill" in str(refusal)
    changes = {remedy.change: remedy.to for remedy in refusal.remedies}
    assert changes["consumers.g.per_request"] == 6
    assert changes["batches.b.requests.q.count"] == 5
    texts = [claim.text for claim in refusal.conflict]
    assert "consumer g: 7 B a running request" in texts


def test_nothing_for_each_is_nothing_at_all() -> None:
    answer = agreed(micro(100, **one(4), **each(0, bytes=3)))
    assert (answer.running, answer.digest) == (
        None,
        plan(micro(100, **one(4), consumers=[{"name": "g", "bytes": 3}])).digest,
    )


def test_a_wrong_count_is_found() -> None:
    problem = micro(100, **one(4), **each())
    answer = plan(problem)
    for running in (None, 0):
        wrong = answer.model_copy(update={"running": running})
        assert any("running" in line for line in violations(problem, wrong))


@pytest.mark.parametrize("device", [None, "cpu"])
def test_sweeps_run_together(device: str | None) -> None:
    if device is not None:
        pytest.importorskip("torch", reason="torch is not installed")
    problem = micro(100, **one(4, fit="count", count=9), **each(), resume_utilization="1/2")
    vary: dict[str, Any] = {
        "quota": [40, 100, 200, 300],
        "resume_utilization": ["1/2", "1/2", "1", "3/4"],
    }
    swept = fit(problem, vary, device=device)
    assert swept.notes == ()
    assert swept.blocks.shape == (4, 1)
    for row, (quota, share) in enumerate(zip(*vary.values(), strict=True)):
        data = problem.model_dump(mode="json", exclude_unset=True)
        data |= {"ranks": [{"name": "r0", "quota": quota}], "resume_utilization": share}
        answer = plan(Problem.model_validate(data))
        assert swept.counts[row, 0] == answer.requests[0].count
        assert swept.blocks[row, 0] == answer.blocks["p"]


@pytest.mark.parametrize(
    ("consumers", "line"),
    [
        (each(-1)["consumers"], "consumers[0].per_request: expected bytes of at least 0, got -1"),
        (each({"x": 1})["consumers"], "consumers[0].per_request.x: expected a stage or a rank"),
        (
            [*each()["consumers"], {"name": "f", "fraction": 0.5, "of": "g"}],
            "consumers[1].of: expected a consumer without per_request, whose bytes are known",
        ),
    ],
)
def test_bad_input_is_one_line(consumers: list[Any], line: str) -> None:
    data = micro().model_dump(mode="json", exclude_unset=True)
    (told,) = lines({**data, "consumers": consumers})
    assert told.startswith(line)
