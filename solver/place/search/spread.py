"""A placement program in integers: slots in model order, spaces in slice order, values fixed."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Literal, NamedTuple

from kvplan.solver.place.search.clock import PICOSECONDS, Clock, clock_of

Objective = Literal["layers_on_gpu", "experts_on_gpu", "speed"]
Cost = tuple[int | Fraction, ...]
ExpertReach = Literal["own", "next", "any"]


class Tensor(NamedTuple):
    """What moves as one: an expert tensor, a layer's tensors together, or one expert.

    Attributes
    ----------
    reads : bytes that a token reads, of each tensor in it.
    """

    bytes: int
    reads: tuple[int, ...]


class Slot(NamedTuple):
    """A layer, or the output behind the last one.

    Attributes
    ----------
    fixed : bytes in all phases: dense weights.
    held : bytes in all phases but load: the same with states, and with caches at the values.
    read : bytes that a token reads of what is held.
    experts : tensors that may lie elsewhere.
    """

    fixed: int
    held: int
    read: int
    experts: tuple[Tensor, ...] = ()
    is_layer: bool = True


class Space(NamedTuple):
    """A memory space.

    Attributes
    ----------
    room, load_room : bytes for slots and experts, in the tightest phase but load, and in load.
    base : bytes taken once it holds a slot or an expert.
    rate : bytes a second; 0: unknown.
    """

    name: str
    room: int
    load_room: int
    base: int = 0
    rate: int = 0

    def picoseconds(self, read_bytes: int) -> int:
        """Time to read so many bytes, for reports, rounded down: bytes x 10^12 // rate."""
        return read_bytes * PICOSECONDS // self.rate if self.rate else 0


class Spread(NamedTuple):
    """Contiguous slices of slots on spaces in order, experts apart.

    Attributes
    ----------
    host : position of the space that is no stage; None without one.
    reach : where experts may lie beside the host: own, the next space too, or any.
    hop : picoseconds of a change of space.
    mirror : the host holds every expert as well.
    objectives : in order; all are minimised as what stays off the cards, or as time.
    """

    slots: tuple[Slot, ...]
    spaces: tuple[Space, ...]
    host: int | None = None
    reach: ExpertReach = "own"
    hop: int = 0
    mirror: bool = False
    objectives: tuple[Objective, ...] = ("speed",)

    def clock(self) -> Clock:
        """Exact ticks of a token's time."""
        reads = [slot.read for slot in self.slots]
        reads += [read for slot in self.slots for t in slot.experts for read in t.reads]
        return clock_of(reads, [space.rate for space in self.spaces], self.hop)

    @property
    def cards(self) -> tuple[int, ...]:
        """Positions of the spaces that are not the host."""
        return tuple(at for at in range(len(self.spaces)) if at != self.host)

    def may_hold(self, own: int) -> tuple[int, ...]:
        """Positions where experts of a slice may lie, the host apart."""
        if own == self.host:
            return ()
        if self.reach == "own":
            return (own,)
        cards = self.cards
        if self.reach == "any":
            return cards
        at = cards.index(own)
        return cards[at : at + 2]


class Spreading(NamedTuple):
    """An answer: where each slot and each expert tensor lies.

    Attributes
    ----------
    ends : first slot behind each space's slice.
    experts : by slot, the space of each tensor.
    is_proven : nothing is better, by the search or by CP-SAT.
    gap : share of the first objective that a better answer may save at most; 0: none is known.
    """

    ends: tuple[int, ...]
    experts: tuple[tuple[int, ...], ...]
    is_proven: bool = False
    gap: Fraction = Fraction(0)

    def spaces(self) -> list[int]:
        """Space of each slot."""
        found: list[int] = []
        for at, end in enumerate(self.ends):
            found += [at] * (end - len(found))
        return found


class Measures(NamedTuple):
    """What an answer comes to.

    Attributes
    ----------
    seconds : a token's time, exact.
    picoseconds : the same for reports, each read rounded down.
    """

    layers_off: int
    experts_off: int
    seconds: Fraction
    picoseconds: int
    spaces: int
    used: tuple[int, ...]
    load: tuple[int, ...]

    def cost(self, objectives: tuple[Objective, ...]) -> Cost:
        """The objectives in order, then the count of spaces: the smaller, the better."""
        worth: dict[str, int | Fraction] = {
            "layers_on_gpu": self.layers_off,
            "experts_on_gpu": self.experts_off,
            "speed": self.seconds,
        }
        return (*(worth[each] for each in objectives), self.spaces)


def measure(spread: Spread, answer: Spreading) -> Measures:
    """Bytes, counts and time of an answer, tensor by tensor."""
    own, count = answer.spaces(), len(spread.spaces)
    used, load, time, ticks = [0] * count, [0] * count, 0, 0
    clock = spread.clock()
    layers_off = experts_off = apart = 0
    for slot, at, lies in zip(spread.slots, own, answer.experts, strict=True):
        space = spread.spaces[at]
        used[at], load[at] = used[at] + slot.held, load[at] + slot.fixed
        time, ticks = time + space.picoseconds(slot.read), ticks + clock.of(at, slot.read)
        layers_off += slot.is_layer and at == spread.host
        apart += any(place != at for place in lies)
        for (tensor, place), number in Counter(zip(slot.experts, lies, strict=True)).items():
            held = {place, spread.host} if spread.mirror and spread.host is not None else {place}
            for each in held:
                used[each] += number * tensor.bytes
                load[each] += number * tensor.bytes
            time += number * sum([spread.spaces[place].picoseconds(r) for r in tensor.reads])
            ticks += number * clock.of_tensor(place, tensor)
            experts_off += number * (place == spread.host)
    spaces = set(own)
    for at in spaces.union(*answer.experts):
        used[at] += spread.spaces[at].base
        load[at] += spread.spaces[at].base
    hops = len(spaces) - 1 + 2 * apart
    time, seconds = time + spread.hop * hops, clock.seconds(ticks + clock.hop * hops)
    counts = (layers_off, experts_off)
    return Measures(*counts, seconds, time, len(spaces), tuple(used), tuple(load))


def short_by(spread: Spread, measures: Measures) -> list[int]:
    """Bytes that each space is short of, 0 where it is not."""
    return [
        max(0, used - space.room, load - space.load_room)
        for space, used, load in zip(spread.spaces, measures.used, measures.load, strict=True)
    ]
