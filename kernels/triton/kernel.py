"""The kernel: a tile of scenarios per program, lanes over options, classes and least demands."""

# mypy: ignore-errors

import triton
import triton.language as tl

from kvplan.kernels.triton.demand import usable_blocks
from kvplan.kernels.triton.search import (
    fill,
    largest,
    most,
    most_kept,
    possible,
    share_out,
    some,
    split,
)
from kvplan.kernels.triton.tile_state import State, settled, within

NOTHING: tl.constexpr = tl.constexpr(-(1 << 60))  # as the value of a goal


@triton.jit
def column(pointer, scenario, inside, step):
    """One input column as [scenario, 1, 1, 1]; step 0 reads the same figure everywhere."""
    return tl.load(pointer + scenario * step, mask=inside, other=0)


@triton.jit
def write(out, value, scenario, inside, feasible, number, PLACE: tl.constexpr):
    """One decision, 0 where nothing fits."""
    value = tl.where(feasible, value, 0) + scenario * 0
    tl.store(out + PLACE * number + scenario, value, mask=inside)


@triton.jit
def budget_limits(inputs, steps, tables, scenario, inside, option, SPEC: tl.constexpr):
    """Limits less the bytes of options, by budget: [scenario, option, 1, 1]."""
    limits = ()
    for b in tl.static_range(len(SPEC.budgets)):
        limit = column(inputs + tl.load(tables + b), scenario, inside, tl.load(steps + b))
        if SPEC.budgets[b][4] >= 0:
            limit = limit - tl.load(tables + SPEC.budgets[b][4] + option)
        limits = limits + (limit + option * 0,)
    return limits


@triton.jit
def columns(inputs, steps, tables, scenario, inside, FIRST: tl.constexpr, N: tl.constexpr):
    """Consecutive input columns."""
    found = ()
    for i in tl.static_range(N):
        place = tl.load(tables + FIRST + i)
        step = tl.load(steps + FIRST + i)
        found = found + (column(inputs + place, scenario, inside, step),)
    return found


@triton.jit
def start_of(inputs, steps, tables, scenario, inside, option, SPEC: tl.constexpr):
    """The state with nothing decided."""
    F: tl.constexpr = len(SPEC.fitted)
    B: tl.constexpr = len(SPEC.budgets)
    chunk_most, experts_most = columns(inputs, steps, tables, scenario, inside, B + 3 * F, 2)
    zero = scenario * 0
    blocks = ()
    for _ in tl.static_range(len(SPEC.pools)):
        blocks = blocks + (zero,)
    copies = ()
    for _ in tl.static_range(len(SPEC.copied)):
        copies = copies + (zero,)
    return State(
        low=columns(inputs, steps, tables, scenario, inside, B, F),
        high=columns(inputs, steps, tables, scenario, inside, B + F, F),
        other=columns(inputs, steps, tables, scenario, inside, B + 2 * F, F),
        chunk=zero,
        chunk_most=chunk_most,
        experts=zero + SPEC.least_slots,
        experts_most=experts_most,
        blocks=blocks,
        copies=copies,
        limits=budget_limits(inputs, steps, tables, scenario, inside, option, SPEC),
        tables=tables,
    )


@triton.jit
def search_kernel(
    inputs,  # int64, all columns one after the other
    steps,  # int64 [column]: 1, or 0 for a column of one figure
    tables,  # int64: places of the columns, then the tables of SPEC
    out,  # int64 [decision, scenario]
    number,
    TILE: tl.constexpr,
    SPEC: tl.constexpr,
):
    """Every decision of a tile of scenarios."""
    lane = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    scenario = lane[:, None, None, None]
    inside = scenario < number
    F: tl.constexpr = len(SPEC.fitted)
    option = tl.arange(0, SPEC.starts)[None, :, None, None].to(tl.int64)
    state = start_of(inputs, steps, tables, scenario, inside, option, SPEC)
    alive = (option < SPEC.options) & possible(state, -1, SPEC.steps[0], SPEC)
    feasible = some(alive, 1)
    chosen = scenario * 0
    for g in tl.static_range(1, len(SPEC.steps) - 1):  # the last one is the end
        if SPEC.steps[g][0] == "settle":
            first = most(tl.where(alive, SPEC.starts - option, 0), 1)
            chosen = tl.minimum(SPEC.starts - first, SPEC.starts - 1)
            alive = some(alive, 1)
            limits = budget_limits(inputs, steps, tables, scenario, inside, chosen, SPEC)
            state = within(state, limits)
        else:
            reached = largest(state, option, SPEC.steps[g], SPEC)
            best = most(tl.where(alive, reached, NOTHING), 1)
            alive = alive & (reached == best)
            if SPEC.steps[g][0] != "choice":
                state = settled(state, SPEC.steps[g][0], SPEC.steps[g][1], best)
    capacity, count = split(state, -1, SPEC.steps[len(SPEC.steps) - 1], SPEC)
    usable = usable_blocks(capacity, count, state, SPEC)
    usable = fill(usable, state, SPEC)
    usable = share_out(usable, state, SPEC)
    write(out, feasible.to(tl.int64), scenario, inside, feasible, number, 0)
    write(out, state.chunk, scenario, inside, feasible, number, 1)
    write(out, chosen, scenario, inside, feasible, number, 2)
    write(out, state.experts, scenario, inside, feasible, number, 3)
    if len(SPEC.experts) > 0:
        kept = most_kept(usable, state, SPEC)
        write(out, kept, scenario, inside, feasible, number, 4)
    for i in tl.static_range(F):
        write(out, capacity[i], scenario, inside, feasible, number, 5 + i)
        write(out, count[i], scenario, inside, feasible, number, 5 + F + i)
    for p in tl.static_range(len(SPEC.pools)):
        write(out, usable[p], scenario, inside, feasible, number, 5 + 2 * F + p)
