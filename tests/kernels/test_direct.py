"""The straight way beside the whole search: the same point, the same refusal, for any room."""

from __future__ import annotations

import random

import pytest

from kvplan.kernels.climb import block_sizes
from kvplan.kernels.direct import Direct, is_direct
from kvplan.kernels.nested import Search
from kvplan.kernels.ordered import solve
from kvplan.models import InvalidProblem
from kvplan.solver.formulate.formulation import formulate
from support.straight import straight_problem

SEEDS = 400


class Roundabout(Search):
    """The search by worlds."""

    goes_direct = False


def formulated(seed: int) -> Search | None:
    """The search of a random problem; None where it makes no sense, or no capacity matters."""
    try:
        nested = Search(formulate(straight_problem(seed)).instance)
    except InvalidProblem:
        return None
    if nested.instance.fitted and not block_sizes(nested.instance):
        return None
    return nested


@pytest.mark.parametrize("part", range(8))
def test_the_straight_way_ends_where_the_search_does(part: int) -> None:
    answered = refused = 0
    for seed in range(part * SEEDS, (part + 1) * SEEDS):
        nested = formulated(seed)
        if nested is None:
            continue
        direct = nested.direct
        assert direct is not None, seed
        rng = random.Random(-seed)
        for _ in range(4):  # one compiled problem, several rooms
            rows = tuple(
                row._replace(
                    limit_bytes=rng.choice((row.limit_bytes, rng.randint(-5, 2 * row.limit_bytes)))
                )
                for row in nested.instance.budgets
            )
            instance = nested.instance._replace(budgets=rows)
            found = direct.answer([row.limit_bytes for row in rows])
            expected = solve(Roundabout(instance))
            answered, refused = answered + (found is not None), refused + (found is None)
            assert found == expected, seed
    assert min(answered, refused) > SEEDS // 4


def test_line_and_ladder_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the line decides, a climbed ladder ends there too."""
    climbed = 0

    class Climbing(Direct):
        def _ladder(self, rooms: object) -> object:  # type: ignore[override]
            nonlocal climbed
            climbed += 1
            return super()._ladder(rooms)  # type: ignore[arg-type]

    fitted = 0
    for seed in range(SEEDS):
        nested = formulated(seed)
        if nested is None or not nested.instance.fitted:
            continue
        rooms = [row.limit_bytes for row in nested.instance.budgets]
        by_line = Climbing(nested.instance, nested.demand).answer(rooms)
        fitted += 1
        on_ladder = Direct(nested.instance, nested.demand)
        monkeypatch.setattr(Direct, "_line", None)
        assert on_ladder.answer(rooms) == by_line, seed
        monkeypatch.undo()
    assert 0 < climbed < fitted


def test_what_is_not_straight() -> None:
    """Each thing that the straight way does not know keeps a problem from it."""
    nested = formulated(4)
    assert nested is not None
    instance = nested.instance
    assert is_direct(instance)
    assert not is_direct(instance._replace(chunks=(1, 2)))
    assert not is_direct(instance._replace(choices=(2,)))
    assert not is_direct(instance._replace(fill_from=5))
    assert not is_direct(instance._replace(fill_batch=0))
