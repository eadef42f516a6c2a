"""The rows of the integer program: one function per rule."""

from __future__ import annotations

from functools import partial
from itertools import groupby

from kvplan.kernels.instance import Budget, Buffers, Instance, Objective
from kvplan.kernels.values import rises
from kvplan.solver.cpsat.model.integer_model import Model
from kvplan.solver.cpsat.model.linear_forms import Linear, constant, total
from kvplan.solver.cpsat.program.allocations import paged_bytes
from kvplan.solver.cpsat.program.decision_variables import Variables
from kvplan.solver.cpsat.program.sizes import one_layer_bytes
from kvplan.solver.cpsat.program.workspaces import workspace_form


def add_floors(
    model: Model, instance: Instance, variables: Variables, raws: list[list[Linear]]
) -> None:
    """usable x u_num >= raw x u_den for every batch and pool: an exact ceil by integrality."""
    for raw in raws:
        for pool, usable, need in zip(instance.pools, variables.usable, raw, strict=True):
            model.bound(total([(pool.use_num, usable), (-pool.use_den, need)]), least=0)


def add_lending(model: Model, instance: Instance, variables: Variables) -> None:
    """Ep <= E, E - Ep <= floor(fraction x E), Ep >= min(E, keep)."""
    experts = instance.experts
    if experts is None or not experts.lend_num:
        return
    lent = total([(1, variables.experts), (-1, variables.kept)])
    model.bound(lent, least=0)
    allowed = total([(experts.lend_num, variables.experts), (-experts.lend_den, lent)])
    model.bound(allowed, least=0)
    floor = model.smallest(variables.experts, constant(experts.keep))
    model.bound(total([(1, variables.kept), (-1, floor)]), least=0)


def pool_bytes(model: Model, allocated: Linear, buffers: Buffers) -> Linear:
    """Sum over the buffers of ceil(n x bytes / granule) x granule; pages are shared by budgets."""
    return total(
        (1, paged_bytes(model, total([(size, allocated)]), granule)) for size, granule in buffers
    )


def sized_slots(model: Model, slots: Linear, sizes: tuple[tuple[int, int], ...]) -> Linear:
    """Bytes of the first slots of one layer: each size takes what the earlier ones leave.

    With r_i = max(0, slots - those of earlier sizes) size i takes r_i - r_(i+1). Sizes that are
    equal in a row count as one; those that no slot reaches are left out.
    """
    forms: list[tuple[int, Linear]] = []
    before, previous, high = 0, 0, model.high(slots)
    for size, run in groupby(sizes, key=lambda entry: entry[1]):
        if before and before >= high:
            break
        left = model.largest(constant(0), total([(1, slots), (-1, constant(before))]))
        forms.append((size - previous, left))
        before, previous = before + sum([count for count, _ in run]), size
    if len(forms) == 1:
        return total(forms)
    taken = total(forms)
    low, high = (one_layer_bytes(sizes, end) for end in (model.low(slots), high))
    one_layer = model.integer(low, high, model.value(taken))
    model.bound(total([(1, one_layer), (-1, taken)]), 0, 0)
    return one_layer


def budget_bytes(model: Model, instance: Instance, variables: Variables, budget: Budget) -> Linear:
    """All that lives on a rank in a phase, fixed consumers apart."""
    forms: list[tuple[int, Linear]] = []
    for pool, usable, buffers in zip(instance.pools, variables.usable, budget.pools, strict=False):
        allocated = total([(1, usable), (1, constant(pool.reserved))])
        forms.append((1, pool_bytes(model, allocated, buffers)))
    if budget.layers and instance.experts is not None:
        slots = variables.kept if budget.lent else variables.experts
        one_layer = sized_slots(model, slots, instance.experts.sizes)
        arena = paged_bytes(model, total([(budget.layers, one_layer)]), instance.experts.granule)
        forms.append((1, arena))
    if budget.staging:
        forms.append((1, variables.chunk.table(model, budget.staging)))
    for workspace in budget.workspaces:
        shared = ("workspace", workspace)
        forms.append(
            (1, model.shared(shared, partial(workspace_form, model, variables, workspace)))
        )
    for literals, options in zip(variables.options, budget.options, strict=True):
        forms.append((1, model.table(literals, options)))
    return total(forms)


