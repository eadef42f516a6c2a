"""From layers' specs to groups: vllm/v1/core/kv_cache_utils.py, from 0.33 kv_cache_planning.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kvplan.models.engines.vllm.block_groups import Group, Layout, Serving
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.engines.vllm.paging.packed import packed_groups
from kvplan.models.engines.vllm.spec import Spec, mergeable
from kvplan.models.engines.vllm.tuples import TupleLayout, tuple_groups
from kvplan.models.errors import InvalidProblem

Indexed = list[tuple[int, Spec]]


def layout_of(specs: Sequence[Spec], serving: Serving, stages: Sequence[range]) -> Layout:
    """Group the layers as vLLM would.

    In this order: all specs merge: one group; all of one family: one group with pages of several
    sizes; a block-outermost layout: packed groups; else one page for all and groups of one width.

    Raises
    ------
    InvalidProblem : the version refuses these layers.
    """
    if serving.unify_hybrid:
        specs = promote(specs)
    if serving.compact_windows:
        specs = compact(specs)
    if any(spec.fixed_block for spec in specs) and not serving.version.packs_compressed_layers:
        tuples = tuple_groups(list(enumerate(specs)), serving.version)
        return TupleLayout(tuple(tuples), tuple(stages), serving.version)
    groups = _groups(list(enumerate(specs)), serving)
    return Layout(tuple(groups), tuple(stages))


def _groups(layers: Indexed, serving: Serving) -> list[Group]:
    version = serving.version
    specs = [spec for _, spec in layers]
    if not specs:
        return []
    if mergeable(specs, any_mla_head=version.merges_mla_of_any_head):
        return [_merged(layers)]
    if len({spec.family for spec in specs}) == 1:
        return [group_of(layers)]
    if serving.packed and len({spec.page_bytes for spec in specs}) > 1:
        return packed_groups(layers, split_windows=version.splits_packed_windows)
    try:
        unified = unify_pages(specs, version, strided=serving.strided)
    except InvalidProblem:
        promoted = _promoted_beside_mla(specs) if version.pads_odd_pages else None
        if promoted is None:
            raise
        return [group_of([(at, spec) for (at, _), spec in zip(layers, promoted, strict=True)])]
    positions = [at for at, _ in layers]
    return equal_groups(
        list(zip(positions, unified, strict=True)), version, width=serving.group_layers
    )


def group_of(layers: Indexed) -> Group:
    """Make a group of layers that keep their own specs."""
    return Group(tuple(at for at, _ in layers), tuple(spec for _, spec in layers))


def _merged(layers: Indexed) -> Group:
    """Make a group whose layers all have the first one's spec (and page)."""
    return Group(tuple(at for at, _ in layers), (layers[0][1],) * len(layers))


def unify_pages(specs: Sequence[Spec], version: Version, *, strided: bool = False) -> list[Spec]:
    """Give every layer the largest page P.

    p with P % p == 0: P / p times the tokens a block. A state is padded from 0.25 on. Another p:
    padded from 0.26 on (not MLA), in 0.24 and 0.25 where the backend is strided; else refused.
    """
    page = max(spec.page_bytes for spec in specs)
    pads = version.pads_odd_pages or (strided and version.pads_strided_pages)
    return [_unified(spec, page, version, pads=pads) for spec in specs]


def _unified(spec: Spec, page: int, version: Version, *, pads: bool) -> Spec:
    own = spec.page_bytes
    if own == page:
        return spec
    if spec.kind == "mamba" and version.pads_state_pages:
        return spec.padded_to(page)
    if own and page % own == 0 and spec.kind != "mamba":
        wider = spec.with_block(spec.block_tokens * (page // own))
        if wider.page_bytes == page:
            return wider
    if pads and spec.kind not in ("mla", "mamba"):
        return spec.padded_to(page)
    raise InvalidProblem.at(
        "layers",
        f"pages that divide the largest one, {page} B (vLLM {version.text} pads none)",
        f"{own} B of a {spec.kind} layer",
    )


def equal_groups(layers: Indexed, version: Version, *, width: int = 0) -> list[Group]:
    """Split buckets of alike layers into groups of one width.

    width = least bucket, or the largest if that is below 1.5 x the least; a bucket of n becomes
    ceil(n / width) groups, dealt in turn (so that every pipeline stage gets a share of each).

    Parameters
    ----------
    width : layers of a group where a patched build fixes it.
    """
    buckets: list[Indexed] = []
    for at, spec in layers:
        for bucket in buckets:
            if _belongs(bucket, spec, version):
                bucket.append((at, spec))
                break
        else:
            buckets.append([(at, spec)])
    sizes = [len(bucket) for bucket in buckets]
    width = width or (max(sizes) if 2 * max(sizes) < 3 * min(sizes) else min(sizes))
    groups = []
    for bucket in buckets:
        number = -(-len(bucket) // width)
        groups += [_merged(bucket[index::number]) for index in range(number)]
    return groups


def _belongs(bucket: Indexed, spec: Spec, version: Version) -> bool:
    """Equal specs; full layers that differ in reach alone merge from 0.26 on."""
    first = bucket[0][1]
    if spec == first:
        return True
    if not version.pads_odd_pages:
        return False
    return mergeable([first, spec], any_mla_head=False)


def compact(specs: Sequence[Spec]) -> list[Spec]:
    """1Cat-vLLM: a window whose page is the largest takes fewer tokens a block.

    P of the window, Q of the largest other page: block x Q / P, where that is whole and a multiple
    of 16 (docs/design/sm70_memory_budget.md).
    """
    others = [spec.page_bytes for spec in specs if spec.kind != "window"]
    page = max(others, default=0)
    return [_compacted(spec, page) if spec.kind == "window" else spec for spec in specs]


def _compacted(spec: Spec, page: int) -> Spec:
    if not 0 < page < spec.page_bytes or spec.block_tokens * page % spec.page_bytes:
        return spec
    block = spec.block_tokens * page // spec.page_bytes
    return spec if block % 16 else spec.with_block(block)


def promote(specs: Sequence[Spec]) -> list[Spec]:
    """--disable-hybrid-kv-cache-manager: windows and chunks are allocated as full attention.

    Raises
    ------
    InvalidProblem : layers that still need different numbers of blocks.
    """
    if len({spec.family for spec in specs}) <= 1:
        return list(specs)
    full_blocks = {spec.block_tokens for spec in specs if spec.kind in ("full", "mla")}
    promoted = list(specs)
    if full_blocks:
        block = full_blocks.pop() if len(full_blocks) == 1 else None
        promoted = [_promoted(spec, block or spec.block_tokens) for spec in specs]
    if len({spec.family for spec in promoted}) > 1:
        raise InvalidProblem.at(
            "--disable-hybrid-kv-cache-manager",
            "layers that become one kind when windows are held in full",
            ", ".join(sorted({spec.kind for spec in promoted})),
        )
    return promoted


def _promoted(spec: Spec, block_tokens: int) -> Spec:
    if spec.kind not in ("window", "chunked"):
        return spec
    return replace(spec, kind="full", block_tokens=block_tokens)


def _promoted_beside_mla(specs: Sequence[Spec]) -> list[Spec] | None:
    """Beside MLA pages that do not divide, windows are held in full (from 0.26 on)."""
    kinds = {spec.kind for spec in specs}
    if not {"mla", "window"} <= kinds or "chunked" in kinds:
        return None
    try:
        return promote(specs)
    except InvalidProblem:
        return None
