"""Consumers whose bytes are a fraction of another's, such as what an allocator keeps unused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from kvplan.models.base import ByStage
from kvplan.models.elastic import Consumer
from kvplan.models.errors import Fault
from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.models.messages import one_of, shown

if TYPE_CHECKING:
    from kvplan.models.problem import Problem


def allowance_faults(problem: Problem) -> Iterator[Fault]:
    """Find fractions of nothing, of themselves or of another fraction, and bytes that differ."""
    known = {consumer.name: consumer for consumer in problem.consumers}
    bare = [name for name, consumer in known.items() if consumer.of is None]
    for index, consumer in enumerate(problem.consumers):
        if consumer.of is None:
            continue
        path = f"consumers[{index}]"
        if consumer.of not in bare:
            expected = f"a consumer with bytes of its own: {one_of(bare, consumer.of)}"
            yield Fault(f"{path}.of", expected, shown(consumer.of))
        elif known[consumer.of].per_request != 0:
            expected = "a consumer without per_request, whose bytes are known"
            yield Fault(f"{path}.of", expected, shown(consumer.of))
        elif "bytes" in consumer.model_fields_set:
            taken = share_of(consumer, known[consumer.of])
            if consumer.bytes != taken:
                yield Fault(f"{path}.bytes", "none beside fraction", shown(consumer.bytes))


def share_of(consumer: Consumer, other: Consumer) -> ByStage:
    """ceil(fraction x bytes of the other), by stage or rank name where the other is."""
    share = consumer.fraction or Fraction(0)
    if not isinstance(other.bytes, Mapping):
        return _part(share, other.bytes)
    return FrozenDict({key: _part(share, figure) for key, figure in other.bytes.items()})


def _part(share: Fraction, whole_bytes: int) -> int:
    return -(-share.numerator * whole_bytes // share.denominator)


def with_allowances(consumers: tuple[Consumer, ...]) -> tuple[Consumer, ...]:
    """Fill in the bytes of every fraction; they stay out of the fields that were given."""
    known = {consumer.name: consumer for consumer in consumers}
    return tuple(
        consumer if consumer.of is None else _filled(consumer, known[consumer.of])
        for consumer in consumers
    )


def _filled(consumer: Consumer, other: Consumer) -> Consumer:
    filled = consumer.model_copy(update={"bytes": share_of(consumer, other)})
    filled.model_fields_set.discard("bytes")
    return filled
