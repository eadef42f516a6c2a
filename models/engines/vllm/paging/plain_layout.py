"""vLLM's layout of pages as plain data, and that of its rules for buckets written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvplan.models.engines.vllm.block_groups import Group as EngineGroup
from kvplan.models.engines.vllm.block_groups import Layout, Serving, stages_of
from kvplan.models.engines.vllm.launch.versions import version_of
from kvplan.models.engines.vllm.paging.alignment import padded_states
from kvplan.models.engines.vllm.paging.grouping import layout_of
from kvplan.models.engines.vllm.spec import Kind, Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.layouts import Bucket, LayoutQuestion, PageLayout
from kvplan.models.layouts.page_layout import SHARED, Group, GroupLayers, PagePool


def laid_out(question: LayoutQuestion, layout: Layout, names: Sequence[str]) -> PageLayout:
    """Write an engine's layout as plain data.

    Parameters
    ----------
    names : the bucket of each layer that has a cache.
    """
    groups = tuple(_group(question, group, names) for group in layout.groups)
    pages = {spec.page_bytes for group in layout.groups for spec in group.specs}
    common = pages.pop() if len(pages) == 1 else None
    kind = "uniform" if common else "mixed" if len(groups) == 1 else "packed"
    sizes = {str(stage): layout.block_bytes(index) for index, stage in enumerate(question.stages)}
    pool = PagePool(name=SHARED, block_bytes=sizes, reserved_blocks=question.reserved_blocks)
    return PageLayout.model_validate(
        {"pages": kind, "page_bytes": common, "pools": (pool,), "groups": groups}
    )


def _group(question: LayoutQuestion, group: EngineGroup, names: Sequence[str]) -> Group:
    members: dict[str, list[int]] = {}
    pages: dict[str, int] = {}
    for at, spec in zip(group.layers, group.specs, strict=True):
        members.setdefault(names[at], []).append(at)
        pages[names[at]] = spec.page_bytes
    first = question.bucket(names[group.layers[0]])
    return Group(
        pool=SHARED,
        block_tokens=0 if first.kind == "state" else group.spec.block_tokens,
        held_full=first.hold_full and group.spec.kind == "full",
        members=tuple(
            GroupLayers(bucket=name, layers=tuple(layers), page_bytes=pages[name])
            for name, layers in members.items()
        ),
    )


def layout_by_rules(question: LayoutQuestion) -> tuple[str, PageLayout]:
    """Lay the buckets of a question out as vLLM's rules would.

    A full bucket whose page must not be padded stands for MLA layers; states are padded to the
    attention page that they were aligned with, as the engine does before it groups.

    Raises
    ------
    InvalidProblem : the version is not known, or refuses these layers.
    """
    rules = question.engine
    assert rules is not None
    try:
        version = version_of(rules.version)
    except InvalidProblem as error:
        fault = error.faults[0]
        raise InvalidProblem.at("engine.version", fault.expected, fault.got) from None
    serving = Serving(
        version,
        length_tokens=question.longest.capacity,
        batch_tokens=1,
        packed=question.pages == "packed",
        group_layers=rules.group_layers,
        compact_windows=rules.compact_windows,
    )
    names, counts = _layers(question)
    specs = padded_states([_spec(question.bucket(name)) for name in names])
    layout = layout_of(specs, serving, stages_of(counts))
    patched = " (patched)" if rules.group_layers or rules.compact_windows else ""
    positions = _positions(question)
    moved = [positions[index] for index in range(len(names))]
    return f"vLLM {version.text}{patched}", _renumbered(laid_out(question, layout, names), moved)


def _layers(question: LayoutQuestion) -> tuple[list[str], list[int]]:
    """The bucket of every layer, stage by stage, and the layers of each stage."""
    names: list[str] = []
    counts = []
    for stage in question.stages:
        mine = [(at, name) for at, (name, on) in _placed(question).items() if on == stage]
        names += [name for _, name in sorted(mine)]
        counts.append(len(mine))
    return names, counts


def _positions(question: LayoutQuestion) -> list[int]:
    placed = _placed(question)
    return sorted(placed, key=lambda at: (placed[at][1], at))


def _placed(question: LayoutQuestion) -> Mapping[int, tuple[str, int]]:
    """Bucket and stage of every layer, by position."""
    placed: dict[int, tuple[str, int]] = {}
    start = 0
    for bucket in question.buckets:
        given = list(bucket.positions or range(start, start + bucket.total_layers))
        start += bucket.total_layers
        for stage, count in sorted(bucket.by_stage.items()):
            placed |= dict.fromkeys(given[:count], (bucket.name, stage))
            given = given[count:]
    return placed


def _renumbered(layout: PageLayout, positions: Sequence[int]) -> PageLayout:
    groups = tuple(
        group.model_copy(
            update={
                "members": tuple(
                    member.model_copy(
                        update={"layers": tuple(positions[at] for at in member.layers)}
                    )
                    for member in group.members
                )
            }
        )
        for group in layout.groups
    )
    return layout.model_copy(update={"groups": groups})


def _spec(bucket: Bucket) -> Spec:
    """A layer of a bucket as vLLM describes it."""
    identity = (bucket.name,)
    if bucket.token_bytes is None:
        return Spec(
            "mamba",
            bucket.block_tokens,
            state_bytes=bucket.state_bytes or 0,
            mode="none" if bucket.kind == "state" else "all",
            speculative_blocks=(bucket.blocks or 1) + bucket.extra_blocks,
            identity=identity,
        )
    kind: Kind = "full" if bucket.pad else "mla"
    if bucket.kind == "window" or bucket.kind == "chunked":
        kind = bucket.kind
    return Spec(
        kind,
        bucket.block_tokens,
        bucket.token_bytes,
        reach=bucket.window or bucket.chunk,
        identity=identity,
        named_dtype=bucket.name,
    )