def add_budgets(model: Model, instance: Instance, variables: Variables) -> None:
    """Bytes of every merged budget within its limit: the tightest rank rules."""
    for budget in instance.budgets:
        model.bound(budget_bytes(model, instance, variables, budget), most=budget.limit_bytes)


def add_linear(
    model: Model, instance: Instance, variables: Variables, copies: dict[int, Linear]
) -> None:
    """The user's linear constraints."""
    for constraint in instance.constraints:
        forms: list[tuple[int, Linear]] = []
        for coefficient, (kind, index), option in constraint.members:
            if kind == "choice":
                forms.append((coefficient, variables.options[index][option]))
            else:
                forms.append(
                    (coefficient, form_of(model, instance, variables, copies, kind, index))
                )
        model.bound(total(forms), constraint.least, constraint.most)


def form_of(
    model: Model,
    instance: Instance,
    variables: Variables,
    copies: dict[int, Linear],
    kind: str,
    index: int,
) -> Linear:
    """The form of a variable; a choice is worth minus the index of its option."""
    if kind == "blocks":
        return variables.usable[index]
    if kind == "capacity":
        return variables.capacities[index]
    if kind == "count":
        return variables.counts[index]
    if kind == "prefill":
        return variables.chunk.table(model, instance.chunks)
    if kind == "experts":
        return variables.experts
    if kind == "choice":
        return model.table(variables.options[index], range(0, -len(variables.options[index]), -1))
    return copies[index]


def copies_of_batches(
    model: Model,
    instance: Instance,
    variables: Variables,
    raws: list[list[Linear]],
    goals: tuple[Objective, ...],
) -> dict[int, Linear]:
    """Copies of every batch that some goal or constraint counts."""
    terms = [term for goal in goals for term in goal.members if term.variable.kind == "copies"]
    members = [
        (coefficient, variable.position, constraint)
        for constraint in instance.constraints
        for coefficient, variable, _ in constraint.members
        if variable.kind == "copies"
    ]
    capped = {term.variable.position for term in terms if not rises(term)}
    for coefficient, batch, constraint in members:
        if (constraint.most if coefficient > 0 else constraint.least) is not None:
            capped.add(batch)
    used = {term.variable.position for term in terms} | {batch for _, batch, _ in members}
    return {
        batch: add_copies(model, instance, variables, raws[batch], exact=batch in capped)
        for batch in sorted(used)
    }


def add_copies(
    model: Model, instance: Instance, variables: Variables, raw: list[Linear], *, exact: bool
) -> Linear:
    """Whole copies that the blocks hold: the largest k with k raw u_den <= usable u_num.

    k fits in every pool. Where more copies may be worth less (`exact`), k + 1 fails in at least
    one, and nothing needed anywhere is 0 copies; else what asks for copies drives k up by itself.
    """
    needs = [
        (pool, usable, need)
        for pool, usable, need in zip(instance.pools, variables.usable, raw, strict=True)
        if model.high(need)
    ]
    held = [
        model.high(usable) * pool.use_num // (max(1, model.low(need)) * pool.use_den)
        for pool, usable, need in needs
    ]
    sure = [most for most, (_, _, need) in zip(held, needs, strict=True) if model.low(need) > 0]
    holding = [
        model.value(usable) * pool.use_num // (model.value(need) * pool.use_den)
        for pool, usable, need in needs
        if model.value(need)
    ]
    copies = model.integer(0, min(sure) if sure else max(held), min(holding, default=0))
    full = []
    for pool, usable, need in needs:
        taken = model.product(copies, need)
        rest = total([(pool.use_num, usable), (-pool.use_den, taken)])
        model.bound(rest, least=0)
        if exact:
            short = total([(1, rest), (-pool.use_den, need)])
            literal = model.boolean(model.value(short) < 0)
            model.bound(short, most=-1, when=literal)
            full.append(literal)
    if not sure:
        empty = model.boolean(not holding)
        model.bound(total((1, need) for _, _, need in needs), most=0, when=empty)
        model.bound(copies, most=0, when=empty)
        some = total([(1, empty), *((1, need) for _, _, need in needs)])
        model.bound(some, least=1)
        full.append(empty)
    if exact:
        model.bound(total((1, literal) for literal in full), least=1)
    return copies
