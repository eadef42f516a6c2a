"""Single changes that make a problem feasible, each verified; and those that cannot."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import chain
from typing import NamedTuple

from kvplan.models import InvalidProblem, Remedy, RuledOut
from kvplan.solver.explain.case import Case
from kvplan.solver.explain.demands import Item
from kvplan.solver.explain.knobs import turned
from kvplan.solver.explain.part_knobs import part_knobs
from kvplan.solver.explain.paths import item_path
from kvplan.solver.explain.rank_knobs import common_quota, rank_knobs
from kvplan.solver.explain.request_knobs import request_knobs


class Found(NamedTuple):
    """Remedies, those that change least (relative to the value) first, and what cannot help."""

    remedies: tuple[Remedy, ...]
    ruled_out: tuple[RuledOut, ...]


def find_remedies(case: Case) -> Found:
    """Turn every knob, then the variants; verified one by one with `--set`'s own means."""
    knobs = chain(rank_knobs(case), request_knobs(case), part_knobs(case))
    results = list(turned(case, knobs))
    if not any(_raises_quota(result) for result in results):
        results += turned(case, common_quota(case))
    sized = [result for result in results if not isinstance(result, RuledOut)]
    ruled_out = [result for result in results if isinstance(result, RuledOut)]
    remedies = [remedy for _, remedy in sorted(sized, key=lambda entry: entry[0])]
    for outcome in (*_variants(case), *_choices(case)):
        (remedies if isinstance(outcome, Remedy) else ruled_out).append(outcome)  # type: ignore[arg-type]
    return Found(tuple(remedies), tuple(ruled_out))


def _raises_quota(result: tuple[Fraction, Remedy] | RuledOut) -> bool:
    return not isinstance(result, RuledOut) and result[1].change.endswith(".quota")


def _variants(case: Case) -> Iterator[Remedy | RuledOut]:
    """Every variant as a whole."""
    for index, variant in enumerate(case.problem.variants):
        change = item_path("variants", case.problem.variants, index)
        try:
            case.changed(*variant.set)
        except InvalidProblem as error:
            yield RuledOut(change, f"no legal problem: {error.faults[0]}")
            continue
        if not case.fits_with(*variant.set):
            yield RuledOut(change, f"does not help: {case.why_not(*variant.set)}")
            continue
        flags = " ".join(f"--set '{entry}'" for entry in variant.set)
        note = f" ({variant.note})" if variant.note else ""
        yield Remedy(change, None, variant.name, f"variant {variant.name}{note}: {flags}")


def _choices(case: Case) -> Iterator[RuledOut]:
    """Options are the solver's to choose: all of them were tried."""
    for index, choice in enumerate(case.problem.choices):
        if Item("choice", (index,)) not in case.conflict or len(choice.options) < 2:
            continue
        change = item_path("choices", case.problem.choices, index)
        yield RuledOut(change, f"all {len(choice.options)} options were tried")
