"""Expert slots of many sizes: their bytes, and how many variables they take."""

from __future__ import annotations

import pytest

from kvplan.kernels.instance import Instance
from kvplan.solver.cpsat import Verdict, solve_program
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.program.constraints import sized_slots
from kvplan.solver.cpsat.program.program import build_program
from support.instance import instance_of
from support.micro import micro


def with_sizes(*sizes: list[int]) -> Instance:
    listed = [*map(list, sizes)]
    return instance_of(micro(10**6, experts={"slot_bytes": listed, "granule": 64}, fill="none"))


@pytest.mark.parametrize(
    "sizes",
    [
        ((2, 30), (3, 5), (9, 10)),
        ((1, 30), (1, 30), (3, 5), (1, 10), (4, 10), (4, 10)),
        ((14, 7),),
        ((5, 7), (9, 7)),
    ],
)
@pytest.mark.parametrize("span", [(0, 14), (0, 1), (1, 4), (4, 14), (6, 6)])
def test_the_first_slots_of_every_size(
    sizes: tuple[tuple[int, int], ...], span: tuple[int, int]
) -> None:
    each = [size for count, size in sizes for _ in range(count)]
    for slots in range(span[0], span[1] + 1):
        model = Model()
        form = sized_slots(model, model.integer(*span, slots), sizes)
        assert model.value(form) == sum(each[:slots])
        assert model.low(form) <= sum(each[: span[0]])
        assert model.high(form) >= sum(each[: span[1]])
        assert model.hint_holds


def test_equal_sizes_in_a_row_are_one() -> None:
    few = build_program(with_sizes([300, 7], [500, 9], [200, 8]))
    many = build_program(
        with_sizes(*([1, 7 if i < 300 else 9 if i < 800 else 8] for i in range(1000)))
    )
    assert len(many.model.variables) == len(few.model.variables)


def test_a_size_takes_one_variable() -> None:
    instance = with_sizes(*([1, 3 + i % 2] for i in range(1000)))
    program = build_program(instance)
    assert len(program.model.variables) < 1010
    solved = solve_program(instance)
    assert solved.verdict is Verdict.OPTIMAL
    assert solved.answer is not None
    assert solved.answer.point.experts == 1000
