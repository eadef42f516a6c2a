"""What other permissions would give: the same question, asked again with more freedom."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvplan.models.layouts import LayoutQuestion
from kvplan.models.layouts.chosen import Freedom
from kvplan.solver.layout.choose_layout import best_found
from kvplan.solver.layout.deal import page_layout
from kvplan.solver.layout.found import Seen
from kvplan.solver.layout.layout_candidates import ways_of
from kvplan.solver.layout.layout_figures import figures_of

Changes = dict[str, Any]
MOST_WAYS_FREED = 256
"""Permissions that span more ways to share groups and to leave the pool are left out."""


def freedoms(question: LayoutQuestion) -> Iterator[Freedom]:
    """Solve under each permission withheld, and under all of them."""
    grants = dict(_grants(question))
    for permission, changes in grants.items():
        yield from _freed(question, permission, changes)
    if len(grants) > 1:
        every = {key: value for changes in grants.values() for key, value in changes.items()}
        if "buckets" in every:
            every["buckets"] = _with(question, split=True, pad=True, own_pool=True)
        yield from _freed(question, "all of these", every)


def finer_prefix(question: LayoutQuestion, tokens: int) -> Iterator[Freedom]:
    """Solve within a prefix-cache granularity, such as that of the engine's own layout."""
    within = f"a prefix granularity of {tokens:,} tokens, as the engine"
    yield from _freed(question, within, {"max_prefix_tokens": tokens})


def fewer_groups(question: LayoutQuestion, groups: int) -> Iterator[Freedom]:
    """Solve within fewer and fewer groups than an answer has, down to the fewest that there are.

    Each group is a block table that every step reads (vllm-project/vllm #49472, #51742).
    """
    while groups > 1:
        within = f"at most {groups - 1} groups"
        found = list(_freed(question, within, {"max_groups": groups - 1}))
        yield from found
        groups = found[0].groups if found else 1


def _grants(question: LayoutQuestion) -> Iterator[tuple[str, Changes]]:
    """Permissions that the question withholds, and the fields that grant them."""
    buckets = question.buckets
    if not all(bucket.split for bucket in buckets):
        yield "every page may be split", {"buckets": _with(question, split=True)}
    if not all(bucket.pad for bucket in buckets):
        yield "every page may be padded", {"buckets": _with(question, pad=True)}
    if question.pages == "uniform":
        yield "pages of several sizes in a block", {"pages": "packed"}
    if not question.share_groups and len(buckets) > 1:
        yield "buckets of one rule share groups", {"share_groups": True}
    if not all(bucket.own_pool for bucket in buckets):
        yield "a pool of its own for any bucket", {"buckets": _with(question, own_pool=True)}
    if question.max_prefix_tokens is not None:
        yield "any prefix granularity", {"max_prefix_tokens": None}
    if question.max_groups is not None:
        yield "any number of groups", {"max_groups": None}


def _with(question: LayoutQuestion, **changes: bool) -> tuple[Any, ...]:
    return tuple(bucket.model_copy(update=changes) for bucket in question.buckets)


def _freed(question: LayoutQuestion, permission: str, changes: Changes) -> Iterator[Freedom]:
    changed = question.model_copy(update=changes)
    found = best_found(changed, Seen()) if ways_of(changed) <= MOST_WAYS_FREED else None
    if found is not None:
        figures = figures_of(changed, page_layout(changed, found))
        yield Freedom(
            permission=permission,
            bytes=figures.bytes,
            groups=figures.groups,
            copies=figures.copies,
        )
