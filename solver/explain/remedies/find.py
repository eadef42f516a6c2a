"""Single changes that make a problem feasible, each verified; and those that cannot."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from shlex import quote
from typing import NamedTuple

from kvplan.models import InvalidProblem, Remedy, RuledOut
from kvplan.models.reading.paths import item_path
from kvplan.solver.explain.conflict.items import Item
from kvplan.solver.explain.feasible import UnprovenError
from kvplan.solver.explain.remedies.component_knobs import component_knobs
from kvplan.solver.explain.remedies.knob import turned
from kvplan.solver.explain.remedies.rank_knobs import common_quota, rank_knobs
from kvplan.solver.explain.remedies.request_knobs import request_knobs
from kvplan.solver.explain.remedies.what_if import WhatIf


class Found(NamedTuple):
    """Remedies, those that change least (relative to the value) first, and what cannot help."""

    remedies: tuple[Remedy, ...]
    ruled_out: tuple[RuledOut, ...]


def find_remedies(what_if: WhatIf) -> Found:
    """Try every knob, then the variants; each is verified as `--set` would apply it."""
    knobs = chain(rank_knobs(what_if), request_knobs(what_if), component_knobs(what_if))
    results = list(turned(what_if, knobs))
    if not any(_raises_quota(result) for result in results):
        results += turned(what_if, common_quota(what_if))
    sized = [result for result in results if not isinstance(result, RuledOut)]
    ruled_out = [result for result in results if isinstance(result, RuledOut)]
    remedies = [remedy for _, remedy in sorted(sized, key=lambda entry: entry[0])]
    for outcome in (*_variants(what_if), *_choices(what_if)):
        (remedies if isinstance(outcome, Remedy) else ruled_out).append(outcome)  # type: ignore[arg-type]
    return Found(tuple(remedies), tuple(ruled_out))


def _raises_quota(result: tuple[Fraction, Remedy] | RuledOut) -> bool:
    return not isinstance(result, RuledOut) and result[1].change.endswith(".quota")


def _variants(what_if: WhatIf) -> Iterator[Remedy | RuledOut]:
    """Every variant as a whole."""
    for index, variant in enumerate(what_if.problem.variants):
        change = item_path("variants", what_if.problem.variants, index)
        try:
            what_if.changed(*variant.set)
        except InvalidProblem as error:
            yield RuledOut(change, f"invalid: {error.faults[0]}")
            continue
        try:
            helps = what_if.fits_with(*variant.set)
        except UnprovenError:
            continue
        if not helps:
            who = "" if variant.name in change else f"{variant.name} "
            yield RuledOut(change, f"{who}does not help: {what_if.why_not(*variant.set)}")
            continue
        flags = " ".join(f"--set {quote(entry)}" for entry in variant.set)
        note = f" ({variant.note})" if variant.note else ""
        yield Remedy(change, None, variant.name, f"variant {variant.name}{note}: {flags}")


def _choices(what_if: WhatIf) -> Iterator[RuledOut]:
    """Options are the solver's to choose: all of them were tried."""
    for index, choice in enumerate(what_if.problem.choices):
        if Item("choice", (index,)) not in what_if.conflict or len(choice.options) < 2:
            continue
        change = item_path("choices", what_if.problem.choices, index)
        yield RuledOut(change, f"all {len(choice.options)} options were tried")
