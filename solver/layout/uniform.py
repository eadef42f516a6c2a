"""One common page and one width for every group: all pages x all widths in one batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kvplan.kernels.pages import group_count
from kvplan.solver.layout.found import Found, Objective, Rank, Seen, first_best
from kvplan.solver.layout.kinds import Array
from kvplan.solver.layout.layout_bounds import page_bounds
from kvplan.solver.layout.layout_candidates import Arrangement, Part
from kvplan.solver.layout.stage_widths import width_vectors

FIRST_PAGES = 8
"""Pages evaluated for a first layout: those of the least bound."""
MOST_AT_ONCE = 2**21
"""Layouts evaluated in one batch: more would only take memory."""


class Grid(NamedTuple):
    """Pages and widths of one arrangement.

    Attributes
    ----------
    pages : [page]; at, needs : by part, index of its block tokens and its blocks at each page.
    groups : by part [width]; widths : [stage, width], layers of the widest group.
    """

    pages: Array
    at: list[Array]
    needs: list[Array]
    groups: list[Array]
    widths: Array


def search_uniform(
    arrangement: Arrangement, objective: Objective, seen: Seen, best: Rank | None
) -> Found | None:
    """Find the best page and width of an arrangement; None where nothing beats `best`.

    With a width and the block tokens given, the common page is the largest of the pages: so it is
    some bucket's page at a permitted block size. With a page given, a bucket does best with the
    most tokens that fit in it, since no rule needs more blocks of more tokens.
    """
    grid = grid_of(arrangement, objective, seen)
    if grid is None:
        return None
    bounds = page_bounds(grid.pages, arrangement.parts, grid.needs, arrangement.own_bytes)
    order = np.argsort(bounds, kind="stable")
    first = _best_of(grid, order[:FIRST_PAGES], arrangement, objective, seen)
    known = min((rank for rank in (best, first and first.rank) if rank), default=None)
    rest = order[FIRST_PAGES:]
    if known is not None and not objective.quotas:
        reached = bounds[rest] <= known[0]
        seen.pruned["bound"] += int((~reached).sum()) * len(grid.groups[0])
        rest = rest[reached]
    found = [first] if first is not None else []
    rows = max(1, MOST_AT_ONCE // len(grid.groups[0]))
    for start in range(0, len(rest), rows):
        more = _best_of(grid, rest[start : start + rows], arrangement, objective, seen)
        found += [more] if more is not None else []
    return min(found, key=lambda each: each.rank, default=None)


def _best_of(
    grid: Grid, places: Array, arrangement: Arrangement, objective: Objective, seen: Seen
) -> Found | None:
    """Evaluate some pages with every width."""
    if not len(places):
        return None
    pages = grid.pages[places]
    blocks: Any = 0
    for need, groups in zip(grid.needs, grid.groups, strict=True):
        blocks = blocks + need[places][:, None] * groups[None, :]  # [page, width]
    block_bytes = pages[None, :, None] * grid.widths[:, None, :]  # [stage, page, width]
    shape = blocks.shape
    seen.evaluated += blocks.size
    flat = block_bytes.reshape(len(grid.widths), -1)
    primary, taken = objective.keys(flat, blocks.ravel(), arrangement.own_bytes)
    tables = np.add.reduce(grid.groups) + len(arrangement.own)
    number = np.broadcast_to(tables[None, :], shape).ravel()
    at = first_best(primary, taken, number, flat.max(axis=0))
    page, width = divmod(at, shape[1])
    rank = (int(primary[at]), int(taken[at]), int(number[at]), int(flat[:, at].max()))
    return Found(
        rank,
        arrangement,
        tuple(int(groups[width]) for groups in grid.groups),
        tuple(int(each[places[page]]) for each in grid.at),
        int(pages[page]),
    )


def grid_of(arrangement: Arrangement, objective: Objective, seen: Seen) -> Grid | None:
    """Pages and widths that can be the best, counted; None where no page takes all buckets."""
    parts = arrangement.parts
    spanned = np.unique(np.concatenate([part.pages for part in parts]))
    widths, groups = _widths(arrangement, objective)
    most = max(max(part.layers) for part in parts)
    seen.candidates += len(spanned) * most
    pages = np.unique(np.concatenate([_telling(part) for part in parts]))
    at = [np.searchsorted(part.pages, pages, side="right") - 1 for part in parts]
    fits = np.ones(len(pages), dtype=bool)
    for part, index in zip(parts, at, strict=True):
        fits &= index >= 0
        for kind in part.kinds:
            fits &= kind.pad | (kind.pages[index] == pages)
    if objective.max_groups is not None:
        allowed = np.add.reduce(groups) + len(arrangement.own) <= objective.max_groups
        widths, groups = widths[:, allowed], [each[allowed] for each in groups]
    seen.pruned["equal needs"] += (len(spanned) - len(pages)) * most
    seen.pruned["equal groups"] += len(pages) * (most - len(groups[0]))
    seen.pruned["no page"] += int((~fits).sum()) * len(groups[0])
    if not fits.any() or not len(groups[0]):
        return None
    at = [index[fits] for index in at]
    needs = [part.blocks[index] for part, index in zip(parts, at, strict=True)]
    return Grid(pages[fits], at, needs, groups, widths)


def _telling(part: Part) -> Array:
    """Pages at which a part needs fewer blocks than at every smaller one; all without padding."""
    if not part.pad:
        return part.pages
    falls = np.ones(len(part.blocks), dtype=bool)
    falls[1:] = part.blocks[1:] < part.blocks[:-1]
    return part.pages[falls]


def _widths(arrangement: Arrangement, objective: Objective) -> tuple[Array, list[Array]]:
    """Distinct numbers of groups by part, and the layers of the widest group on each stage."""
    parts = arrangement.parts
    stages = range(len(parts[0].layers))
    most = [max(part.layers[stage] for part in parts) for stage in stages]
    vectors = np.array(width_vectors(most, objective.quotas, arrangement.own_bytes))
    least = np.array([part.least_groups(vectors) for part in parts]).T  # [width, part]
    groups = np.unique(least, axis=0)
    widths = [
        np.maximum.reduce(
            [group_count(part.layers[s], groups[:, p]) for p, part in enumerate(parts)]
        )
        for s in stages
    ]
    return np.array(widths), [groups[:, p] for p in range(len(parts))]
