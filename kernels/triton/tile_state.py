"""What is decided so far in a tile of scenarios, as one record for every function of the kernel."""

# mypy: ignore-errors

from typing import Any, NamedTuple

import triton
import triton.language as tl

from kvplan.kernels.triton.demand import put


class State(NamedTuple):
    """Bounds and limits of a tile; figures are int64 [scenario, option, class, demand]."""

    low: Any  # by fitted request: the figure that is fitted, tokens or requests
    high: Any  # by fitted request
    other: Any  # by fitted request: the figure that is given
    chunk: Any  # index of the candidate, at least
    chunk_most: Any
    experts: Any  # slots, at least
    experts_most: Any
    blocks: Any  # usable, by pool, at least
    copies: Any  # by copied batch, at least
    limits: Any  # bytes by budget, less those of the options
    tables: Any  # pointer to the tables of the spec


@triton.jit
def at_least(state, KIND: tl.constexpr, AT: tl.constexpr, value):
    """The state with the lower bound of one variable at a value."""
    low = state.low
    chunk = state.chunk
    experts = state.experts
    blocks = state.blocks
    copies = state.copies
    if KIND == "capacity" or KIND == "count":
        low = put(low, AT, value)
    elif KIND == "prefill":
        chunk = value
    elif KIND == "experts":
        experts = value
    elif KIND == "blocks":
        blocks = put(blocks, AT, value)
    elif KIND == "copies":
        copies = put(copies, AT, value)
    return State(
        low, state.high, state.other, chunk, state.chunk_most, experts, state.experts_most, blocks,
        copies, state.limits, state.tables,
    )  # fmt: skip


@triton.jit
def lower_bound(state, KIND: tl.constexpr, AT: tl.constexpr):
    """The lower bound of one variable."""
    if KIND == "capacity" or KIND == "count":
        return state.low[AT]
    elif KIND == "prefill":
        return state.chunk
    elif KIND == "experts":
        return state.experts
    elif KIND == "blocks":
        return state.blocks[AT]
    else:
        return state.copies[AT]


@triton.jit
def upper_bound(state, KIND: tl.constexpr, STEP: tl.constexpr):
    """The upper bound of a count, the chunk, the slots or the copies."""
    if KIND == "count":
        return state.high[STEP[1]]
    elif KIND == "prefill":
        return state.chunk_most
    elif KIND == "experts":
        return state.experts_most
    else:
        return tl.load(state.tables + STEP[6])


@triton.jit
def settled(state, KIND: tl.constexpr, AT: tl.constexpr, reached):
    """The state with one variable at what was reached; where that is less, at its lower bound.

    So figures stay small where nothing fits.
    """
    value = tl.maximum(reached, lower_bound(state, KIND, AT))
    raised = at_least(state, KIND, AT, value)
    high = raised.high
    chunk_most = raised.chunk_most
    if KIND == "capacity" or KIND == "count":
        high = put(high, AT, value)
    elif KIND == "prefill":
        chunk_most = value
    return State(
        raised.low, high, raised.other, raised.chunk, chunk_most, raised.experts,
        raised.experts_most, raised.blocks, raised.copies, raised.limits, raised.tables,
    )  # fmt: skip


@triton.jit
def within(state, limits):
    """The state under other limits."""
    return State(
        state.low, state.high, state.other, state.chunk, state.chunk_most, state.experts,
        state.experts_most, state.blocks, state.copies, limits, state.tables,
    )  # fmt: skip
