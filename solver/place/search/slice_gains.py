"""What a card gains by experts of a slice: a bound for every slice at once, exact for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from kvplan.solver.place.search.expert_kinds import ExpertKinds
from kvplan.solver.place.search.knapsack import MOST_UNITS, Item, best_choice, gain_a_byte
from kvplan.solver.place.search.spread import Tensor

MOST_GROUPS = 64
MOST_OPTIONS = 16
MOST_WHOLE = 4_096  # numbers of whole layers that are tried for one slice


class Part(NamedTuple):
    """What is taken one after the other: a tensor, or a step to a fuller layer."""

    bytes: int
    gain: int


class Option(NamedTuple):
    """Tensors of one layer that a card keeps."""

    bytes: int
    gain: int
    tensors: tuple[Tensor, ...]
    is_whole: bool


class Chosen(NamedTuple):
    """Experts kept of one slice, by kind.

    Attributes
    ----------
    full : layers that are kept whole, by their experts; their tensors are in `counts`.
    bound : no choice gains more.
    """

    counts: Mapping[Tensor, int]
    full: Mapping[tuple[Tensor, ...], int]
    gain: int
    bound: int


class Gains:
    """The experts of one card.

    Parameters
    ----------
    gain_of : gain of a tensor on the card against the host; what gains nothing stays there.
    whole : gain of a layer whose experts are all on the card (hops that it saves).
    """

    def __init__(self, kinds: ExpertKinds, gain_of: Callable[[Tensor], int], whole: int) -> None:
        self.kinds, self.whole = kinds, whole
        self.gains = {t: gain_of(t) for counted in kinds.counted for t in counted}
        self.unit = gcd(*(tensor.bytes for tensor in self.gains)) or 1

    def bounds(self, room: Any, dtype: Any) -> tuple[Any, Any]:
        """Upper bounds of the gain of each slice, and where they are reached.

        The fractional choice: parts by falling gain per byte, the last one in part. Arrays are
        [start, end].
        """
        left = room // self.unit * self.unit
        gain, is_open = np.zeros_like(left), np.ones(left.shape, dtype=bool)
        is_exact = np.ones(left.shape, dtype=bool)
        for top, is_single, held_column, won_column in self._groups(dtype):
            held, won = _slices(held_column), _slices(won_column)
            fits = held <= left
            share = np.minimum(_share(np.minimum(left, held), top, dtype), won)
            gain = gain + np.where(is_open, np.where(fits, won, share), 0)
            closing = is_open & ~fits
            whole = left % max(top.bytes, 1) == 0 if is_single and not self.whole else False
            is_exact &= ~closing | whole
            is_open &= fits
            left = np.where(is_open, left - held, left)
        return gain, is_exact

    def _groups(self, dtype: Any) -> Iterator[tuple[Part, bool, Any, Any]]:
        """Parts by falling gain per byte, many in groups: the best, its bytes, its gains by slot.

        Sums up to each slot; the flag says that a group is one part.
        """
        steps = [Counter(self._steps(experts)) for experts in self.kinds.experts]
        parts = sorted({p for each in steps for p in each}, key=_rate, reverse=True)
        width = -(-len(parts) // MOST_GROUPS) or 1
        group_of = {part: at // width for at, part in enumerate(parts)}
        shape = (len(steps), -(-len(parts) // width))
        held, won = np.zeros(shape, dtype=dtype), np.zeros(shape, dtype=dtype)
        for kind, each in enumerate(steps):
            for part, number in each.items():
                held[kind, group_of[part]] += number * part.bytes
                won[kind, group_of[part]] += number * part.gain
        for at in range(shape[1]):
            group = parts[at * width : (at + 1) * width]
            columns = (self.kinds.sums(each[:, at], dtype) for each in (held, won))
            yield group[0], len(group) == 1, *columns

    def _steps(self, experts: Sequence[Tensor]) -> list[Part]:
        """Tensors that gain, or the concave hull of their sums and the whole layer."""
        parts = [Part(t.bytes, self.gains[t]) for t in experts if self.gains[t] > 0]
        if not self.whole or not experts:
            return parts
        corners = [Part(0, 0)]
        for part in sorted(parts, key=_rate, reverse=True):
            corners.append(Part(corners[-1].bytes + part.bytes, corners[-1].gain + part.gain))
        every = sum(self.gains[t] for t in experts) + self.whole
        hull = corners[:1]
        for corner in (*corners[1:], Part(sum(t.bytes for t in experts), every)):
            if corner.gain <= hull[-1].gain:
                continue
            while len(hull) > 1 and _is_below(hull[-2], hull[-1], corner):
                hull.pop()
            hull.append(corner)
        return [Part(b.bytes - a.bytes, b.gain - a.gain) for a, b in pairwise(hull)]

    def choice(self, start: int, end: int, room: int) -> Chosen:
        """The best choice for one slice."""
        layers = self.kinds.between(start, end)
        if not self.whole:
            return self._tensors(layers, {}, room)
        sizes = [sum(tensor.bytes for tensor in self.kinds.experts[kind]) for kind in layers]
        most = [min(n, _number(room, size)) for n, size in zip(layers.values(), sizes, strict=True)]
        if prod(n + 1 for n in most) > MOST_WHOLE:
            options = [self._options(self.kinds.experts[kind]) for kind in layers]
            if room // self.unit > MOST_UNITS or max(map(len, options)) > MOST_OPTIONS:
                return self._tensors(layers, {}, room)
            numbered = zip(options, layers.values(), strict=True)
            return self._tabled([each for each, n in numbered for _ in range(n)], room)
        best: Chosen | None = None
        for numbers in product(*(range(n, -1, -1) for n in most)):
            full = dict(zip(layers, numbers, strict=True))
            left = room - sum(n * size for n, size in zip(numbers, sizes, strict=True))
            if left >= 0:
                found = self._tensors(layers, full, left)
                best = found if best is None or found.gain > best.gain else best
                best = best._replace(bound=max(best.bound, found.bound))
        assert best is not None
        return best

    def _options(self, experts: tuple[Tensor, ...]) -> list[Option]:
        """Every subset of a layer's tensors that gains."""
        found = dict[tuple[tuple[Tensor, int], ...], Option]()
        for size in range(1, len(experts) + 1):
            for subset in combinations(experts, size):
                gain = sum(self.gains[t] for t in subset) + (size == len(experts)) * self.whole
                if gain > 0:
                    bytes_ = sum(t.bytes for t in subset)
                    key = tuple(sorted(Counter(subset).items()))
                    found[key] = Option(bytes_, gain, subset, size == len(experts))
        return [*found.values()]

    def _tabled(self, layers: Sequence[Sequence[Option]], room: int) -> Chosen:
        """Layer by layer the best gain at every sum of bytes."""
        left = room // self.unit
        wide = sum(max((o.gain for o in options), default=0) for options in layers) >= 2**62
        best = np.zeros(left + 1, dtype=object if wide else np.int64)
        steps = []
        for options in layers:
            raised, taken = best.copy(), np.full(left + 1, -1, dtype=np.int8)
            for index, option in enumerate(options):
                width = option.bytes // self.unit
                if width <= left:
                    other = best[: left + 1 - width] + option.gain
                    is_more = other > raised[width:]
                    raised[width:][is_more] = other[is_more]
                    taken[width:][is_more] = index
            best = raised
            steps.append(taken)
        counts, full, gain = Counter[Tensor](), Counter[tuple[Tensor, ...]](), int(best[left])
        for options, taken in zip(reversed(layers), reversed(steps), strict=True):
            if taken[left] >= 0:
                option = options[taken[left]]
                counts.update(option.tensors)
                full[option.tensors] += option.is_whole
                left -= option.bytes // self.unit
        return Chosen(counts, full, gain, gain)

    def _tensors(self, layers: Mapping[int, int], full: Mapping[int, int], room: int) -> Chosen:
        """Tensors one by one beside layers, by kind, that are there whole."""
        kept, rest = Counter[Tensor](), Counter[Tensor]()
        gain = sum(full.values()) * self.whole
        for kind, number in layers.items():
            whole = full.get(kind, 0)
            for tensor, each in self.kinds.counted[kind].items():
                kept[tensor] += whole * each
                gain += whole * each * self.gains[tensor]
                rest[tensor] += (number - whole) * each
        tensors = [tensor for tensor in rest if self.gains[tensor] > 0]
        items = [Item(t.bytes, self.gains[t], rest[t]) for t in tensors]
        found = best_choice(items, room)
        for tensor, count in zip(tensors, found.taken, strict=True):
            kept[tensor] += count
        slack = sum(layers.values()) * self.whole if self.whole and not full else 0
        whole_layers = {self.kinds.experts[kind]: number for kind, number in full.items()}
        return Chosen(kept, whole_layers, gain + found.gain, gain + found.bound + slack)


def _rate(part: Part) -> int:
    return gain_a_byte(*part)


def _number(room: int, size: int) -> int:
    """How many of a size fit."""
    return room // size if size else 2**30


def _is_below(one: Part, middle: Part, other: Part) -> bool:
    """Whether the middle corner lies on or below the line between the others."""
    rise = (middle.gain - one.gain) * (other.bytes - one.bytes)
    return rise <= (other.gain - one.gain) * (middle.bytes - one.bytes)


def _slices(sums: Any) -> Any:
    """Sum over [i, j) by i and j."""
    return sums[None, :] - sums[:, None]


def _share(left: Any, top: Part, dtype: Any) -> Any:
    """Gain of so many bytes at the gain per byte of a part, rounded up where 64 bits are short."""
    if not top.bytes:
        return np.zeros_like(left)
    if dtype is object:
        return left * top.gain // top.bytes
    shift = max(0, int(left.max()).bit_length() + top.gain.bit_length() - 62)
    rounded = -(-left >> shift)
    return rounded * top.gain // max(1, top.bytes >> shift)
