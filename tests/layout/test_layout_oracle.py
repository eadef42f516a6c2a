"""The search against every layout of small models, laid out page by page."""

from __future__ import annotations

from fractions import Fraction

import pytest

from kvplan.models.layouts import LayoutQuestion
from kvplan.solver.layout.choose_layout import best_found
from kvplan.solver.layout.deal import page_layout
from kvplan.solver.layout.found import Seen
from kvplan.solver.layout.kinds import weights_of
from kvplan.solver.layout.layout_figures import figures_of
from kvplan.solver.oracle.layouts import best_layout, layout_faults
from support.page_layouts import question, sharing_question, staged_question

SEEDS, STAGED, PARTS = 1000, 400, 8


def compared(asked: LayoutQuestion) -> Seen | None:
    """Assert that search and oracle agree; None where no layout is permitted."""
    seen = Seen()
    found, best = best_found(asked, seen), best_layout(asked)
    if found is None or best is None:
        assert found is None
        assert best is None
        return None
    layout = page_layout(asked, found)
    figures = figures_of(asked, layout)
    assert layout_faults(asked, layout, figures.bytes) == []
    _, scale = weights_of(asked)
    taken = Fraction(found.rank[1], scale)
    assert (figures.bytes, figures.groups) == (taken, found.rank[2])
    if asked.objective == "copies":
        assert figures.copies == -found.rank[0] == -best.fewer_copies
        differ = len({rank.quota_bytes for rank in asked.ranks}) > 1
        leave = len(asked.stages) > 1 and any(bucket.own_pool for bucket in asked.buckets)
        if differ or leave:
            return seen  # of equal copies any layout will do where stages have unequal room
    assert (taken, figures.groups) == (best.bytes, best.groups)
    return seen


@pytest.mark.parametrize("part", range(PARTS))
def test_a_thousand_random_models(part: int) -> None:
    answered = [compared(question(seed)) for seed in range(part, SEEDS, PARTS)]
    assert sum(seen is not None for seen in answered) > len(answered) // 2


def test_buckets_of_several_pages_that_share_groups() -> None:
    """Three or four layers of each of two pages: greedy dealing is not always the best."""
    answered = [compared(sharing_question(seed)) for seed in range(40)]
    assert sum(seen.packed_by_cpsat > 0 for seen in answered if seen is not None) > 5


@pytest.mark.parametrize("part", range(PARTS))
def test_own_pools_on_unequal_stages(part: int) -> None:
    answered = [compared(staged_question(seed)) for seed in range(part, STAGED, PARTS)]
    assert sum(seen is not None for seen in answered) > len(answered) // 2
