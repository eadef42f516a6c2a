"""A decision as the plan shows it: bytes by space, where experts lie, the engine's flags."""

from __future__ import annotations

from kvplan.models.immutable.frozen_dict import FrozenDict
from kvplan.models.plan import PlacementPlan, SpacePlan
from kvplan.solver.place.engine_default import engine_default, note_of_fit
from kvplan.solver.place.flags import flags_of, notes_of
from kvplan.solver.place.search.placement_search import Placed
from kvplan.solver.place.slot_program import Program


def placement_of(program: Program, found: Placed) -> PlacementPlan:
    """Write a placement out."""
    names = [program.problem.ranks[rank].name for rank in found.decision.order]
    layers = len(program.runs)
    ends = [min(end, layers) for end in found.decision.ends]
    starts = [0, *ends[:-1]]
    where = [at for at, end in enumerate(ends) for _ in range(end - starts[at])]
    lies = [tuple(lie) if lie else () for lie in found.decision.experts[:layers]]
    last_end = program.place.ends.last.spaces
    last = next(at for at, end in enumerate(found.decision.ends) if end == found.decision.ends[-1])
    spaces = tuple(_space(program, found, at, where, lies, last) for at in range(len(names)))
    times = [space.picoseconds for space in spaces]
    hops = (
        len({*where, last})
        - 1
        + 2 * sum(any(place != own for place in lie) for own, lie in zip(where, lies, strict=True))
    )
    hop = program.place.read.get("hop", 0)
    total = None if None in times else sum(time or 0 for time in times) + hop * hops
    placement = PlacementPlan(
        spaces=spaces,
        last=last_end[0] if last_end else names[last],
        experts=tuple(tuple(names[at] for at in lie) for lie in lies),
        picoseconds=total,
        pipelined=found.decision.pipelined,
        context_tokens=program.context_tokens(found.values),
        proven=found.is_proven,
        default=FrozenDict(),
    )
    return placement.model_copy(
        update={
            "flags": flags_of(program.problem, placement),
            "notes": (
                *notes_of(program.problem, placement),
                *note_of_fit(program, found, placement.picoseconds),
                *_note_of_gap(found),
            ),
            "default": FrozenDict(engine_default(program, found)),
        }
    )


def _note_of_gap(found: Placed) -> tuple[str, ...]:
    """How far the answer is from its bound, rounded up."""
    if not found.gap:
        return ()
    hundredths = -int(-found.gap * 10_000 // 1)
    share = f"{hundredths // 100}.{hundredths % 100:02d} %"
    return (f"not proven best in the time there is: no placement saves more than {share} of this",)


def _space(
    program: Program,
    found: Placed,
    at: int,
    where: list[int],
    lies: list[tuple[int, ...]],
    last: int,
) -> SpacePlan:
    """Sum up one space, layer by layer."""
    place, decision = program.place, found.decision
    rank = decision.order[at]
    name = program.problem.ranks[rank].name
    usable = program.usable(found.values)
    assert usable is not None
    mine = [layer for layer, own in enumerate(where) if own == at]
    runs = [program.runs[layer] for layer in mine]
    apart = place.has_experts_apart
    is_output = _lies(place.ends.last.spaces, name, at == last)
    first = where[0] if where else 0
    ends = _end_bytes(program, name, is_first=at == first, is_last=at == last)
    tensors = [
        (tensor, lie == at)
        for layer, run in enumerate(program.runs)
        for tensor, lie in zip(program.tensors(run), lies[layer], strict=True)
        if lie == at or (place.mirror and name == place.host)
    ]
    rate = place.read.get(name)
    time = None
    if rate is not None:
        reads = [run.dense + run.state + program.cache_bytes(run, usable) for run in runs]
        reads = [r + program.dense_experts_read(run) for r, run in zip(reads, runs, strict=True)]
        reads += [read for tensor, here in tensors if here for read in tensor.reads]
        reads.append(place.ends.last.bytes if is_output else 0)
        time = sum(read * 10**12 // rate for read in reads)
    in_use = bool(mine) or is_output or any(here for _, here in tensors)
    base = program.base_bytes(rank, found.values, pipelined=decision.pipelined)
    caches = sum(program.cache_bytes(run, usable) for run in runs)
    draft = program.draft_bytes(usable) if is_output else 0
    return SpacePlan(
        name=name,
        first=mine[0] if mine else 0,
        layers=len(mine),
        layer_bytes=ends + sum(r.dense + (0 if apart else sum(r.experts)) for r in runs),
        state_bytes=sum(run.state for run in runs),
        experts=sum(here for _, here in tensors),
        expert_bytes=sum(tensor.bytes for tensor, _ in tensors),
        cache_bytes=caches + draft,
        buffer_bytes=base if in_use else 0,
        picoseconds=time,
    )


def _end_bytes(program: Program, name: str, *, is_first: bool, is_last: bool) -> int:
    """Weights of the ends that lie in a space."""
    ends = program.place.ends
    first = ends.first.bytes if _lies(ends.first.spaces, name, is_first) else 0
    last = ends.last.bytes if _lies(ends.last.spaces, name, is_last) else 0
    draft = ends.draft.bytes if _lies(ends.last.spaces, name, is_last) else 0
    return first + last + draft


def _lies(spaces: tuple[str, ...] | None, name: str, beside: bool) -> bool:
    """Whether an end lies in a space: in the one given, or beside its layer."""
    return name in spaces if spaces else beside
