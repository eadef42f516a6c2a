"""The flags of each start on a shared card, as the engine computes them from what is free then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from kvplan.models.engines.estimates import kept_estimate
from kvplan.models.engines.sglang.reserve import context_bytes
from kvplan.models.engines.shared.joint_problem import STEP
from kvplan.models.engines.shared.part import SHARE_FLAGS, Part, context_flag


@dataclass(frozen=True)
class Start:
    """One start, in its turn.

    Attributes
    ----------
    free_bytes : what the card has left before it.
    cache_bytes, taken_bytes : of its caches, and of the process in all.
    flags : to paste, by name.
    """

    label: str
    free_bytes: int
    cache_bytes: int
    taken_bytes: int
    flags: Mapping[str, str]


def starts_of(
    parts: Sequence[Part], cache_bytes: Mapping[str, int], tokens: Mapping[str, int]
) -> list[Start]:
    """The starts in their order; each sees what those before it leave.

    vLLM: utilization x total covers the process, and so much must be free at its start
    (request_memory in vllm/v1/worker/utils.py); --kv-cache-memory-bytes says the cache alone, but
    the check stays. SGLang: mem_fraction_static x free before the load covers weights and caches.
    llama.cpp allocates what its context needs.

    Parameters
    ----------
    cache_bytes : by label, on the card.
    tokens : by label, the length of a request.
    """
    kept = kept_estimate(parts[0].settings)  # gone before the first start
    free = (parts[0].memory.total or 0) - sum(one.bytes for one in kept)
    found = []
    for part in parts:
        held, charged = cache_bytes[part.label], sum(part.charges.values())
        flags = dict([context_flag(part, tokens[part.target or part.label])])
        taken = held + charged
        if part.engine == "vllm":
            taken = _vllm(part, taken, flags)
            flags["--kv-cache-memory-bytes"] = str(held)
        elif part.engine == "sglang":
            flags[SHARE_FLAGS["sglang"]] = _sglang(part, held, free)
        found.append(Start(part.label, free, held, taken, flags))
        free -= taken
    return found


def _vllm(part: Part, needed_bytes: int, flags: dict[str, str]) -> int:
    """Set the utilization; return the bytes that it stands for."""
    total, own = part.memory.total or 0, part.memory.utilization
    share = own if part.has_own_share and own is not None else _up(Fraction(needed_bytes, total))
    flags[SHARE_FLAGS["vllm"]] = _text(share)
    return int(share * total // 1)


def _sglang(part: Part, cache_bytes: int, free_bytes: int) -> str:
    """(weights + caches) / free before the load, which the process's context has lessened."""
    if part.has_own_share and part.memory.utilization is not None:
        return _text(part.memory.utilization)
    loaded = part.memory.other["weights"] + cache_bytes
    return _text(_up(Fraction(loaded, max(1, free_bytes - context_bytes(part.settings)))))


def _up(share: Fraction) -> Fraction:
    return -(-share // STEP) * STEP


def _text(share: Fraction) -> str:
    """A share as the decimal that it is."""
    return str((Decimal(share.numerator) / share.denominator).normalize())
