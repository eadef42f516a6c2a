"""Experts on other cards: CP-SAT from the cheapest path, among cuts that can still be better."""

from __future__ import annotations

from kvplan.models.errors import SolverError
from kvplan.solver.place.search.reach_bound import ReachBound
from kvplan.solver.place.search.spread import Spread, Spreading

FIRST_SLICE, SLICE = 0.2, 3.0  # deterministic time, of the path's own cuts and of all that are left
SHORT_SLICE, LARGE = 0.5, 320  # where slots x spaces are more, proofs are rare


def best_within(spread: Spread, start: Spreading) -> Spreading:
    """The best answer that was found, and whether it is proven.

    Parameters
    ----------
    start : an answer with every expert on its layer's card.

    Raises
    ------
    SolverError : CP-SAT failed.
    """
    from kvplan.solver.cpsat.place_program import best_spreading

    bound = ReachBound(spread)
    cuts, best = bound.cuts(None), start._replace(is_proven=False)
    try:
        path = best_spreading(spread, ends=cuts.ends, least=cuts.least, slice_time=FIRST_SLICE)
    except SolverError:  # nothing found in this time, and nothing ruled out
        path = None
    if path is not None and bound.cost(path) < bound.cost(best):
        best = path._replace(is_proven=False)
    cuts = bound.cuts(best)
    if cuts.is_closed:
        return best._replace(is_proven=True)
    time = SHORT_SLICE if len(spread.slots) * len(spread.spaces) > LARGE else SLICE
    found = best_spreading(spread, best, ends=cuts.ends, least=cuts.least, slice_time=time)
    if found is None:
        return best._replace(is_proven=True)
    if bound.cost(found) >= bound.cost(best):  # the cuts hold worse ones, too
        found = best._replace(is_proven=found.is_proven)
    return found if found.is_proven else found._replace(gap=bound.gap(found, cuts.least))
