"""What one part may do in a packed block: its groups and block tokens, and what they take."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy as np

from kvplan.kernels.pages import group_count
from kvplan.solver.layout.found import Objective
from kvplan.solver.layout.kinds import Array
from kvplan.solver.layout.layout_candidates import Part
from kvplan.solver.layout.packed.dealing import least_fullest_of


class Options(NamedTuple):
    """What one part may do, cheaper as the block grows.

    Attributes
    ----------
    keys : smallest block that an option fits in (bytes), or less the blocks that fit the quotas.
    blocks, groups, at : of each option: groups x blocks, its groups, index of its block tokens.
    sizes : [stage, option], bytes of its widest group.
    """

    keys: Array
    blocks: Array
    groups: Array
    at: Array
    sizes: Array


Proven = dict[tuple[tuple[int, ...], tuple[int, ...], int], int]
"""Bytes of the fullest group where the bound was not met: by sizes, layers and groups."""


def options_of(part: Part, objective: Objective, proven: Proven) -> Options:
    """All groups x block tokens that need fewer blocks than smaller tokens do."""
    falls = np.ones(len(part.blocks), dtype=bool)
    falls[1:] = part.blocks[1:] < part.blocks[:-1]
    at = np.flatnonzero(falls)
    most = max(part.layers)
    groups = _distinct_groups(part) if len(part.kinds) == 1 else np.arange(1, most + 1)
    sizes = np.array(
        [_sizes(part, stage, groups, at, proven).ravel() for stage in range(len(part.layers))]
    )
    shape = (len(groups), len(at))
    number = np.broadcast_to(groups[:, None], shape).ravel()
    blocks = (groups[:, None] * part.blocks[at][None, :]).ravel()
    index = np.broadcast_to(at[None, :], shape).ravel()
    several = len(set(objective.quotas)) > 1
    keys = -objective.held_blocks(sizes) if several else sizes.max(axis=0)
    return Options(keys, blocks, number, index, sizes)


def _distinct_groups(part: Part) -> Array:
    """Group counts at which some stage's widest group has fewer layers than before."""
    counts = np.arange(1, max(part.layers) + 1)
    widths = np.array([group_count(np.int64(layers), counts) for layers in part.layers])
    falls = np.ones(len(counts), dtype=bool)
    falls[1:] = (widths[:, 1:] < widths[:, :-1]).any(axis=0)
    return counts[falls]


def _sizes(part: Part, stage: int, groups: Array, at: Array, proven: Proven) -> Array:
    """Bytes of the widest group on a stage: [groups, block tokens]."""
    if len(part.kinds) == 1:
        layers = part.kinds[0].layers[stage]
        return group_count(np.int64(layers), groups)[:, None] * part.pages[at][None, :]
    counts = tuple(kind.layers[stage] for kind in part.kinds)
    by_groups: dict[tuple[int, ...], Array] = {}  # bytes of the fullest at each number of groups
    columns = []
    for index in at:
        pages, unit = unit_pages(part, int(index))
        if pages not in by_groups:
            by_groups[pages] = _fullest(pages, counts, groups.astype(part.pages.dtype), proven)
        columns.append(unit * by_groups[pages])
    return np.array(columns).T


def _fullest(
    pages: tuple[int, ...], counts: tuple[int, ...], groups: Array, proven: Proven
) -> Array:
    """The fullest group's bytes at its bound, or as proven."""
    found = least_fullest_of(pages, counts, groups)
    for (sizes, layers, number), taken in proven.items():
        if (sizes, layers) == (pages, counts):
            found[groups == number] = taken
    return found


def unit_pages(part: Part, at: int) -> tuple[tuple[int, ...], int]:
    """Pages of a part's buckets at some block tokens, over their gcd, and the gcd."""
    pages = [int(kind.pages[at]) for kind in part.kinds]
    unit = gcd(*pages)
    return tuple(page // unit for page in pages), unit


def frontier(options: Options) -> Options:
    """Options by key that need fewer blocks (or as few in fewer groups) than all before."""
    order = np.lexsort((options.groups, options.blocks, options.keys))
    spread = int(options.groups.max()) + 1
    code = options.blocks[order] * spread + options.groups[order]
    lower = np.ones(len(order), dtype=bool)
    lower[1:] = code[1:] < np.minimum.accumulate(code)[:-1]
    kept = order[lower]
    keys, blocks, groups, at, sizes = options
    return Options(keys[kept], blocks[kept], groups[kept], at[kept], sizes[:, kept])
