"""Parts of a layout question that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kvplan.models.errors import Fault
from kvplan.models.messages import shown

if TYPE_CHECKING:
    from kvplan.models.layouts.question import LayoutQuestion

MOST_MULTIPLES = 8192
"""Common multiples of block tokens that are enumerated under max_prefix_tokens."""


def contradictions(question: LayoutQuestion) -> Iterator[Fault]:
    """Find every fault that no single field shows."""
    for field in ("buckets", "requests"):
        if not getattr(question, field):
            yield Fault(field, "at least one", "an empty list")
    yield from _buckets(question)
    yield from _prefixes(question)
    yield from _positions(question)
    yield from _quotas(question)


def _prefixes(question: LayoutQuestion) -> Iterator[Fault]:
    most = question.max_prefix_tokens or 0
    step = min((bucket.kernel_tokens for bucket in question.buckets), default=1)
    if most // step > MOST_MULTIPLES:
        expected = f"at most {MOST_MULTIPLES} times the least kernel_tokens {step}"
        yield Fault("max_prefix_tokens", expected, str(most))


def _buckets(question: LayoutQuestion) -> Iterator[Fault]:
    names: set[str] = set()
    for index, bucket in enumerate(question.buckets):
        if bucket.name in names:
            yield Fault(f"buckets[{index}].name", "a name of its own", shown(bucket.name))
        names.add(bucket.name)


def _positions(question: LayoutQuestion) -> Iterator[Fault]:
    given = [at for bucket in question.buckets for at in bucket.positions or ()]
    if not given:
        return
    if len(set(given)) < len(given):
        twice = next(at for at in given if given.count(at) > 1)
        yield Fault("buckets", "positions that name each layer once", f"{twice} twice")
    for index, bucket in enumerate(question.buckets):
        if bucket.positions is None:
            expected = "positions, as on the other buckets"
            yield Fault(f"buckets[{index}].positions", expected, "none")


def _quotas(question: LayoutQuestion) -> Iterator[Fault]:
    lacking = [stage for stage in question.stages if question.quota_of(stage) is None]
    if question.ranks and lacking:
        yield Fault("ranks", "a rank on every stage", f"none on stage {lacking[0]}")
    if question.objective != "copies":
        return
    if not question.ranks:
        yield Fault("ranks", "ranks with a quota beside objective copies", "none")
    for index, request in enumerate(question.requests):
        if request.weight.denominator != 1:
            expected = "a whole number beside objective copies"
            yield Fault(f"requests[{index}].weight", expected, str(request.weight))
