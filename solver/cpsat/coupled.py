"""Fill and the last stage by CP-SAT, where constraints or weighted goals tie blocks together."""

from __future__ import annotations

from math import lcm

from kvplan.kernels.values import Point
from kvplan.solver.cpsat.driver import Driver, Verdict
from kvplan.solver.cpsat.fill import share_caps
from kvplan.solver.cpsat.model.linear_forms import Linear, negated, total
from kvplan.solver.cpsat.program.given_needs import mix_needs
from kvplan.solver.cpsat.program.program import Program
from kvplan.solver.cpsat.program.sizes import fewest_kept


def fill_coupled(program: Program, driver: Driver) -> bool:
    """Shares, experts kept in prefill, and every other pool at its smallest legal value.

    Fill by pools or copies is among the decided goals already. Returns whether every step was
    proven.
    """
    instance, variables = program.instance, program.variables
    steps: list[Verdict] = []
    if instance.fill_shares:
        fewest, steps = _at_fewest(program, driver)
        for pool, cap in share_caps(instance, fewest):
            # Where no point fits the share, the pool takes as few blocks as still hold.
            least, step = driver.extreme(negated(variables.usable[pool]), keep=True)
            program.model.bound(variables.usable[pool], most=max(cap, fewest.usable[pool], -least))
            steps += [step, driver.maximize(variables.usable[pool])]
    steps.append(driver.maximize(variables.kept))
    shared = {pool for pool, _ in instance.fill_shares}
    for pool in range(len(instance.pools)):
        if pool not in instance.fill_pools and pool not in shared:
            steps.append(driver.maximize(negated(variables.usable[pool])))
    return all(step is Verdict.OPTIMAL for step in steps)


def mix_form(program: Program) -> tuple[Linear, int]:
    """Parts of a copy of the fill mix that the blocks hold, and how many a copy has.

    parts x need <= usable in every pool; the chunk is decided by now. As every largest multiple is
    blocks / (blocks a copy), a copy has as many parts as all numerators of these divide.
    """
    model, usable = program.model, program.variables.usable
    copy = mix_needs(program.instance, program.point().chunk)
    grid = lcm(*[each.numerator for each in copy if each])
    rows = [
        (form, each.denominator * (grid // each.numerator))
        for form, each in zip(usable, copy, strict=True)
        if each
    ]
    most = min(weight * model.high(form) for form, weight in rows)
    held = min(weight * model.value(form) for form, weight in rows)
    parts = model.integer(0, most, held)
    for form, weight in rows:
        model.bound(total([(weight, form), (-1, parts)]), least=0)
    return parts, grid


def _at_fewest(program: Program, driver: Driver) -> tuple[Point, list[Verdict]]:
    """The decided point with each pool at the fewest blocks it could have, kept experts too."""
    point = program.point()
    found = [driver.extreme(negated(form)) for form in program.variables.usable]
    usable = tuple([-value for value, _ in found])
    kept = fewest_kept(program.instance, point.experts)
    return point._replace(usable=usable, kept=kept), [step for _, step in found]
