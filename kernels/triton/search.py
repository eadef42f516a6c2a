"""The search of one tile of scenarios in Triton: goal by goal, then fill, then the rest.

Axes are [scenario, option, class, demand]: an option is one of each choice, classes are the residue
classes of the capacity that a goal raises, demands the low points of the capacities still free.
"""

# mypy: ignore-errors

import triton
import triton.language as tl

from kvplan.kernels.triton.demand import (
    budget_rests,
    fits,
    put,
    usable_blocks,
)
from kvplan.kernels.triton.rules import (
    expert_bytes,
    floor_div,
    least_kept,
    most_blocks,
    pool_bytes,
    rounded_down,
)
from kvplan.kernels.triton.tile_state import at_least, lower_bound, upper_bound


@triton.jit
def some(fit, AXIS: tl.constexpr):
    """Whether anything holds along an axis, which stays with length 1."""
    if fit.shape[AXIS] == 1:
        return fit
    else:
        return tl.max(fit.to(tl.int32), axis=AXIS, keep_dims=True) > 0


@triton.jit
def most(value, AXIS: tl.constexpr):
    """The largest along an axis, which stays with length 1."""
    if value.shape[AXIS] == 1:
        return value
    else:
        return tl.max(value, axis=AXIS, keep_dims=True)


