"""What a placement must keep: layers once and in order, experts where they may lie, bytes as told.

Restated from the problem in plain integers; quotas are checked with the pools, whose bytes by rank
and consumers must be those that follow from here.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.models.place import LayerRun, Place
from kvplan.models.plan import PlacementPlan
from kvplan.models.problem import Problem

Layer = tuple[LayerRun, str, tuple[str, ...]]
"""A layer, its space, and those of its experts."""


def placement_faults(problem: Problem, plan: PlacementPlan) -> list[str]:
    """Every rule that a placement breaks, one line each."""
    place = problem.place
    if place is None:
        return ["placement: the problem asks for none"]
    found = [*_slices(problem, place, plan)]
    if found:
        return found
    runs = [run for run in place.layers for _ in range(run.count)]
    own = [space.name for space in plan.spaces for _ in range(space.layers)]
    layers = [*zip(runs, own, plan.experts, strict=True)]
    return [*_experts(place, plan, layers)] or [*_bytes(place, plan, layers)]


def _slices(problem: Problem, place: Place, plan: PlacementPlan) -> Iterator[str]:
    """Each rank once, in order; each layer in one space; a layer on every stage."""
    names = [space.name for space in plan.spaces]
    ranks = [rank.name for rank in problem.ranks]
    if sorted(names) != sorted(ranks):
        yield f"placement: spaces {names} are not the ranks {ranks}"
    ordered = ranks if place.order is None else place.order
    if place.order != "any" and names != list(ordered):
        yield f"placement: spaces {names} are not in the order {list(ordered)}"
    at = 0
    for space in plan.spaces:
        if space.layers and space.first != at:
            yield f"placement: {space.name} begins with layer {space.first}, not {at}"
        at += space.layers
        if not space.layers and place.engine in ("vllm", "sglang"):
            yield f"placement: stage {space.name} holds no layer"
    count = sum(run.count for run in place.layers)
    if at != count:
        yield f"placement: {at} layers are placed, not {count}"
    if len(plan.experts) != count:
        yield f"placement: experts of {len(plan.experts)} layers, not {count}"


def _experts(place: Place, plan: PlacementPlan, layers: list[Layer]) -> Iterator[str]:
    """Experts of a layer on its card, on others as far as allowed, or on the host."""
    cards = [space.name for space in plan.spaces if space.name != place.host]
    for layer, (run, own, lies) in enumerate(layers):
        if len(lies) != len(_sizes(place, run)):
            yield f"placement: layer {layer} has {len(lies)} experts placed"
        may = {own, place.host}
        if own != place.host and place.experts == "next":
            may.update(cards[cards.index(own) :][:2])
        elif own != place.host and place.experts == "any":
            may.update(cards)
        for at in lies:
            if at not in may:
                yield f"placement: an expert of layer {layer} ({own}) may not lie on {at}"


def _bytes(place: Place, plan: PlacementPlan, layers: list[Layer]) -> Iterator[str]:
    """Weights, states, experts and buffers of each space."""
    for space in plan.spaces:
        mine = [run for run, own, _ in layers if own == space.name]
        apart = place.experts != "none"
        weights = sum(run.dense + (0 if apart else sum(run.experts)) for run in mine)
        weights += _ends(place, plan, space.name, bool(layers) and layers[0][1] == space.name)
        states = sum(run.state for run in mine)
        tensors = [
            (size, at == space.name)
            for run, _, lies in layers
            for size, at in zip(_sizes(place, run), lies, strict=apart)
            if at == space.name or (place.mirror and space.name == place.host)
        ]
        told = (space.layer_bytes, space.state_bytes, space.experts, space.expert_bytes)
        here = sum(held for _, held in tensors)
        right = (weights, states, here, sum(size for size, _ in tensors))
        if told != right:
            yield f"placement: {space.name} holds {right}, not {told}"
        buffers = _buffers(place, plan, space.name)
        used = bool(mine) or here > 0 or plan.last == space.name
        if space.buffer_bytes != (buffers if used else 0):
            yield f"placement: {space.name} has buffers of {buffers} B, not {space.buffer_bytes}"


def _sizes(place: Place, run: LayerRun) -> list[int]:
    """Bytes of what moves as one."""
    if place.experts == "none":
        return []
    return [sum(run.experts)] if place.unit == "layer" and run.experts else list(run.experts)


def _ends(place: Place, plan: PlacementPlan, name: str, is_first: bool) -> int:
    """Embedding, output and draft in a space."""
    first, last, draft = place.ends.first, place.ends.last, place.ends.draft
    total = first.bytes if (name in first.spaces if first.spaces else is_first) else 0
    beside = last.spaces or (plan.last,)
    return total + (last.bytes + draft.bytes if name in beside else 0)


def _buffers(place: Place, plan: PlacementPlan, name: str) -> int:
    """base + per_token x context, rounded up; pipelined figures where inputs are copied."""
    own, copied = place.used.get(name), place.used.get("pipelined")
    base, rate = (own.base, own.per_token) if own else (0, 0)
    if plan.pipelined and copied is not None and name != place.host:
        base, rate = base + copied.base, copied.per_token
    exact = rate * plan.context_tokens
    return base - int(-exact // 1)
