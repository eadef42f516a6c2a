"""Needs and budgets of one tile in Triton, axes as in `rules`."""

# mypy: ignore-errors

import triton
import triton.language as tl

from kvplan.kernels.triton.rules import (
    LIVE,
    ceil_div,
    expert_bytes,
    least_kept,
    pool_bytes,
    request_blocks,
    rounded_up,
    stale_end,
)


@triton.jit
def put(values, INDEX: tl.constexpr, value):
    """The tuple with one entry replaced."""
    out = ()
    for i in tl.static_range(len(values)):
        if i == INDEX:
            out = out + (value,)
        else:
            out = out + (values[i],)
    return out


@triton.jit
def fitted_blocks(
    capacity, chunk, tables, POOL: tl.constexpr, FITTED: tl.constexpr, PREFIX: tl.constexpr
):
    """Raw blocks of one pool of ONE of a fitted request's copies.

    POOL[0] are its rules; FITTED = (flight, whether it holds tokens).
    """
    raw = capacity * 0
    for c in tl.static_range(len(POOL[0])):
        if FITTED[1]:
            raw += request_blocks(
                capacity, chunk, tables, FITTED[0], POOL[0][c], PREFIX // POOL[0][c][1]
            )
        elif POOL[0][c][0] == 4:  # a placeholder holds state alone
            raw += POOL[0][c][2] * POOL[0][c][3]
    return raw


@triton.jit
def live_prefix(capacity, RULE: tl.constexpr, BATCH: tl.constexpr, FITTED: tl.constexpr):
    """m (B - |[S, min(B, least stale end))|): prefix blocks that some request still sees."""
    SHARED: tl.constexpr = BATCH[1] // RULE[1]
    end = capacity[BATCH[2][0]] * 0 + SHARED
    for i in tl.static_range(len(BATCH[2])):
        if FITTED[BATCH[2][i]][1]:
            history = capacity[BATCH[2][i]] - FITTED[BATCH[2][i]][0]
            end = tl.minimum(end, stale_end(history, RULE[1], RULE[4]))
    if BATCH[3] >= 0:  # the least history among the given requests
        SEEN: tl.constexpr = BATCH[3] + 1 - RULE[4]
        end = tl.minimum(end, SEEN // RULE[1] if SEEN > 0 else 0)
    return RULE[2] * (SHARED - tl.maximum(end - RULE[5], 0))


@triton.jit
def batch_raw(
    capacity, count, chunk, tables, P: tl.constexpr, BATCH: tl.constexpr, SPEC: tl.constexpr
):
    """Raw blocks of one pool in one batch; BATCH = (bases, prefix, fitted, history).

    A pool's base is (offset of blocks by chunk, 0), or (-1, blocks) whatever the chunk.
    """
    raw = chunk * 0 + BATCH[0][P][1]
    if BATCH[0][P][0] >= 0:
        raw = tl.load(tables + BATCH[0][P][0] + chunk)
    for i in tl.static_range(len(BATCH[2])):
        own = fitted_blocks(
            capacity[BATCH[2][i]],
            chunk,
            tables,
            SPEC.pools[P],
            SPEC.fitted[BATCH[2][i]],
            BATCH[1],
        )
        raw = raw + count[BATCH[2][i]] * own
    if len(BATCH[2]) > 0:
        for c in tl.static_range(len(SPEC.pools[P][0])):
            if SPEC.pools[P][0][c][0] == LIVE and BATCH[1] >= SPEC.pools[P][0][c][1]:
                raw = raw + live_prefix(capacity, SPEC.pools[P][0][c], BATCH, SPEC.fitted)
    return raw


@triton.jit
def legal(raw, POOL: tl.constexpr):
    """ceil(raw / utilization), rounded up to the multiple; POOL = (rules, num, den, multiple)."""
    need = raw
    if POOL[1] != POOL[2]:
        need = ceil_div(raw * POOL[2], POOL[1])
    return rounded_up(need, POOL[3])


@triton.jit
def usable_blocks(capacity, count, state, SPEC: tl.constexpr):
    """Usable blocks by pool: floors, what is decided, and what copies take."""
    chunk = state.chunk
    tables = state.tables
    found = ()
    for p in tl.static_range(len(SPEC.pools)):
        raw = chunk * 0
        for b in tl.static_range(len(SPEC.batches)):
            each = batch_raw(capacity, count, chunk, tables, p, SPEC.batches[b], SPEC)
            raw = tl.maximum(raw, each)
        held = tl.maximum(legal(raw, SPEC.pools[p]), SPEC.pools[p][4])
        held = tl.maximum(held, state.blocks[p])
        for b in tl.static_range(len(SPEC.copied)):
            each = batch_raw(capacity, count, chunk, tables, p, SPEC.batches[SPEC.copied[b]], SPEC)
            held = tl.maximum(held, legal(state.copies[b] * each, SPEC.pools[p]))
        found = found + (held,)
    return found


@triton.jit
def budget_bytes(usable, state, BUDGET: tl.constexpr, SPEC: tl.constexpr):
    """Bytes that everything in a budget takes, the least experts kept during prefill.

    BUDGET = (buffers by pool, layers, lent, offset of the staging or -1, ...).
    """
    total = state.chunk * 0
    for p in tl.static_range(len(BUDGET[0])):
        if len(BUDGET[0][p][0]) > 0:
            total = total + pool_bytes(usable[p] + SPEC.pools[p][6], BUDGET[0][p][0])
    if BUDGET[1] > 0:
        slots = state.experts
        if BUDGET[2]:
            slots = least_kept(state.experts, SPEC.experts)
        total = total + expert_bytes(slots, BUDGET[1], SPEC.experts)
    if BUDGET[3] >= 0:
        total = total + tl.load(state.tables + BUDGET[3] + state.chunk)
    return total


@triton.jit
def budget_rests(usable, state, SPEC: tl.constexpr):
    """What every budget has left."""
    found = ()
    for b in tl.static_range(len(SPEC.budgets)):
        taken = budget_bytes(usable, state, SPEC.budgets[b], SPEC)
        found = found + (state.limits[b] - taken,)
    return found


@triton.jit
def fits(usable, state, SPEC: tl.constexpr):
    """Whether every budget and every pool limit holds."""
    rests = budget_rests(usable, state, SPEC)
    fit = rests[0] >= 0
    for b in tl.static_range(1, len(SPEC.budgets)):
        fit = fit & (rests[b] >= 0)
    for p in tl.static_range(len(SPEC.pools)):
        if SPEC.pools[p][5] >= 0:
            fit = fit & (usable[p] <= SPEC.pools[p][5])
    return fit
