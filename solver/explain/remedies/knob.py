"""Knobs: fields of a problem that a single change may turn, and how far it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from kvplan.models import Remedy, RuledOut
from kvplan.solver.explain.conflict.items import Item
from kvplan.solver.explain.conflict.minimal import MOST_UNDECIDED
from kvplan.solver.explain.feasible import UnprovenError
from kvplan.solver.explain.nearest import nearest_in_stretches
from kvplan.solver.explain.remedies.what_if import WhatIf

Value = int | str
Find = Callable[[WhatIf, "Knob"], int | None]


@dataclass(frozen=True)
class Knob:
    """One field with its value now and the last value that could be asked of it.

    Values are integers in steps of the field (bytes, tokens, hundredths); `write` gives the text
    of a step.
    """

    change: str
    now: int
    last: int
    eases: frozenset[Item]  # demands of which it can only ease one; empty: any
    text: Callable[[int], str]
    write: Callable[[int], Value] = int
    was: Value | None = None  # what the field says now, where that is no step of it
    hint: int | None = None  # the value that probably works
    cuts: tuple[int, ...] = ()  # distances from `now` at which an "auto" granule changes
    is_aside: bool = False  # an unusual change, left out where it does not help
    is_one_way: bool = False  # values beyond `now`, which are not tried, may help
    find: Find | None = None  # another way to search than by bisection
    why_not: Callable[[WhatIf], str | None] = lambda _: None

    def written(self, value: int) -> str:
        """The override that sets a value."""
        return f"{self.change}={self.write(value)}"

    def search(self, what_if: WhatIf) -> int | None:
        """The nearest value that works, or None."""
        if self.find is not None:
            return self.find(what_if, self)
        sign = 1 if self.last > self.now else -1
        found = nearest_in_stretches(
            lambda far: what_if.fits_with(self.written(self.now + sign * far)),
            1,
            sign * (self.last - self.now),
            tuple(sorted(cut for cut in self.cuts if cut > 0)),
            None if self.hint is None else sign * (self.hint - self.now),
        )
        return None if found is None else self.now + sign * found


def turned(what_if: WhatIf, knobs: Iterator[Knob]) -> Iterator[tuple[Fraction, Remedy] | RuledOut]:
    """Every knob as a remedy with its relative change, or ruled out.

    A knob that eases no demand of the conflict cannot help: the conflict stays. Nor can one of a
    demand without which the problem does not fit either. Linear constraints may look at a value
    that eases nothing, so under them the first test is left out. Where CP-SAT leaves open whether
    a knob helps nothing is said of it; after a few of those no more are tried.
    """
    for knob in knobs:
        if knob.now == knob.last and knob.find is None:
            continue
        if what_if.undecided >= MOST_UNDECIDED:
            return
        reason = what_if.hopeless(knob.eases)
        try:
            value = None if reason else knob.search(what_if)
        except UnprovenError:
            what_if.undecided += 1
            continue
        if value is None:
            if not knob.is_aside and (reason or not knob.is_one_way):
                yield RuledOut(
                    knob.change, knob.why_not(what_if) or reason or _why_not(what_if, knob)
                )
            continue
        size = Fraction(abs(value - knob.now), max(abs(knob.now), 1))
        was = knob.write(knob.now) if knob.was is None else knob.was
        to = knob.write(value)
        yield (
            size,
            Remedy(knob.change, was, to, _spoken(what_if, knob.change, to, knob.text(value))),
        )


def _spoken(what_if: WhatIf, change: str, to: Value, text: str) -> str:
    """The remedy in the caller's own words, where the problem has a label for the field."""
    label = what_if.problem.labels.get(change)
    if label is None:
        return text
    flag = label if " " in label else f"{label} {to}"
    return f"{flag} ({text})"


def _why_not(what_if: WhatIf, knob: Knob) -> str:
    return f"even {knob.write(knob.last)} does not help: {what_if.why_not(knob.written(knob.last))}"


def hundredths(value: int) -> str:
    """A share in hundredths, as a flag says it: 0.93."""
    return f"{value // 100}.{value % 100:02d}" if value % 100 else str(value // 100)
