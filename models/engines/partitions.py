"""How engines share layers out among pipeline stages: layers a stage, in order.

Each takes L // P layers a stage; the rules differ in who gets one of the r = L mod P that are left.
Layers count alike, whatever their bytes.
"""

from __future__ import annotations

from collections.abc import Iterable


def before_last(layers: int, stages: int) -> list[int]:
    """One each to the stages before the last, backwards: 61 on 4 is 15, 15, 16, 15.

    vLLM's get_pp_indices (vllm/distributed/utils.py): for i in 2 .. r+1: part[-i] += 1.
    """
    return _with_more(layers, stages, range(stages - 1 - layers % stages, stages - 1))


def last_ones(layers: int, stages: int) -> list[int]:
    """One each to the last r stages: 61 on 4 is 15, 15, 15, 16 (vLLM #46217, SGLang 0.5.23)."""
    return _with_more(layers, stages, range(stages - layers % stages, stages))


def first_ones(layers: int, stages: int) -> list[int]:
    """One each to the first r stages: 61 on 4 is 16, 15, 15, 15 (SGLang #13282, TensorRT-LLM)."""
    return _with_more(layers, stages, range(layers % stages))


def all_on_last(layers: int, stages: int) -> list[int]:
    """All r to the last stage: 94 on 8 is 7 x 11 and 17 (SGLang before #13282; #9798)."""
    counts = [layers // stages] * stages
    counts[-1] += layers % stages
    return counts


def largest_remainder(layers: int, memory_bytes: Iterable[int]) -> list[int]:
    """Shares of memory, rounded down, then one each by largest remainder (exo; exo #2227).

    What a layer takes is not looked at, so a small node may get more than it holds.
    """
    memory = list(memory_bytes)
    whole = sum(memory)
    counts = [layers * each // whole for each in memory]
    by_rest = sorted(range(len(memory)), key=lambda at: (-(layers * memory[at] % whole), at))
    for at in by_rest[: layers - sum(counts)]:
        counts[at] += 1
    return counts


def _with_more(layers: int, stages: int, more: range) -> list[int]:
    """L // P each, and one more on some stages."""
    return [layers // stages + (stage in more) for stage in range(stages)]
