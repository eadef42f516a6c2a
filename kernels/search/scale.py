"""How much of a mix fits: an exact critical ratio, found by integers."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import ceil

from kvplan.kernels.largest import bisect_largest
from kvplan.kernels.search.bounds import Bounds, LeastDemand
from kvplan.kernels.search.search import Search


def raise_scale(search: Search, bounds: list[Bounds]) -> tuple[list[Bounds], Fraction | None]:
    """Settle the mix at the largest multiple that any bounds allow; none are left if none fit."""
    reached = [
        (max([_beside(search, each, demand) for demand in fitting]), each)
        for each in bounds
        if (fitting := [d for d in search.demands(each) if search.fits(each, d)])
    ]
    if not reached:
        return [], None
    best = max(scale for scale, _ in reached)
    return [each._replace(scale=best) for scale, each in reached if scale == best], best


def _beside(search: Search, bounds: Bounds, demand: LeastDemand) -> Fraction:
    """The largest scale beside a least demand that fits.

    Growing beyond it takes one more step of some pool p: there s = n / (blocks of p a copy), with n
    a multiple that p may have. So the largest n that fits is sought pool by pool.
    """
    per_copy, best = search.demand.mix(bounds.chunk), Fraction(bounds.scale)
    multiples = [pool.multiple for pool in search.shape.pools]

    def fits(steps: int, step: Fraction) -> bool:
        mine = [ceil(steps * step * each) for each in per_copy]
        usable = [
            max(held, -(-blocks // multiple) * multiple)
            for held, blocks, multiple in zip(demand.usable, mine, multiples, strict=False)
        ]
        contexts = demand.usable[len(usable) :]
        return search.fits(bounds, demand._replace(usable=(*usable, *contexts)))

    for pool, (each, multiple) in enumerate(zip(per_copy, multiples, strict=True)):
        if each:
            step = multiple / each
            low, most = int(best // step), search.blocks_beside(bounds, demand, pool) // multiple
            if most > low:
                best = max(best, bisect_largest(partial(fits, step=step), low, most) * step)
    return best
