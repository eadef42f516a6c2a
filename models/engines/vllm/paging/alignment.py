"""Block sizes beside states, padded state pages, and the layers of pipeline stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from kvplan.models.engines.partitions import before_last
from kvplan.models.engines.vllm.block_groups import stages_of
from kvplan.models.engines.vllm.launch.versions import Version
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

DEFAULT_BLOCK, LATENT_BLOCK = 16, 128
"""Tokens of a block, and those that blocks of MLA layers beside states are multiples of."""


def aligned_block(specs: Sequence[Spec], settings: Mapping[str, Any], version: Version) -> int:
    """Tokens of an attention block: the user's, raised so that a state fits in its page.

    With a bytes of attention a token and m bytes of a state (the first of each kind), k the user's
    block or what the kernel takes (16):
    none, align  A = k ceil(m / (k a));  all  A = c ceil(ceil(m / a) / c), c = lcm(chunk, k);
    block = max(user's, A); k at least 128 for MLA from 0.27 on.
    (vllm/platforms/interface.py, _align_hybrid_block_size)
    """
    attends = [spec for spec in specs if spec.kind != "mamba"]
    default = attends[0].block_tokens if attends else DEFAULT_BLOCK
    asked = settings["block_size"]
    block = int(asked) if asked else default
    if asked is not None and (block < 1 or block % DEFAULT_BLOCK):
        raise InvalidProblem.at("--block-size", f"a multiple of {DEFAULT_BLOCK}", str(asked))
    states = [spec for spec in specs if spec.kind == "mamba"]
    if not states or not attends:
        return block
    first = next((s for s in attends if s.kind in ("full", "mla")), attends[0])
    token, step = first.token_bytes, block
    if first.kind == "mla" and version.aligns_latent_to_128:
        step = max(step, LATENT_BLOCK)
    state = states[0].state_bytes
    if states[0].mode == "all":
        step = lcm(int(settings["mamba_block_size"] or block), step)
        tokens = -(-state // token)
        return max(block, step * -(-tokens // step))
    return max(block, step * -(-state // (step * token)))


def with_block(spec: Spec, block: int, settings: Mapping[str, Any]) -> Spec:
    """Lay the block size over a spec; a state's own matters in mode all, a kernel's own stays."""
    if spec.fixed_block:
        return spec
    own = settings["mamba_block_size"] if spec.kind == "mamba" else None
    return spec.with_block(int(own) if own and spec.mode == "align" else block)


def padded_states(specs: list[Spec]) -> list[Spec]:
    """Pad state pages to the attention page that they were aligned with."""
    pages = [spec.page_bytes for spec in specs if spec.kind in ("full", "mla")]
    if not pages or not any(spec.kind == "mamba" for spec in specs):
        return specs
    return [
        replace(spec, padded_bytes=max(pages[0], spec.state_bytes))
        if spec.kind == "mamba"
        else spec
        for spec in specs
    ]


def stage_layers(layers: int, settings: Mapping[str, Any]) -> list[range]:
    """Layers of each pipeline stage: what was given, or the engine's own share.

    Raises
    ------
    InvalidProblem : a partition of another count of stages or layers.
    """
    stages = max(1, int(settings["pipeline_parallel_size"]))
    given = settings["pp_layer_partition"]
    if given is not None:
        parts = [int(part) for part in str(given).split(",") if part.strip().isdecimal()]
        if len(parts) != stages or sum(parts) != layers:
            expected = f"{stages} counts that sum to {layers}"
            raise InvalidProblem.at("--pp-layer-partition", expected, shown(given))
        return list(stages_of(parts))
    return list(stages_of(before_last(layers, stages)))
