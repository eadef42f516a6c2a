"""Layers and experts of a GGUF file on cards and host: context first, then speed."""

from __future__ import annotations

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.llamacpp.gguf_placement import placement_problem
from kvplan.models.engines.registry import Settings
from kvplan.solver.advise.advice import Advice
from kvplan.solver.place.trade import frontier
from kvplan.solver.solve.plan import plan


def optimize(architecture: Architecture, settings: Settings, mean_tokens: int) -> Advice:
    """Place a file's layers and experts, with the engine's own choice and the trade beside it.

    Raises
    ------
    InvalidProblem : no cards, no tensors, or figures that cannot be read.
    Infeasible : not even the least context fits.
    """
    problem = placement_problem(architecture, settings)
    answer = plan(problem)
    placement = answer.placement
    assert placement is not None
    after = {
        space.name: f"{space.layers} layers, {space.experts} expert tensors"
        for space in placement.spaces
    }
    after["context (tokens)"] = f"{answer.requests[0].capacity:,}"
    points = frontier(problem)
    after |= {f"tokens/s at {p.context_tokens:,}": p.tokens_a_second for p in points}
    held = answer.requests[0].capacity // mean_tokens
    flags = dict.fromkeys(placement.flags, "")
    return Advice(flags, dict(placement.default), after, (0, held), held, placement.notes)