@triton.jit
def low_point(state, AT: tl.constexpr, STEP: tl.constexpr, SPEC: tl.constexpr):
    """One low point of a free capacity of each demand; `low` where there are fewer."""
    FITTED: tl.constexpr = SPEC.fitted[AT]
    low = state.low[AT]
    lane = tl.arange(0, STEP[3])[None, None, None, :]
    at = (lane // STEP[4][AT]) % FITTED[4]
    known = (at > 0) & (at < FITTED[5])
    place = state.tables + FITTED[6] + tl.where(known, at - 1, 0) * 3
    stride = tl.where(known, tl.load(place), 1)
    offset = tl.where(known, tl.load(place + 1), 0)
    step = tl.where(known, tl.load(place + 2), 0)
    # low + 1 + ((offset - low - 1) mod stride) + step, without a negative operand
    point = low + stride - (low + stride - offset) % stride + step
    return tl.where(known & (point <= state.high[AT]), point, low)


@triton.jit
def demands(state, TRIAL: tl.constexpr, STEP: tl.constexpr, SPEC: tl.constexpr):
    """Capacities of every least demand; STEP[4] are strides of the free ones, 0 otherwise."""
    found = ()
    for i in tl.static_range(len(SPEC.fitted)):
        if STEP[4][i] > 0 and i != TRIAL:
            point = low_point(state, i, STEP, SPEC)
            found = found + (point,)
        else:
            found = found + (state.low[i],)
    return found


@triton.jit
def split(state, TRIAL: tl.constexpr, STEP: tl.constexpr, SPEC: tl.constexpr):
    """Capacities and counts by fitted request."""
    points = demands(state, TRIAL, STEP, SPEC)
    capacity = ()
    count = ()
    for i in tl.static_range(len(SPEC.fitted)):
        if SPEC.fitted[i][2]:
            capacity = capacity + (state.other[i],)
            count = count + (state.low[i],)
        else:
            capacity = capacity + (points[i],)
            count = count + (state.other[i],)
    return capacity, count


@triton.jit
def possible(state, TRIAL: tl.constexpr, STEP: tl.constexpr, SPEC: tl.constexpr):
    """Whether some least demand fits: [scenario, option, class, 1]."""
    capacity, count = split(state, TRIAL, STEP, SPEC)
    usable = usable_blocks(capacity, count, state, SPEC)
    return some(fits(usable, state, SPEC), 3)


@triton.jit
def raise_capacity(state, STEP: tl.constexpr, SPEC: tl.constexpr):
    """The requested capacity, or the best of one bisection a residue class; -1 for none."""
    Q: tl.constexpr = STEP[1]
    P: tl.constexpr = SPEC.fitted[Q][3]
    low = state.low[Q]
    high = state.high[Q]
    lane = tl.arange(0, STEP[2])[None, None, :, None]
    residue = tl.load(state.tables + SPEC.fitted[Q][7] + tl.minimum(lane, SPEC.fitted[Q][8] - 1))
    first = low + (P - (low + P - residue) % P) % P
    valid = (first < high) & (lane < SPEC.fitted[Q][8])
    first = tl.where(valid, first, low)
    above = floor_div(tl.where(valid, high - 1 - first, 0), P)
    # Round 0 tries the requested capacity; a class is then bisected from below its first step.
    fit = valid & (state.limits[0] < state.limits[0])
    at_high = fit
    start = tl.where(fit, 0, -1) + above * 0
    end = tl.where(valid, above, -1) + start * 0
    for turn in range(tl.load(state.tables + STEP[5]) + 2):
        middle = (start + end + 1) >> 1
        tried = tl.where(turn == 0, high + start * 0, first + tl.maximum(middle, 0) * P)
        fit = possible(at_least(state, "capacity", Q, tried), Q, STEP, SPEC)
        at_high = tl.where(turn == 0, fit, at_high)
        start = tl.where((turn > 0) & fit & (middle > start), middle, start)
        end = tl.where((turn > 0) & (fit == 0), tl.maximum(middle - 1, start), end)
    found = most(tl.where(start < 0, -1, first + start * P), 2)
    return tl.where(most(at_high.to(tl.int64), 2) > 0, high + found * 0, found)


@triton.jit
def raise_other(state, STEP: tl.constexpr, SPEC: tl.constexpr):
    """Count, chunk, slots or copies by bisection, given that the least fits: the largest."""
    KIND: tl.constexpr = STEP[0]
    zero = state.limits[0] * 0
    start = zero + lower_bound(state, KIND, STEP[1])
    end = tl.maximum(zero + upper_bound(state, KIND, STEP), start)
    for _ in range(tl.load(state.tables + STEP[5])):
        middle = (start + end + 1) >> 1
        fit = possible(at_least(state, KIND, STEP[1], middle), -1, STEP, SPEC)
        start = tl.where(fit, middle, start)
        end = tl.where(fit, end, middle - 1)
    return start


@triton.jit
def most_beside(rest, held, BUFFERS: tl.constexpr):
    """Most blocks of a pool in what is left and what it holds already."""
    limit = rest + pool_bytes(held, BUFFERS[0])
    return most_blocks(limit, BUFFERS[0], BUFFERS[1], BUFFERS[2])


@triton.jit
def most_in(P: tl.constexpr, rests, held, SPEC: tl.constexpr):
    """Usable blocks of one pool that fit beside everything else, which fits."""
    POOL: tl.constexpr = SPEC.pools[P]
    limit = rests[0] * 0 + held * 0 + SPEC.unbounded
    if POOL[5] >= 0:
        limit = limit * 0 + POOL[5]
    for b in tl.static_range(len(SPEC.budgets)):
        if len(SPEC.budgets[b][0]) > 0:
            if len(SPEC.budgets[b][0][P][0]) > 0:
                here = most_beside(rests[b], held + POOL[6], SPEC.budgets[b][0][P])
                limit = tl.minimum(limit, here - POOL[6])
    return tl.where(limit < 0, limit, rounded_down(tl.maximum(limit, 0), POOL[3]))


@triton.jit
def with_blocks(P: tl.constexpr, rests, before, after, SPEC: tl.constexpr):
    """What the budgets have left when a pool goes from one count to another."""
    out = ()
    for b in tl.static_range(len(SPEC.budgets)):
        rest = rests[b]
        if len(SPEC.budgets[b][0]) > 0:
            if len(SPEC.budgets[b][0][P][0]) > 0:
                rest = rest + pool_bytes(before + SPEC.pools[P][6], SPEC.budgets[b][0][P][0])
                rest = rest - pool_bytes(after + SPEC.pools[P][6], SPEC.budgets[b][0][P][0])
        out = out + (rest,)
    return out


@triton.jit
def raise_blocks(state, STEP: tl.constexpr, SPEC: tl.constexpr):
    """What the budgets leave, over every least demand of the others; -1 where none fits."""
    capacity, count = split(state, -1, STEP, SPEC)
    usable = usable_blocks(capacity, count, state, SPEC)
    rests = budget_rests(usable, state, SPEC)
    found = most_in(STEP[1], rests, usable[STEP[1]], SPEC)
    fit = fits(usable, state, SPEC)
    return most(tl.where(fit, found, -1), 3)


@triton.jit
def fill(usable, state, SPEC: tl.constexpr):
    """Pools of the last goals one after the other."""
    rests = budget_rests(usable, state, SPEC)
    for i in tl.static_range(len(SPEC.tail)):
        raised = most_in(SPEC.tail[i], rests, usable[SPEC.tail[i]], SPEC)
        rests = with_blocks(SPEC.tail[i], rests, usable[SPEC.tail[i]], raised, SPEC)
        usable = put(usable, SPEC.tail[i], raised)
    return usable


@triton.jit
def share_out(usable, state, SPEC: tl.constexpr):
    """Usable blocks within floor(share x (quota less all but the share pools)), pool by pool."""
    rests = budget_rests(usable, state, SPEC)
    shared = rests
    for i in tl.static_range(len(SPEC.shares)):
        held = usable[SPEC.shares[i][0]]
        shared = with_blocks(SPEC.shares[i][0], shared, held, held * 0, SPEC)
    for i in tl.static_range(len(SPEC.shares)):
        held = usable[SPEC.shares[i][0]]
        raised = most_by_share(rests, shared, held, SPEC.shares[i], SPEC)
        rests = with_blocks(SPEC.shares[i][0], rests, held, raised, SPEC)
        usable = put(usable, SPEC.shares[i][0], raised)
    return usable


@triton.jit
def most_by_share(rests, shared, held, SHARE: tl.constexpr, SPEC: tl.constexpr):
    """One pool's blocks within its share of every budget, its floor at least."""
    P: tl.constexpr = SHARE[0]
    cap = most_in(P, rests, held, SPEC)
    for b in tl.static_range(len(SPEC.budgets)):
        if len(SPEC.budgets[b][0]) > 0:
            if len(SPEC.budgets[b][0][P][0]) > 0:
                held_bytes = floor_div(tl.maximum(shared[b], 0) * SHARE[1], SHARE[2])
                reserved = held * 0 + SPEC.pools[P][6]
                here = most_beside(held_bytes, reserved, SPEC.budgets[b][0][P])
                cap = tl.minimum(cap, here - SPEC.pools[P][6])
    return tl.maximum(held, rounded_down(tl.maximum(cap, 0), SPEC.pools[P][3]))


@triton.jit
def most_kept(usable, state, SPEC: tl.constexpr):
    """Most expert slots that can stay during prefill beside everything else."""
    low = least_kept(state.experts, SPEC.experts)
    rests = budget_rests(usable, state, SPEC)
    start = low
    end = state.experts
    for _ in range(tl.load(state.tables + SPEC.kept_rounds)):
        middle = (start + end + 1) >> 1
        fit = middle >= 0
        for b in tl.static_range(len(SPEC.budgets)):
            if SPEC.budgets[b][1] > 0 and SPEC.budgets[b][2]:
                more = expert_bytes(middle, SPEC.budgets[b][1], SPEC.experts)
                less = expert_bytes(low, SPEC.budgets[b][1], SPEC.experts)
                fit = fit & (more - less <= rests[b])
        start = tl.where(fit, middle, start)
        end = tl.where(fit, end, middle - 1)
    return start


@triton.jit
def largest(state, option, STEP: tl.constexpr, SPEC: tl.constexpr):
    """The largest value of a goal's variable for every option, the rest at its least."""
    if STEP[0] == "choice":
        return state.limits[0] * 0 - tl.load(state.tables + STEP[6] + option)
    elif STEP[0] == "capacity":
        return raise_capacity(state, STEP, SPEC)
    elif STEP[0] == "blocks":
        return raise_blocks(state, STEP, SPEC)
    else:
        return raise_other(state, STEP, SPEC)
