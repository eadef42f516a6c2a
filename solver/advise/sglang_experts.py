"""The most experts of each layer on the card, beside a host that keeps them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.registry import Settings
from kvplan.models.engines.sglang.figures import figures
from kvplan.models.engines.sglang.host_experts import experts_of
from kvplan.models.engines.sglang.launch.context import context_tokens
from kvplan.models.engines.sglang.launch.flags import FLAGS
from kvplan.models.engines.sglang.launch.resolve import resolve
from kvplan.models.engines.sglang.pools import build
from kvplan.models.errors import Infeasible, InvalidProblem
from kvplan.models.units import exact_bytes
from kvplan.solver.advise.advice import Advice
from kvplan.solver.solve.plan import plan

FLAG, KEY, TOKENS = "--kt-num-gpu-experts", "kt_num_gpu_experts", "max_total_num_tokens"
LEFT_OUT = (
    "speed: which experts are read most (kt places by frequency with an activation file)",
    "other sizes on the host: --kt-weight-path may hold another type",
)


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Find the most experts of each layer on the card that leave tokens for one longest request.

    Raises
    ------
    InvalidProblem : no experts by tensor, a host that cannot keep them, or a card too small for one
        request with no expert at all.
    """
    experts = experts_of(architecture, settings)
    if not experts:
        expected = "a model folder with the experts' tensors (only their sizes are read)"
        raise InvalidProblem.at("--optimize", expected, "none")
    _check_budget(experts, settings)
    longest = context_tokens(architecture, resolve(architecture, settings))
    most = max(map(len, experts.values()))
    best = _most(architecture, settings, longest, most)
    if best is None:
        tokens = _tokens(architecture, settings, 0)
        expected = f"at most {tokens} tokens: what the card holds with no expert on it"
        raise InvalidProblem.at("--context-length", expected, str(longest))
    now = min(int(settings[KEY]), most)
    before, after = (_row(architecture, settings, count) for count in (now, best))
    for share in (2, 4, 8):  # what shorter requests leave room for
        shorter = longest // share
        more = _most(architecture, settings, shorter, most) if shorter else None
        if more is not None:
            after[f"experts at {shorter:,} tokens"] = str(more)
    counts = tuple(int(row[TOKENS]) // mean_tokens for row in (before, after))
    flags = {FLAG: str(best)} if best != now else {}
    return Advice(flags, before, after, (counts[0], counts[1]), counts[1], LEFT_OUT)


def _check_budget(experts: Mapping[int, tuple[int, ...]], settings: Mapping[str, Any]) -> None:
    """The host keeps every expert; what was measured with some of them on the card says too little.

    Raises
    ------
    InvalidProblem : a host that is too small, or measured bytes.
    """
    host, whole = settings["host_memory"], sum(map(sum, experts.values()))
    if host is not None and whole > host:
        expected = f"at least {exact_bytes(whole)}: every expert stays there"
        raise InvalidProblem.at("--host-memory", expected, exact_bytes(int(host)))
    for flag in ("--available", "--free-before-load"):
        if settings[flag.removeprefix("--").replace("-", "_")]:
            expected = "--gpu or --total (it was measured with some experts on the card)"
            raise InvalidProblem.at(flag, expected, "given beside --optimize")


def _most(architecture: Architecture, settings: Settings, tokens: int, most: int) -> int | None:
    """The largest number that leaves so many tokens; fewer experts never leave fewer."""
    if _tokens(architecture, settings, 0) < tokens:
        return None
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        if _tokens(architecture, settings, middle) >= tokens:
            least = middle
        else:
            most = middle - 1
    return least


def _tokens(architecture: Architecture, settings: Settings, count: int) -> int:
    return int(_row(architecture, settings, count)[TOKENS])


def _row(architecture: Architecture, settings: Settings, count: int) -> dict[str, str]:
    """The engine's figures with so many experts; no tokens where it refuses to start."""
    given = {key: settings[key] for key in settings.given} | {"weights": settings["weights"]}
    changed = Settings(FLAGS, given | {KEY: count})
    try:
        problem = build(architecture, changed)
        held = figures(architecture, changed, problem, plan(problem))[TOKENS]
    except Infeasible:
        held = "0"
    return {"experts of each layer": str(count), TOKENS: held}
