"""What SGLang knows when it splits its bytes between pools, as a problem.

Read from its pool configurators (sglang/srt/model_executor/pool_configurator.py) and from what
KVCacheConfigurator charges a state slot (mem_cache/kv_cache_configurator.py); 0.5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from kvplan.models.errors import InvalidProblem
from kvplan.models.plan import Plan
from kvplan.models.problem import Problem
from kvplan.solver.managers.guard import LeftAlone
from kvplan.solver.managers.mix import mix_of
from kvplan.solver.managers.workload import Workload

FULL, WINDOW, TOKENS, STATE = "full", "window", "tokens", "state"
WINDOWS = "HybridSWAPoolConfigurator"
PLAIN = "DefaultPoolConfigurator"
LABELS = {
    "ranks.*.quota": "--mem-fraction-static",
    "batches.longest.requests.longest.capacity": "--context-length",
}


@dataclass(frozen=True)
class Serving:
    """Of the server's settings what pools depend on.

    Attributes
    ----------
    chunk_tokens : --chunked-prefill-size.
    chunks_in_flight : 2 with the overlap schedule, else 1.
    eviction_tokens : SGLANG_SWA_EVICTION_INTERVAL: decoded tokens between two evictions.
    slots : state slots of a running request (_calculate_mamba_ratio).
    """

    chunk_tokens: int
    chunks_in_flight: int = 2
    eviction_tokens: int = 128
    slots: int = 1


@dataclass(frozen=True)
class Start:
    """A start of SGLang with two pools.

    Attributes
    ----------
    data : pools and caches, as plain data. Reserved blocks are those that are not for running
        requests: chunks in flight, cached prefixes, padding.
    page_tokens : of a block of tokens.
    rank, quota_bytes : of this rank.
    """

    data: Mapping[str, Any]
    page_tokens: int
    quota_bytes: int
    rank: str = "rank0"

    def problem(self, workload: Workload) -> Problem:
        """The problem whose plan splits the quota for a workload.

        The longest request of the workload must fit.
        """
        longest = {"name": "longest", "capacity": workload.longest_tokens}
        return Problem.model_validate(
            {
                **self.data,
                "name": "SGLang",
                "ranks": [{"name": self.rank, "quota": self.quota_bytes}],
                "batches": [{"name": "longest", "requests": [longest]}],
                "fill": {"mix": mix_of(workload)},
                "labels": LABELS,
            }
        )

    def on(self, rank: str) -> Start:
        """The same start under a rank's name."""
        return replace(self, rank=rank)


def windows_of(configurator: Any, quota_bytes: int, serving: Serving, workload: Workload) -> Start:
    """A model with sliding windows: tokens of full layers, tokens of window layers.

    A running request holds W + eviction interval tokens and two pages in the window pool
    (compute_swa_request_cap); chunks in flight lie in it whole until they are evicted.

    Parameters
    ----------
    configurator : HybridSWAPoolConfigurator.
    quota_bytes : of both pools (config_from_budget).

    Raises
    ------
    LeftAlone : another configurator, or no full layers.
    InvalidProblem : bytes a token that are no whole number.
    """
    if type(configurator).__name__ != WINDOWS:
        raise LeftAlone(f"pools of {type(configurator).__name__} are not modelled")
    page, window = int(configurator._page_size), int(configurator._sliding_window_size)
    figures = _figures(configurator)
    if not figures[FULL]:
        raise LeftAlone("a model without full layers has one pool")
    chunks = -(-serving.chunks_in_flight * serving.chunk_tokens // page)
    prefixes = workload.prefixes * (-(-window // page) + 1)
    sliding = {"window": window, "in_flight": serving.eviction_tokens, "extra_blocks": 1}
    full, windows = ({"name": pool, "bytes": page * each} for pool, each in figures.items())
    data = {
        "tokens_per_block": page,
        "pools": [full, {**windows, "reserved_blocks": chunks + prefixes}],
        "caches": [
            {"name": FULL, "pool": FULL, "kind": "full"},
            {"name": WINDOW, "pool": WINDOW, "kind": "window", **sliding},
        ],
    }
    return Start(data, page, quota_bytes)


def _figures(configurator: Any) -> dict[str, int]:
    """Bytes of a token in each pool, draft layers included."""
    full, window = configurator._full_cell_bytes(), configurator._swa_cell_bytes()
    for name, each in ((FULL, full), (WINDOW, window)):
        if each != int(each):
            raise InvalidProblem.at(f"{name} bytes a token", "a whole number", str(each))
    return {FULL: int(full), WINDOW: int(window)}


def states_of(
    configurator: Any, slot_bytes: int, quota_bytes: int, page: int, serving: Serving
) -> Start:
    """A hybrid model: tokens of its attention layers, slots of its states (and a padding slot).

    Parameters
    ----------
    configurator : DefaultPoolConfigurator.
    slot_bytes : of one slot on this rank.
    quota_bytes : of both pools (_handle_max_mamba_cache).

    Raises
    ------
    LeftAlone : another configurator, or layers that keep nothing.
    """
    if type(configurator).__name__ != PLAIN:
        raise LeftAlone(f"states beside {type(configurator).__name__} are not modelled")
    cell = int(configurator._cell_size)
    if not cell or slot_bytes <= 0:
        raise LeftAlone("a stage without both tokens and states has nothing to split")
    quota_bytes -= int(configurator._fixed_overhead_bytes)
    data = {
        "tokens_per_block": page,
        "pools": [
            {"name": TOKENS, "bytes": page * cell},
            {
                "name": STATE,
                "bytes": slot_bytes,
                "reserved_blocks": 1,
                "multiple_of": serving.slots,  # max_running_requests is slots // slots of one
            },
        ],
        "caches": [
            {"name": TOKENS, "pool": TOKENS, "kind": "full"},
            {"name": STATE, "pool": STATE, "kind": "state", "blocks": serving.slots},
        ],
    }
    return Start(data, page, quota_bytes)


def question(
    configurator: Any,
    quota_bytes: int,
    workload: Workload,
    serving: Serving,
    *,
    slot_bytes: int = 0,
    page_tokens: int = 1,
) -> Problem:
    """The problem whose plan splits SGLang's bytes for a workload.

    Parameters
    ----------
    configurator : a pool configurator of SGLang's.
    slot_bytes, page_tokens : of a hybrid model's states and tokens; 0: a model with windows.

    Raises
    ------
    LeftAlone : pools that are not modelled, by the configurator's name.
    """
    if slot_bytes:
        start = states_of(configurator, slot_bytes, quota_bytes, page_tokens, serving)
    else:
        start = windows_of(configurator, quota_bytes, serving, workload)
    return start.problem(workload)


def own_windows(configurator: Any, quota_bytes: int) -> dict[str, int]:
    """Tokens by pool of SGLang's own rule.

    full = quota // (full bytes + ratio x window bytes), window = ratio x full, both in pages
    """
    page, figures = int(configurator._page_size), _figures(configurator)
    ratio = Fraction(str(configurator._swa_full_tokens_ratio))
    full = int(quota_bytes // (figures[FULL] + ratio * figures[WINDOW])) // page * page
    return {FULL: full, WINDOW: int(full * ratio) // page * page}


def apply(answer: Plan, configurator: Any) -> Any:
    """A plan as SGLang's MemoryPoolConfig, made as its own rules make theirs.

    Parameters
    ----------
    configurator : the HybridSWAPoolConfigurator that was asked.
    """
    page = int(configurator._page_size)
    return configurator._make_pool_config(answer.blocks[FULL] * page, answer.blocks[WINDOW] * page)
