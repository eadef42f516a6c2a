"""Bounds rule out no layout that is better: the same answer with and without them."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from bench.layout import PERMISSIONS
from bench.layout import question as hybrid

from kvplan.models.layouts import LayoutQuestion
from kvplan.solver.layout import uniform
from kvplan.solver.layout.choose_layout import best_found
from kvplan.solver.layout.found import Found, Seen, objective_of
from kvplan.solver.layout.layout_bounds import page_bounds
from kvplan.solver.layout.layout_candidates import arrangements
from kvplan.solver.layout.packed import capped
from support.page_layouts import question


def found(asked: LayoutQuestion, first: int, monkeypatch: pytest.MonkeyPatch) -> Found | None:
    """Search with so many pages (blocks under a cap) evaluated before bounds are asked."""
    monkeypatch.setattr(uniform, "FIRST_PAGES", first)
    monkeypatch.setattr(capped, "SLICE", first)
    return best_found(asked, Seen())


def test_on_random_models(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(400):
        bound, free = (found(question(seed), first, monkeypatch) for first in (1, 10**6))
        assert (bound and bound.rank) == (free and free.rank), seed


@pytest.mark.parametrize("name", [name for name in PERMISSIONS if "prefixes" not in name])
def test_on_a_hybrid(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hybrid(PERMISSIONS[name])
    bound, free = (found(asked, first, monkeypatch) for first in (1, 10**6))
    assert bound is not None
    assert free is not None
    assert bound.rank == free.rank
    assert bound.rank[0] < inf


@pytest.mark.parametrize("pages", ["uniform", "packed"])
def test_under_every_cap_on_groups(pages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of one layer meet the bound; under a cap it must not rule out too much."""
    for cap in range(4, 24):
        asked = hybrid({"pages": pages, "max_groups": cap})
        bound, free = (found(asked, first, monkeypatch) for first in (1, 10**6))
        assert (bound and bound.rank) == (free and free.rank), cap


def test_a_page_costs_no_less_than_its_bound_and_groups_of_one_layer_meet_it() -> None:
    met = 0
    for seed in range(400):
        asked = question(seed)
        objective = objective_of(asked)
        for arrangement in arrangements(asked):
            grid = uniform.grid_of(arrangement, objective, Seen()) if arrangement.parts else None
            if grid is None:
                continue
            own = arrangement.own_bytes
            bounds = page_bounds(grid.pages, arrangement.parts, grid.needs, own)
            pairs = list(zip(grid.needs, grid.groups, strict=True))
            for page, bound in enumerate(bounds):
                blocks = sum(need[page] * groups for need, groups in pairs)
                shared = grid.pages[page] * grid.widths * blocks  # [stage, width]
                least = (shared + np.array(own)[:, None]).max(axis=0).min()
                assert bound <= least
                met += bound == least
    assert met > 1000
