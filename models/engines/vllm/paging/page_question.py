"""What vLLM may decide about its pages: the layout question of a server's layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd
from typing import Any

from kvplan.models.engines.vllm.block_groups import Serving
from kvplan.models.engines.vllm.launch.server import Server
from kvplan.models.engines.vllm.paging.alignment import DEFAULT_BLOCK, LATENT_BLOCK
from kvplan.models.engines.vllm.paging.grouping import promote
from kvplan.models.engines.vllm.paging.plain_layout import laid_out
from kvplan.models.engines.vllm.pool_problem import cache_of, rank_entries
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.layouts import LayoutQuestion, PageLayout
from kvplan.models.layouts.bucket import MOST_TOKENS


def question_of(
    server: Server, *, name: str = "", kernel_tokens: int = DEFAULT_BLOCK
) -> tuple[LayoutQuestion, PageLayout]:
    """Write the layout question of a server, and the layout that vLLM gives it.

    The permissions are the engine's: one page and one width, or packed pages where the server asks
    for a block-outermost layout; block tokens in multiples of the kernel's block; pages padded as
    the version pads them (never MLA's). Windows may be held in full where the engine held them so.

    Parameters
    ----------
    kernel_tokens : what the attention kernel takes; blocks of MLA beside states are multiples of
        128 from 0.27 on.

    Raises
    ------
    InvalidProblem : an encoder-decoder, whose cross caches are not laid out; or layers that vLLM's
        packed grouping leaves out (windows of one width with pages of several sizes).
    """
    serving = server.serving
    _check_whole(server)
    specs = list(promote(server.specs) if serving.unify_hybrid else server.specs)
    held = [spec.kind for group in server.layout.groups for spec in group.specs]
    keys = [_key(spec, serving) for spec in specs]
    names = _names(list(dict.fromkeys(keys)))
    most = _most_tokens(specs, server)
    beside_states = any(spec.kind == "mamba" for spec in specs)
    buckets = []
    for key, bucket_name in names.items():
        positions = [at for at, each in enumerate(keys) if each == key]
        counts = [sum(at in stage for at in positions) for stage in server.layout.stages]
        step = LATENT_BLOCK if key.kind == "mla" and beside_states else kernel_tokens
        if key.kind == "mla" and not serving.version.aligns_latent_to_128:
            step = kernel_tokens
        buckets.append(
            {
                "name": bucket_name,
                **_rule(key, serving),
                "layers": {str(stage): count for stage, count in enumerate(counts)},
                "positions": positions,
                **_page(key),
                "kernel_tokens": gcd(step, key.block_tokens),
                "max_tokens_per_block": most,
                "pad": _pads(key, serving),
                "hold_full": key.kind == "window" and "window" not in held,
            }
        )
    data: dict[str, Any] = {
        "name": name,
        "buckets": buckets,
        "requests": [{"capacity": serving.length_tokens}],
        "ranks": rank_entries(server.workers),
        "reserved_blocks": 1 if serving.version.charges_null_block else 0,
        "pages": "packed" if serving.packed else "uniform",
        "share_groups": serving.packed,
    }
    question = LayoutQuestion.model_validate(data)
    return question, laid_out(question, server.layout, [names[key] for key in keys])


def _check_whole(server: Server) -> None:
    """Refuse a layout that does not place every layer once."""
    placed = sorted(at for group in server.layout.groups for at in group.layers)
    if placed != list(range(len(server.specs))) or not all(g.layers for g in server.layout.groups):
        lost = len(server.specs) - len(placed)
        expected = "layers that vLLM's grouping all places (ask without the engine's layout)"
        raise InvalidProblem.at("--kv-cache-layout", expected, f"{lost} of them left out")


def _key(spec: Spec, serving: Serving) -> Spec:
    """What layers of one bucket have in common: all but padding, and the reach of full layers."""
    if spec.kind == "cross":
        expected = "a model without an encoder (cross caches are not laid out)"
        raise InvalidProblem.at("--engine vllm", expected, "cross-attention layers")
    merges = spec.kind in ("full", "mla") and serving.version.pads_odd_pages
    return replace(spec, padded_bytes=None, reach=None if merges else spec.reach)


def _names(keys: Sequence[Spec]) -> dict[Spec, str]:
    """A name for each bucket: its kind and reach, numbered where several share them."""
    found: dict[Spec, str] = {}
    for key in keys:
        word = {"mla": "latent", "mamba": "state"}.get(key.kind, key.kind)
        stem = f"{word} {key.reach}" if key.reach else word
        name, number = stem, 2
        while name in found.values():
            name, number = f"{stem} {number}", number + 1
        found[key] = name
    return found


def _rule(spec: Spec, serving: Serving) -> dict[str, Any]:
    rule = {"tokens_per_block": spec.block_tokens, **cache_of(spec, serving)}
    if rule["kind"] == "state":
        del rule["tokens_per_block"]
    return rule


def _page(spec: Spec) -> dict[str, Any]:
    if spec.kind == "mamba":
        return {"state_bytes": spec.state_bytes}
    return {"token_bytes": spec.token_bytes}


def _pads(spec: Spec, serving: Serving) -> bool:
    """Whether this version pads such a page: states always, MLA never (unify_kv_cache_spec)."""
    version = serving.version
    if spec.kind == "mamba":
        return True
    if spec.kind == "mla":
        return False
    return version.pads_odd_pages or (serving.strided and version.pads_strided_pages)


def _most_tokens(specs: Sequence[Spec], server: Server) -> int:
    """Most tokens of a block: 8,192, the engine's own choice, and enough to hold any state."""
    chosen = [s.block_tokens for group in server.layout.groups for s in group.specs]
    state = max((spec.state_bytes for spec in specs), default=0)
    rates = [spec.token_bytes for spec in specs if spec.token_bytes]
    holding = [int(-(-state // rate)) for rate in rates] if state else []
    most = max(MOST_TOKENS, *chosen, *holding)
    return -(-most // LATENT_BLOCK) * LATENT_BLOCK
