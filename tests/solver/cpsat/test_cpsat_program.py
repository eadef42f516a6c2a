"""The integer program against the rules: its solutions are exactly the points that break none."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import pytest

from kvplan.kernels.demand import Demand
from kvplan.kernels.instance import Instance
from kvplan.kernels.values import Point, copies_held
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.program import chunks as chunks_module
from kvplan.solver.cpsat.program.constraints import add_copies
from kvplan.solver.cpsat.program.decision_variables import create_variables
from kvplan.solver.cpsat.program.domains import Domains
from kvplan.solver.cpsat.program.given_needs import Given
from kvplan.solver.cpsat.program.needs import Needs
from kvplan.solver.cpsat.program.program import build_program, least_point
from support.instance import instance_of, windows
from support.micro import cache, micro, one, pool
from support.points import keeps_every_rule
from support.solutions import at, solutions


def crude(instance: Instance) -> Domains:
    """Bounds that need no thought: what each variable could take of a whole budget."""
    usable = []
    for index, limits in enumerate(instance.pools):
        rows = [row for row in instance.budgets if row.pools and row.pools[index]]
        most = min(row.limit_bytes // sum(s for s, _ in row.pools[index]) for row in rows)
        usable.append(most if limits.most is None else min(most, limits.most))
    experts = instance.experts
    slots = 0 if experts is None else 100 // min(size for _, size in experts.sizes)
    if experts is not None and experts.most is not None:
        slots = min(slots, experts.most)
    return Domains(
        fitted=tuple(20 if f.most is None else f.most for f in instance.fitted),
        chunks=len(instance.chunks),
        experts=slots,
        least_usable=tuple(limits.least for limits in instance.pools),
        usable=tuple(usable),
    )


def every_point(instance: Instance, box: Domains) -> set[Point]:
    """Each point of a box that breaks no rule."""
    demand = Demand(instance)
    fitted = [range(f.least, top + 1) for f, top in zip(instance.fitted, box.fitted, strict=True)]
    slots = range(box.experts + 1)
    found = set()
    for sizes in product(*fitted):
        capacities = tuple(
            f.capacity if f.is_count else v for f, v in zip(instance.fitted, sizes, strict=True)
        )
        counts = tuple(
            v if f.is_count else f.requests for f, v in zip(instance.fitted, sizes, strict=True)
        )
        for chunk, options, usable, experts, kept in product(
            range(box.chunks),
            product(*map(range, instance.choices)),
            product(*(range(most + 1) for most in box.usable)),
            slots,
            slots,
        ):
            point = Point(capacities, counts, chunk, options, experts, kept, usable)
            if keeps_every_rule(instance, demand, point):
                found.add(point)
    return found


def modelled_points(instance: Instance) -> set[Point]:
    """Each solution of the integer program, as a point."""
    program = build_program(instance)
    found = set()
    for values in solutions(program.model):
        program.model.hints = [*values]
        found.add(program.point())
    return found


def fitted(capacity: int = 14, flight: int = 1, prefix: int = 0, **fields: Any) -> dict[str, Any]:
    """One request whose capacity is fitted, with some tokens in flight behind a prefix."""
    sizes = {"capacity": capacity, "history": capacity - flight}
    request = {"name": "q", "fit": "capacity", **sizes, **fields}
    return {"batches": [{"name": "b", "shared_prefix": prefix, "requests": [request]}]}


PREFILL = {"requested": 9, "min": 1, "step": 3, "staging": [{"name": "s", "per_token": 3}]}
SCRATCH = {"scratch": {"fraction": "1/3", "max_rewind": 2}}
OPTIONS = [{"name": "x", "bytes": 31}, {"name": "y", "bytes": 12, "phases": ["decode"]}]
PAIR = [{"name": "p", "bytes": 10}, {"name": "s", "bytes": 7}]
SIZED = [[1, 20], [2, 9], [4, 4]]

NEEDS: dict[str, dict[str, Any]] = {
    "full": fitted(count=2),
    "full, groups and extra": {**cache(kind="full", groups=2, extra_blocks=1), **fitted(9)},
    "live": {"caches": windows(3, 5), **fitted()},
    "live, sink": {"caches": windows(2, 3, sink=3), **fitted(flight=4)},
    "live, nothing in flight": {"caches": windows(4, 1), **fitted(flight=0, count=3)},
    "live, scratch": {"caches": windows(2, 3, **SCRATCH), **fitted(flight=9)},
    "live, scratch and sink": {"caches": windows(2, 2, sink=3, **SCRATCH), **fitted(flight=12)},
    "full, prefix": fitted(16, prefix=6),
    "live, prefix": {"caches": windows(2, 4), **fitted(16, prefix=7)},
    "live, prefix and scratch": {
        "caches": windows(2, 2, **SCRATCH),
        **fitted(18, flight=8, prefix=5),
    },
    "peak": {**cache(kind="window", window=5, sink=1, in_flight=2), **fitted()},
    "peak of the prefill": {
        **cache(kind="window", window=3, in_flight="prefill"),
        "prefill": PREFILL,
        **fitted(),
    },
    "in flight": {**cache(kind="window", window=4, keep="in_flight", in_flight=3), **fitted()},
    "in flight of the prefill": {
        **cache(kind="window", window=3, keep="in_flight", in_flight="prefill"),
        "prefill": PREFILL,
        **fitted(),
    },
    "chunked, flight of the batch": {
        **cache(kind="chunked", chunk=5, in_flight="prefill", in_flight_per="batch"),
        "prefill": {**PREFILL, "batches_in_flight": 2},
        **fitted(),
    },
    "count of the prefill": {
        **cache(kind="chunked", chunk=2, in_flight="prefill"),
        "prefill": PREFILL,
        **one(40, fit="count"),
    },
    "count": one(8, fit="count", count=4),
    "two requests behind a prefix": {
        "caches": windows(2, 3),
        "batches": [
            {
                "name": "b",
                "shared_prefix": 4,
                "requests": [
                    {"name": "q", "capacity": 11, "fit": "capacity"},
                    {"name": "r", "capacity": 10, "history": 7, "fit": "capacity"},
                    {"name": "s", "capacity": 13},
                ],
            }
        ],
    },
    "two batches": {
        "batches": [
            {"name": "a", "requests": [{"name": "q", "capacity": 12, "fit": "capacity"}]},
            {"name": "b", "requests": [{"name": "n", "capacity": 5, "fit": "count", "count": 3}]},
        ]
    },
    "utilization": {"resume_utilization": "3/4", **fitted(count=2)},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "chunk and options": {"prefill": PREFILL, "choices": [{"name": "w", "options": OPTIONS}]},
    "slots": {"experts": {"slot_bytes": 17, "max_slots": 6}},
    "slots of three sizes, granule": {
        "experts": {"slot_bytes": SIZED, "granule": 8},
    },
    "lent slots": {
        "prefill": PREFILL,
        "experts": {"slot_bytes": 15, "max_slots": 6, "lend": {"keep": 2, "fraction": "2/3"}},
    },
    "lent slots, little kept": {
        "prefill": PREFILL,
        "experts": {
            "slot_bytes": SIZED,
            "min_slots": 1,
            "lend": {"keep": 0, "fraction": 0.3},
        },
    },
    "granule, reserved and multiple": {
        "experts": {"slot_bytes": 15, "max_slots": 4},
        **pool(granule=23, reserved_blocks=2, multiple_of=2),
    },
    "buffers and limits": pool(
        buffers=[{"bytes": 6, "granule": 16}, {"bytes": 4}], min_blocks=1, max_blocks=5
    ),
    "constraints": {
        "pools": PAIR,
        "prefill": PREFILL,
        "choices": [{"name": "w", "options": OPTIONS}],
        "constraints": [
            {"terms": {"blocks:p": 2, "blocks:s": -1, "choice:w=y": 3}, "min": -2, "max": 4},
            {"terms": {"prefill": "1/2", "blocks:s": "-1/3"}, "max": 2},
        ],
    },
    "copies in a constraint": {
        "pools": PAIR,
        "caches": [
            {"name": "c", "pool": "p", "kind": "full"},
            {"name": "d", "pool": "s", "kind": "state"},
        ],
        "resume_utilization": "2/3",
        "constraints": [{"terms": {"copies:b": 2, "blocks:s": -1}, "min": -1}],
        **one(7),
    },
}


WITH_CHUNKS = [name for name, data in {**NEEDS, **SETTINGS}.items() if "prefill" in data]


@pytest.mark.parametrize("name", WITH_CHUNKS)
def test_the_same_where_an_index_stands_for_the_chunks(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks_module, "MOST_LITERALS", 1)
    test_solutions_of_the_program_are_the_points_that_break_no_rule(name)
    if name in NEEDS:
        test_needs_in_the_model_are_the_needs_in_integers(name)


@pytest.mark.parametrize("name", [*NEEDS, *SETTINGS])
def test_solutions_of_the_program_are_the_points_that_break_no_rule(name: str) -> None:
    instance = instance_of(micro(100, **{**NEEDS, **SETTINGS}[name]))
    expected = every_point(instance, crude(instance))
    assert expected
    assert modelled_points(instance) == expected


@pytest.mark.parametrize("name", NEEDS)
def test_needs_in_the_model_are_the_needs_in_integers(name: str) -> None:
    """Raw blocks of every batch at every capacity, count and chunk, fitting or not."""
    instance = instance_of(micro(100, **NEEDS[name]))
    demand = Demand(instance)
    box = crude(instance)._replace(usable=tuple(pool.least for pool in instance.pools))
    model = Model()
    variables = create_variables(model, instance, box, least_point(instance))
    needs = Needs(model, instance, Given(instance), variables)
    raws = [needs.raw(batch) for batch in range(len(instance.batches))]
    seen = set()
    for values in solutions(model):
        chunk = variables.chunk.chosen(partial(at, values=values))
        capacities = tuple(at(form, values) for form in variables.capacities)
        counts = tuple(at(form, values) for form in variables.counts)
        for batch, forms in enumerate(raws):
            modelled = [at(form, values) for form in forms]
            assert modelled == demand.raw(batch, chunk, capacities, counts)
        seen.add((chunk, capacities, counts))
    ranges = [top - f.least + 1 for f, top in zip(instance.fitted, box.fitted, strict=True)]
    places = box.chunks
    for size in ranges:
        places *= size
    assert len(seen) == places


@pytest.mark.parametrize("utilization", ["1", "2/3"])
@pytest.mark.parametrize("requests", [one(7), fitted(9), one(3, fit="count", count=3)])
def test_copies_in_the_model_are_the_copies_that_blocks_hold(
    utilization: str, requests: dict[str, Any]
) -> None:
    instance = instance_of(micro(60, resume_utilization=utilization, **requests))
    demand = Demand(instance)
    model = Model()
    start = least_point(instance)
    given = Given(instance)
    variables = create_variables(model, instance, crude(instance), start)
    raw = Needs(model, instance, given, variables).raw(0)
    copies = add_copies(model, instance, variables, raw, exact=True)
    seen = set()
    for values in solutions(model):
        point = start._replace(
            capacities=tuple(at(form, values) for form in variables.capacities),
            counts=tuple(at(form, values) for form in variables.counts),
            usable=tuple(at(form, values) for form in variables.usable),
        )
        assert at(copies, values) == copies_held(instance, demand, point, 0)
        seen.add(point)
    assert len(seen) > 6
