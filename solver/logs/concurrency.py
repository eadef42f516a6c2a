"""vLLM's count of tokens against its concurrency at a length.

Layers of one kind:  B blocks of t tokens; tokens = B t; concurrency = B / ceil(L / t).
Since 0.20.1:        tokens = int(concurrency x L), whatever the layers.
Before, with several kinds in G groups: tokens = B // G x t, concurrency = B / sum over the groups,
so the two may differ by up to G. A bare pair of lines does not say which kinds there are: it is
taken for such a model only where a known one explains it.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.solver.logs.reading.interval import Interval

_BLOCKS = tuple(2**power for power in range(13))
_ALIKE_BLOCKS = _BLOCKS[:10]
"""Tokens of a block of layers of one kind: 64 at most, and 8 ranks that share a context."""
_STEPS = (1024, 2048, 4096, 8192, 16384)
"""max_num_batched_tokens: vLLM's defaults by card and entry point, and what short cards take."""
_LONG = 1_048_576
_WINDOWS = (
    (1, 128, _LONG),  # gpt-oss
    (1, 4096, 8192),  # Gemma 2
    (5, 512, 32_768),  # Gemma 3 1B
    (5, 1024, _LONG),  # Gemma 3 12B
    (6, 1024, _LONG),  # Gemma 3 4B, 27B
    (3, 4096, _LONG),  # Command-R7B, EXAONE 4, OLMo 3
)
"""Window groups beside each full group, the window, and the longest context of the model."""
_CHUNKS = ((3, 8192),)  # Llama 4
_STATES = (*((block, 4, states) for block in range(256, 8193, 16) for states in range(1, 11)),)
"""Tokens of a block, groups, and states of a request: Qwen3-Next to 3.6, drafts included."""
_CONVOLUTIONS = (16, 3, 1)  # LFM2
_LEAST_STATE_RATIO = 1.9
"""Below it a state group is hardly smaller than a full one: only short contexts of few models."""


def agrees(tokens: int, longest: int, printed: Interval) -> bool:
    """Whether layers of one kind, or a version since 0.20.1, print both figures."""
    if printed.meets(Interval.exactly(tokens).over(Interval.exactly(longest))):
        return True
    return any(
        printed.meets(_ratio(tokens // block, -(-longest // block)))
        for block in _ALIKE_BLOCKS
        if not tokens % block
    )


def several_kinds(tokens: int, longest: int, printed: Interval) -> bool:
    """Whether layers of several kinds explain the pair in a version before 0.20.1."""
    return any(_windowed(tokens, longest, printed)) or any(_recurrent(tokens, longest, printed))


def _windowed(tokens: int, longest: int, printed: Interval) -> Iterator[bool]:
    """B / (n + w groups of ceil(min(W - 1 + T, L) / 16) + 1), or of a chunk's blocks."""
    if tokens % 16:
        return
    full = -(-longest // 16)
    for step in _STEPS:
        for groups, window, most in _WINDOWS:
            if longest > most:
                continue
            held = -(-min(window - 1 + step, longest) // 16) + 1
            yield _explains(tokens // 16, groups + 1, full + groups * held, printed)
        for groups, chunk in _CHUNKS:
            held = -(-min(chunk + step, longest) // 16)
            yield _explains(tokens // 16, groups + 1, full + groups * held, printed)


def _recurrent(tokens: int, longest: int, printed: Interval) -> Iterator[bool]:
    """B / (n + g groups of 1 or 2 states): blocks as long as a state is wide."""
    if float(printed.high) * longest < _LEAST_STATE_RATIO * tokens:
        return
    for block, groups, states in (_CONVOLUTIONS, *_STATES):
        if not tokens % block:
            need = -(-longest // block) + (groups - 1) * states
            yield _explains(tokens // block, groups, need, printed)


def _explains(least: int, groups: int, need: int, printed: Interval) -> bool:
    """Whether B blocks in these groups, B // groups = least, give the concurrency."""
    low = _ratio(least * groups, need).low
    high = _ratio(least * groups + groups - 1, need).high
    return printed.meets(Interval(low, high))


def _ratio(count: int, by: int) -> Interval:
    return Interval.exactly(count).over(Interval.exactly(by))


def blocks_agree(blocks: int, longest: int, printed: Interval) -> bool:
    """Whether blocks of some power of two give the concurrency: for layers of one kind."""
    return any(printed.meets(_ratio(blocks, -(-longest // block))) for block in _ALIKE_BLOCKS)


def _grouped(least: int, tokens: int) -> bool:
    """Whether tokens are so many blocks of 16 tokens or a multiple of it."""
    return bool(least) and not tokens % (16 * least) and tokens // least <= _BLOCKS[-1]


def tokens_of_blocks(blocks: int, tokens: int, longest: int | None) -> bool:
    """Whether so many blocks can be so many tokens: B t, B // G x t, or int(B / R x L)."""
    if not blocks:
        return False
    if any(blocks * block == tokens for block in _BLOCKS):
        return True
    if any(_grouped(blocks // groups, tokens) for groups in range(2, 13)):
        return True
    if not longest or not tokens:
        return False
    need = round(blocks * longest / tokens)
    return any(int(blocks / each * longest) == tokens for each in range(max(1, need - 1), need + 2))
