"""Fill and the last stage by CP-SAT, where constraints or weighted goals tie blocks together."""

from __future__ import annotations

from fractions import Fraction

from kvplan.kernels.bytes import least_kept, most_blocks, pool_bytes
from kvplan.kernels.instance import Budget
from kvplan.kernels.nested import Search
from kvplan.kernels.values import Point
from kvplan.solver.answer.in_use import row_bytes
from kvplan.solver.cpsat.program import Program
from kvplan.solver.cpsat.shortcut import keep_experts, lower_blocks
from kvplan.solver.cpsat.solve import Driver, Verdict, negated


def fill_coupled(nested: Search, program: Program, driver: Driver, decided: list[Fraction]) -> bool:
    """Shares, experts kept in prefill, and every other pool at its smallest legal value.

    Fill by pools or copies is among the decided goals already. Returns whether every step was
    proven.
    """
    instance, variables = nested.instance, program.variables
    steps = []
    for pool, cap in _share_caps(nested, program, driver):
        # Where no point fits the share, the pool takes as few blocks as still hold.
        reachable = max(cap, _fewest(program, driver, pool))
        program.model.bound(variables.usable[pool], most=reachable)
        steps.append(driver.maximize(variables.usable[pool]))
    shared = {pool for pool, _ in instance.fill_shares}
    if shared or not keep_experts(nested, program, decided):
        steps.append(driver.maximize(variables.kept))
    for pool in range(len(instance.pools)):
        if pool in instance.fill_pools or pool in shared:
            continue
        if not lower_blocks(nested, program, decided, pool):
            steps.append(driver.maximize(negated(variables.usable[pool])))
    return all(step is Verdict.OPTIMAL for step in steps)


def _share_caps(nested: Search, program: Program, driver: Driver) -> list[tuple[int, int]]:
    """The cap of each share pool: its share of what all but the share pools leave."""
    instance = nested.instance
    if not instance.fill_shares:
        return []
    point = _at_fewest(nested, program, driver)
    caps = []
    for pool, share in instance.fill_shares:
        limits = [
            most_blocks(int(share * _rest(nested, row, point) // 1), row.pools[pool])
            for row in instance.budgets
            if row.pools and row.pools[pool]
        ]
        cap = min(limits) - instance.pools[pool].reserved
        cap = cap // instance.pools[pool].multiple * instance.pools[pool].multiple
        caps.append((pool, max(cap, point.usable[pool])))
    return caps


def _rest(nested: Search, row: Budget, point: Point) -> int:
    """Room of a row less everything but the share pools."""
    instance = nested.instance
    mine = sum(
        pool_bytes(point.usable[pool] + instance.pools[pool].reserved, row.pools[pool])
        for pool, _ in instance.fill_shares
    )
    return row.limit_bytes - row_bytes(instance, row, point) + mine


def _at_fewest(nested: Search, program: Program, driver: Driver) -> Point:
    """The decided point with each pool at the fewest blocks it could have, kept experts too."""
    point = program.point()
    experts = nested.instance.experts
    return point._replace(
        usable=tuple(_fewest(program, driver, pool) for pool in range(len(point.usable))),
        kept=least_kept(point.experts, experts) if experts else 0,
    )


def _fewest(program: Program, driver: Driver, pool: int) -> int:
    """The fewest blocks of a pool beside all that is decided, found on a copy."""
    copy = program.copy()
    on_copy = Driver(copy, driver.time_left())
    on_copy.maximize(negated(copy.variables.usable[pool]))
    driver.deterministic_time += on_copy.deterministic_time
    return copy.model.value(copy.variables.usable[pool])
