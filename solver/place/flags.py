"""A placement as an engine's command line: flags that paste, and what to know beside them."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models import Problem
from kvplan.models.place import PIPELINED, Place
from kvplan.models.plan import PlacementPlan

LLAMACPP = ("llama.cpp", "ik_llama.cpp")
NO_TENSOR = "^$=CPU"
"""An override that matches no tensor: its presence alone switches pipelining off."""
PARTITIONS = {"vllm": "VLLM_PP_LAYER_PARTITION", "sglang": "SGLANG_PP_LAYER_PARTITION"}
SIZES = {"vllm": "--pipeline-parallel-size", "sglang": "--pp-size"}


def flags_of(problem: Problem, placement: PlacementPlan) -> tuple[str, ...]:
    """Flags of the placement's engine; none where it has no words for it."""
    place = problem.place
    assert place is not None
    if place.engine in PARTITIONS:
        counts = ",".join(str(space.layers) for space in placement.spaces)
        stages = len(placement.spaces)
        return (f"{PARTITIONS[place.engine]}={counts}", f"{SIZES[place.engine]} {stages}")
    if place.engine in LLAMACPP:
        return tuple(_llamacpp(place, placement))
    if place.engine == "ollama":
        return tuple(_ollama(place, placement))
    if place.engine == "ktransformers":
        return tuple(_ktransformers(place, placement))
    return ()


def slots_by_card(place: Place, placement: PlacementPlan) -> list[int]:
    """Layers of each card and, on the last in use, the output: the counts of -ts."""
    return [
        space.layers + (space.name == placement.last)
        for space in placement.spaces
        if space.name != place.host
    ]


def _llamacpp(place: Place, placement: PlacementPlan) -> Iterator[str]:
    counts = slots_by_card(place, placement)
    if place.engine == "llama.cpp":
        yield "-fit off"
    yield f"-ngl {sum(counts)}"
    if len(counts) > 1:
        yield f"-ts {','.join(map(str, counts))}"
    yield f"-c {placement.context_tokens}"
    found = overrides(place, placement)
    run = host_run(place, placement)
    if run is not None and place.engine == "llama.cpp":
        yield f"--n-cpu-moe {run}"
    elif found:
        yield f'-ot "{",".join(found)}"'
    elif _copies_inputs(place, counts) and not placement.pipelined:
        yield f'-ot "{NO_TENSOR}"'


def _copies_inputs(place: Place, counts: list[int]) -> bool:
    """Whether the engine would copy its inputs: more than one device, and a figure for it."""
    return PIPELINED in place.used and sum(count > 0 for count in counts) > 1


def _ollama(place: Place, placement: PlacementPlan) -> Iterator[str]:
    counts = slots_by_card(place, placement)
    yield f"num_gpu {sum(counts)}"
    if len(counts) > 1:
        yield f"LLAMA_ARG_TENSOR_SPLIT={','.join(map(str, counts))}"
    found = overrides(place, placement)
    if found:
        yield f"LLAMA_ARG_OVERRIDE_TENSOR='{','.join(found)}'"


def _ktransformers(place: Place, placement: PlacementPlan) -> Iterator[str]:
    """The same number of experts in each layer: what every layer keeps."""
    kept = [
        sum(at != place.host for at in lies)
        for run, lies in zip(place.each, placement.experts, strict=True)
        if run.experts
    ]
    yield f"--kt-num-gpu-experts {min(kept, default=0)}"


def overrides(place: Place, placement: PlacementPlan) -> list[str]:
    """pattern=buffer for experts that do not lie with their layer; whole layers last.

    The first match wins (llama.cpp -ot), so layers that keep a part stand first.
    """
    cards = [space.name for space in placement.spaces if space.name != place.host]
    groups: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    own = _own(placement)
    for layer, lies in enumerate(placement.experts):
        run = place.each[layer]
        names = run.names if place.unit == "tensor" else ("",) * len(lies)
        away = dict.fromkeys(at for at in lies if at != own[layer])
        for target in away:
            moved = tuple(n for n, at in zip(names, lies, strict=True) if at == target)
            moved = () if len(moved) == len(lies) else moved
            buffer = "CPU" if target == place.host else f"CUDA{cards.index(target)}"
            groups.setdefault((buffer, moved), []).append(layer)
    ordered = sorted(groups.items(), key=lambda item: not item[0][1])
    return [_pattern(layers, moved, buffer) for (buffer, moved), layers in ordered]


def _own(placement: PlacementPlan) -> list[str]:
    """The space of each layer."""
    return [space.name for space in placement.spaces for _ in range(space.layers)]


def _pattern(layers: list[int], names: tuple[str, ...], buffer: str) -> str:
    every = "|".join(map(str, layers))
    blocks = f"({every})" if len(layers) > 1 else every
    tensors = r"ffn_(up|down|gate|gate_up)_(ch|)exps"
    if names:
        words = "|".join(names)
        tensors = rf"ffn_({words})_exps" if len(names) > 1 else f"ffn_{words}_exps"
    return rf"blk\.{blocks}\.{tensors}={buffer}"


def host_run(place: Place, placement: PlacementPlan) -> int | None:
    """N of --n-cpu-moe: layers 0 .. N-1 have all experts on the host, the others none."""
    whole = [
        layer
        for layer, lies in enumerate(placement.experts)
        if lies and all(at == place.host for at in lies)
    ]
    part = [
        layer
        for layer, lies in enumerate(placement.experts)
        if any(
            at != own for at, own in zip(lies, [_own(placement)[layer]] * len(lies), strict=True)
        )
        and layer not in whole
    ]
    if part or not whole:
        return None
    through = whole[-1] + 1
    holders = [layer for layer in range(through) if place.each[layer].experts]
    return through if holders == whole else None


def notes_of(problem: Problem, placement: PlacementPlan) -> tuple[str, ...]:
    """What the figures leave out, and what to watch when the flags are pasted."""
    place = problem.place
    assert place is not None
    return tuple(_notes(place, placement))


def _notes(place: Place, placement: PlacementPlan) -> Iterator[str]:
    cards = [space for space in placement.spaces if space.name != place.host and space.layers]
    if placement.picoseconds is not None:
        left_out = "compute, kernel launches and prefill" + (
            "" if "hop" in place.read else ", hops"
        )
        yield f"speed is a roofline: bytes read over bandwidth, one request; without {left_out}"
    if len(cards) > 1 and placement.picoseconds is not None and "hop" not in place.read:
        yield "no read.hop: every change of space costs time that is not counted here"
    if place.engine in (*LLAMACPP, "ollama") and len(cards) > 1:
        yield f"device order: -dev must list the cards as {', '.join(s.name for s in cards)}"
    if placement.pipelined:
        yield "no override: the engine copies its inputs 4 times on each card (prefill overlaps)"
    elif PIPELINED in place.used and len(cards) > 1:
        yield "an override is set: inputs are not copied, and prefill does not overlap"
    if place.order == "any":
        order = ", ".join(space.name for space in placement.spaces)
        yield f"stage order: set CUDA_VISIBLE_DEVICES to {order}"
