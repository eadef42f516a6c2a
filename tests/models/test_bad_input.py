"""Bad input as a whole: a line for each mistake, however many, however hostile."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from kvplan.models import Infeasible, InvalidProblem, Problem, Shortfall
from kvplan.models.reading.faults import MOST_FAULTS
from support.bad import refused, small
from support.rich import FLYING, STAGED, Path, replaced


def test_every_mistake_has_its_line() -> None:
    data = small(
        tokens_per_block=0,
        pools=[{"name": "p", "bytes": "x"}, {"name": "q", "bytes": -1}],
        batches=[{"name": "b", "requests": [{"capacity": -1, "fit": "all"}]}],
        zzz=1,
    )
    paths = [line.partition(":")[0] for line in refused(data)]
    assert paths == [
        "tokens_per_block",
        "pools[0].bytes",
        "pools[1].bytes",
        "batches[0].requests[0].capacity",
        "batches[0].requests[0].fit",
        "zzz",
    ]


def test_many_mistakes_are_cut_short() -> None:
    for section in ("pools", "choices"):
        lines = refused(small(**{section: [{"name": "same", "bytes": 1, "options": []}] * 999}))
        assert len(lines) == MOST_FAULTS + 1
        assert lines[-1] == f"expected at most {MOST_FAULTS} faults, got more"


HOSTILE: list[tuple[Path, Any]] = [
    (("tokens_per_block",), 10**5000),
    (("resume_utilization",), 10**5000),
    (("name",), "\ud800"),
    (("name",), "x" * 10**6),
    (("ranks", 0, "name"), "\x1b[31mred"),
    (("ranks", 0, "name"), "a\u2028b"),
    (("ranks", 0, "quota"), "9" * 10**6),
    (("goals", 0), "capacity:" + "x" * 10**6),
    (("goals", 0), "\ud800\n"),
    (("pools", 0, "buffers", 0, "bytes"), {"\n": 1}),
    (("consumers", 0, "bytes"), {"x" * 10**6: 1}),
    (("constraints", 0, "terms"), {"\ud800\n": 1}),
    (("fill", "batch"), "y" * 200),
    (("caches", 0, "pool"), "z" * 200),
]


@pytest.mark.parametrize(("at", "value"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_values_leave_a_short_line(at: Path, value: Any) -> None:
    for line in refused(replaced(STAGED, at, value)):
        assert line.isprintable()
        assert len(line) < 400


def test_many_long_names_leave_a_short_line() -> None:
    pools = [{"name": f"{index}" * 100, "bytes": 1} for index in range(10, 99)]
    (line,) = refused(small(pools=pools, caches=[{"name": "c", "kind": "full", "pool": "zz"}]))
    assert len(line) < 400
    assert line.endswith("..., got 'zz'")


def test_values_that_are_too_deep_or_endless_are_shown_in_short() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    endless: list[Any] = []
    endless.append(endless)
    for value in (deep, endless, {"a": endless}):
        for at in (("ranks",), ("version",), ("ranks", 0, "quota"), ("goals", 0), ("fill",)):
            assert refused(replaced(STAGED, at, value))


def test_errors_travel_between_processes() -> None:
    with pytest.raises(InvalidProblem) as caught:
        Problem.model_validate(small(zzz=1, tokens_per_block=0))
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.deepcopy(caught.value)):
        assert again.faults == caught.value.faults
        assert str(again) == str(caught.value)
    short = Infeasible(["r0 lacks 5 B", "r1 lacks 6 B"], [Shortfall("r0", "decode", 5)])
    again = pickle.loads(pickle.dumps(short))
    assert (again.reasons, again.shortfall, again.ranks) == (short.reasons, short.shortfall, ())
    assert str(again) == "r0 lacks 5 B\nr1 lacks 6 B"


def test_however_it_is_built_the_error_is_the_same() -> None:
    builds: list[Callable[[], Problem]] = [
        lambda: Problem(**FLYING | {"ranks": []}),
        lambda: Problem.parse("ranks: []"),
        lambda: Problem.model_validate_json('{"ranks": []}'),
    ]
    for build in builds:
        with pytest.raises(InvalidProblem, match="ranks: expected at least one rank"):
            build()
