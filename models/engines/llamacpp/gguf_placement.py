"""A GGUF file's layers on the cards and the host that are there, as a problem with a placement."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from kvplan.models.engines.alternatives import laid_over, offering
from kvplan.models.engines.cards import machine_of
from kvplan.models.engines.checkpoint.weights import Weights
from kvplan.models.engines.estimates import Estimate
from kvplan.models.engines.layers import Architecture, Attention, Latent, Recurrent
from kvplan.models.engines.llamacpp.budget import (
    MASK,
    attention_bytes,
    compute_buffer,
    output_bytes,
)
from kvplan.models.engines.llamacpp.caches import (
    layer_row_bytes,
    layer_state_bytes,
    token_caches,
)
from kvplan.models.engines.llamacpp.choices import placement_choices
from kvplan.models.engines.llamacpp.flags import FLAGS, PAD, Context, context_of
from kvplan.models.engines.llamacpp.projector import PROJECTOR, projector_bytes
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import Misfit, shown
from kvplan.models.place import PIPELINED
from kvplan.models.plan import PlacementPlan
from kvplan.models.problem import Problem
from kvplan.models.units import parse_bytes

_EXPERTS = re.compile(r"blk\.(\d+)\.ffn_(down|gate|up|gate_up)_(?:ch)?exps\.")
_LAYER = re.compile(r"blk\.(\d+)\.")
HOST = "host"
COPIES = 4


def is_placed(settings: Mapping[str, Any]) -> bool:
    """Whether --card and --host are the budget: no other one is given."""
    given = settings["card"] or settings["host"] is not None
    return bool(given) and settings["available"] is None and settings.get("total_bytes") is None


def placed_figures(placement: PlacementPlan) -> dict[str, str]:
    """Return the figures of the log with the flags of a placement."""
    return {"n_ctx_seq": str(placement.context_tokens)}


def placement_problem(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """The problem of placing a file, with what else could be launched.

    --card and --host say what there is.

    Raises
    ------
    InvalidProblem : no tensors, no card, or kinds of layers that are not placed yet.
    """
    bare = _problem(architecture, settings)
    labels = {"batches.context.requests.context.capacity": "--ctx-size"}
    return offering(
        bare,
        labels,
        placement_choices(settings),
        lambda changes: _problem(architecture, laid_over(FLAGS, settings, changes)),
        placed_estimates(architecture, settings),
    )


def placed_estimates(
    architecture: Architecture, settings: Mapping[str, Any]
) -> tuple[Estimate, ...]:
    """The compute buffer of each card, where nobody measured it."""
    measured = settings["compute_buffer"] is not None
    return () if measured else (compute_buffer(architecture, settings),)


def _problem(architecture: Architecture, settings: Mapping[str, Any]) -> Problem:
    """The problem alone."""
    weights = settings.get("weights")
    if weights is None or not weights.tensors:
        asked = "--card" if settings["card"] else "--optimize"
        raise InvalidProblem.at(asked, "a GGUF file as CONFIG (its tensors are placed)", "none")
    context, cards = context_of(architecture, settings), _memories(settings)
    runs, caches = _runs(architecture, settings, weights, context), dict[str, Any]()
    for run in runs:
        caches |= dict.fromkeys(run.get("cache", {}))
    names = [name for name, _, _ in cards]
    read = {name: rate for name, _, rate in cards if rate}
    request = {"name": "context", "capacity": context.cells, "fit": "capacity"}
    if context.streams > 1:
        request["count"] = context.streams
    return Problem.model_validate(
        {
            "name": f"{architecture.name} in llama.cpp, placed",
            "ranks": [{"name": name, "quota": quota} for name, quota, _ in cards],
            "tokens_per_block": PAD,
            "pools": [{"name": name, "bytes": 1} for name in caches],
            "caches": [{"name": name, "pool": name, **_rule(name, context)} for name in caches],
            "batches": [{"name": "context", "requests": [request]}],
            "place": {
                "engine": "llama.cpp",
                "order": [HOST, *(name for name in names if name != HOST)],
                "host": HOST,
                "layers": runs,
                "ends": _ends(weights),
                "used": _buffers(architecture, settings, [n for n in names if n != HOST]),
                **({"read": read} if read else {}),
            },
            **_projector(settings, names),
            "goals": ["capacity:context"],
            "fill": "none",
        }
    )


def _projector(settings: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """A consumer on the first card, of no bytes where the projector lies on the host."""
    if settings["mmproj"] is None:
        return {}
    places = dict.fromkeys(names, 0) | {names[0]: projector_bytes(settings)}
    return {"consumers": [{"name": PROJECTOR, "bytes": places}]}


def _buffers(
    architecture: Architecture, settings: Mapping[str, Any], cards: Sequence[str]
) -> dict[str, dict[str, int]]:
    """The compute buffer of each card in use; while cards take turns, masks exist four times.

    (GGML_SCHED_MAX_COPIES: graph inputs of a pipeline, where nothing is overridden.)
    """
    if settings["compute_buffer"] is not None:
        return {name: {"base": int(settings["compute_buffer"])} for name in cards}
    caches = [one for one in token_caches(architecture, settings) if one.name != "index"]
    longest = context_of(architecture, settings).cells
    windows = [one.cells for one in caches if one.window and one.cells < longest]
    growing = [1] * (len(caches) - len(windows))
    base = output_bytes(architecture, settings) + attention_bytes(architecture, settings, windows)
    each = attention_bytes(architecture, settings, growing)
    masks = (COPIES - 1) * MASK * context_of(architecture, settings).ubatch * len(growing)
    found = {name: {"base": base, "per_token": each} for name in cards}
    return found | ({PIPELINED: {"per_token": each + masks}} if len(cards) > 1 else {})


def _memories(settings: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """(name, bytes, bytes a second) of each --card, and of --host."""
    given, machine = list(settings["card"] or ()), machine_of(settings.get("gpu"))
    if machine is not None:
        expected = "cards apart from the host (this machine has one memory: nothing to place)"
        raise InvalidProblem.at("--optimize", expected, shown(settings["gpu"]))
    if not given or settings["host"] is None:
        expected = "--card BYTES@RATE for each card, and --host BYTES@RATE"
        raise InvalidProblem.at("--optimize", expected, "none of one")
    found = []
    for name, text in [
        *((f"gpu{at}", text) for at, text in enumerate(given)),
        (HOST, settings["host"]),
    ]:
        size, _, rate = str(text).partition("@")
        try:
            found.append((name, parse_bytes(size, round_up=False), rate))
        except Misfit as error:
            flag = "--host" if name == HOST else "--card"
            raise InvalidProblem.at(flag, f"BYTES@RATE, {error.expected}", shown(text)) from None
    return found


def _runs(
    architecture: Architecture, settings: Mapping[str, Any], weights: Weights, context: Context
) -> list[dict[str, Any]]:
    """Layers with their bytes, alike ones in a row merged."""
    count = architecture.total_layers + len({layer.index for layer in architecture.draft})
    each: list[dict[str, Any]] = [{"dense": 0} for _ in range(count)]
    experts: list[dict[str, int]] = [{} for _ in range(count)]
    for name, size in weights.tensors.items():
        expert, layer = _EXPERTS.match(name), _LAYER.match(name)
        if expert:
            mine = experts[int(expert[1])]
            mine[expert[2]] = mine.get(expert[2], 0) + size
        elif layer:
            each[int(layer[1])]["dense"] += size
    active = f"{architecture.experts_used}/{architecture.experts}" if architecture.experts else "1"
    for entry, mine in zip(each, experts, strict=True):
        if mine:
            names = sorted(mine)
            entry |= {"experts": [mine[name] for name in names], "tensors": names, "active": active}
    for kept in architecture.layers:
        entry = each[kept.index]
        if isinstance(kept, Attention | Latent):
            name = f"window {_reach(kept)}" if _reach(kept) else "full"
            entry["cache"] = {name: PAD * layer_row_bytes(kept, settings)}
        elif isinstance(kept, Recurrent):
            entry["state"] = context.sequences * layer_state_bytes(kept)
        else:
            expected = "layers of attention, latent rows or states (others are not placed yet)"
            raise InvalidProblem.at("--optimize", expected, type(kept).__name__)
    grouped = [(entry, len(list(run))) for entry, run in groupby(each)]
    return [{"count": number, **entry} for entry, number in grouped]


def _reach(layer: Attention | Latent) -> int:
    return (layer.window or layer.chunk or 0) if isinstance(layer, Attention) else 0


def _rule(name: str, context: Context) -> dict[str, Any]:
    """Retention of a cache: all cells, or window + ubatch."""
    kind, _, reach = name.partition(" ")
    if kind == "full":
        return {"kind": "full"}
    tokens = int(reach) * (context.sequences if context.streams == 1 else 1)
    window = {"kind": "window", "keep": "in_flight", "window": tokens}
    return window | {"in_flight": context.ubatch + 1}


def _ends(weights: Weights) -> dict[str, Any]:
    """The embedding on the host; norm and output behind the layers, tied heads as a second copy."""
    others = {name: size for name, size in weights.tensors.items() if not _LAYER.match(name)}
    first = others.pop("token_embd.weight", 0)
    last = sum(others.values()) + (0 if "output.weight" in others else first)
    return {"first": {"bytes": first, "spaces": [HOST]}, "last": {"bytes": last}}
