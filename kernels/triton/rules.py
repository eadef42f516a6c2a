"""Blocks and bytes in Triton. All tensors are int64 with axes [scenario, option, class, demand].

Capital parameters are compile-time constants. Operands of // and % never fall below zero, where
Triton's truncation and floor division agree.
"""

# mypy: ignore-errors
# A kernel is written in Triton's dialect; its launcher is typed.

import triton
import triton.language as tl

FULL: tl.constexpr = tl.constexpr(0)  # the codes of `kernels.instance`
LIVE: tl.constexpr = tl.constexpr(1)
PEAK: tl.constexpr = tl.constexpr(2)
FLIGHT: tl.constexpr = tl.constexpr(3)
STATE: tl.constexpr = tl.constexpr(4)


@triton.jit
def floor_div(a, B: tl.constexpr):
    """a // B of a >= 0: a shift where B is a power of two."""
    if B & (B - 1) == 0:
        return a >> (B.bit_length() - 1)
    else:
        return a // B


@triton.jit
def ceil_div(a, B: tl.constexpr):
    """ceil(a / B) of a >= 0."""
    return floor_div(a + (B - 1), B)


@triton.jit
def rounded_up(a, M: tl.constexpr):
    """a rounded up to a multiple of M."""
    if M == 1:
        return a
    else:
        return ceil_div(a, M) * M


@triton.jit
def stale_end(history, T: tl.constexpr, W: tl.constexpr):
    """max(0, (H + 1 - W) // t)."""
    return floor_div(tl.maximum(history + (1 - W), 0), T)


@triton.jit
def window_blocks(capacity, FLIGHT_TOKENS: tl.constexpr, RULE: tl.constexpr, B: tl.constexpr):
    """A live window's own blocks beside B shared ones, scratch included."""
    T: tl.constexpr = RULE[1]
    W: tl.constexpr = RULE[4]
    S: tl.constexpr = RULE[5]
    history = capacity - FLIGHT_TOKENS
    first: tl.constexpr = S if S > B else B
    own = tl.maximum(ceil_div(capacity, T) - B, 0)
    own = own - tl.maximum(stale_end(history, T, W) - first, 0) + RULE[3]
    if len(RULE[7]) == 2:
        reached = stale_end(tl.maximum(capacity - RULE[8], 0), T, W)
        start = tl.maximum(ceil_div(history, T), first)
        scratch = tl.maximum(reached - start, 0)
        own = tl.maximum(own - scratch + ceil_div(scratch * RULE[7][0], RULE[7][1]), 0)
    return own


@triton.jit
def request_blocks(
    capacity, chunk, tables, FLIGHT_TOKENS: tl.constexpr, RULE: tl.constexpr, B: tl.constexpr
):
    """Blocks of one request with C > 0 in one cache, groups and extra blocks included.

    RULE = (kind, t, groups, extra, window, sink blocks, limit, scratch, rewind); `limit` is a
    table's offset: blocks at the peak, or tokens within reach, by chunk.
    """
    KIND: tl.constexpr = RULE[0]
    T: tl.constexpr = RULE[1]
    M: tl.constexpr = RULE[2]
    X: tl.constexpr = RULE[3]
    LIMIT: tl.constexpr = RULE[6]
    if KIND == STATE:
        return capacity * 0 + M * X
    elif KIND == LIVE:
        return M * window_blocks(capacity, FLIGHT_TOKENS, RULE, B)
    elif KIND == FULL:
        return M * (tl.maximum(ceil_div(capacity, T) - B, 0) + X)
    elif KIND == PEAK:
        return M * (tl.minimum(ceil_div(capacity, T), tl.load(tables + LIMIT + chunk)) + X)
    else:
        return M * (ceil_div(tl.minimum(capacity, tl.load(tables + LIMIT + chunk)), T) + X)


@triton.jit
def pool_bytes(blocks, BUFFERS: tl.constexpr):
    """Sum over the buffers of ceil(n x bytes / granule) x granule."""
    total = blocks * 0
    for i in tl.static_range(len(BUFFERS)):
        if BUFFERS[i][0] % BUFFERS[i][1] == 0:
            total += blocks * BUFFERS[i][0]
        else:
            total += rounded_up(blocks * BUFFERS[i][0], BUFFERS[i][1])
    return total


@triton.jit
def most_blocks(limit, BUFFERS: tl.constexpr, SIZE: tl.constexpr, SLACK: tl.constexpr):
    """Largest n with pool_bytes(n) <= limit; -1 for a limit below zero.

    SIZE is the sum of the block bytes, SLACK what rounding may add to them.
    """
    held = tl.maximum(limit, 0)
    if len(BUFFERS) == 1:
        most = floor_div(rounded_down(held, BUFFERS[0][1]), BUFFERS[0][0])
    else:
        high = floor_div(held, SIZE)
        low = floor_div(tl.maximum(held - SLACK, 0), SIZE)
        for _ in range((SLACK // SIZE + 1).bit_length()):
            middle = (low + high + 1) >> 1
            fits = pool_bytes(middle, BUFFERS) <= held
            low = tl.where(fits, middle, low)
            high = tl.where(fits, high, middle - 1)
        most = low
    return tl.where(limit < 0, -1, most)


@triton.jit
def rounded_down(a, M: tl.constexpr):
    """a rounded down to a multiple of M."""
    if M == 1:
        return a
    else:
        return floor_div(a, M) * M


@triton.jit
def slot_bytes(slots, SIZES: tl.constexpr):
    """Bytes of the first slots of one layer; the last size is open-ended."""
    total = slots * 0
    for i in tl.static_range(len(SIZES) - 1):
        taken = tl.minimum(slots, SIZES[i][0])
        total += taken * SIZES[i][1]
        slots = slots - taken
    return total + slots * SIZES[len(SIZES) - 1][1]


@triton.jit
def expert_bytes(slots, LAYERS: tl.constexpr, EXPERTS: tl.constexpr):
    """Bytes of all layers' slots: one allocation, rounded up to the granule."""
    return rounded_up(LAYERS * slot_bytes(slots, EXPERTS[0]), EXPERTS[1])


@triton.jit
def least_kept(slots, EXPERTS: tl.constexpr):
    """max(min(E, keep), E - floor(fraction x E))."""
    lent = floor_div(slots * EXPERTS[3], EXPERTS[4])
    return tl.maximum(tl.minimum(slots, EXPERTS[2]), slots - lent)
