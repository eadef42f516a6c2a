"""vLLM's KVCacheSpec objects (vllm/v1/kv_cache_interface.py) as the specs that kvplan's rules take.

Objects are told by the name of their class, so that nothing of vLLM is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kvplan.models.engines.vllm.spec import Kind, Spec
from kvplan.models.errors import InvalidProblem

KINDS: Mapping[str, Kind] = {
    "FullAttentionSpec": "full",
    "MLAAttentionSpec": "mla",
    "SlidingWindowSpec": "window",
    "ChunkedLocalAttentionSpec": "chunked",
    "MambaSpec": "mamba",
    "CrossAttentionSpec": "cross",
}
_REACHES = {"window": "sliding_window", "chunked": "attention_chunk_size"}
# What does not tell two layers of one group apart, or has a field of its own in `Spec`.
_NO_IDENTITY = frozenset(
    {
        "attention_chunk_size",
        "block_size",
        "extra_retained_tokens",
        "is_draft",
        "non_causal",
        "page_size_padded",
        "sliding_window",
    }
)


@dataclass(frozen=True)
class Layers:
    """The layers of all workers: in vLLM's order, with the pipeline stage of each worker.

    Attributes
    ----------
    names : of the layers, those of the first stage first.
    specs : one for each name.
    counts : layers of each stage.
    stages : of each worker; workers that hold the same layers share a stage.
    """

    names: tuple[str, ...]
    specs: tuple[Spec, ...]
    counts: tuple[int, ...]
    stages: tuple[int, ...]


def layers_of(workers: list[Mapping[str, Any]], shards: int = 1) -> Layers:
    """Merge what the workers hold.

    Parameters
    ----------
    workers : specs by layer, one mapping a worker (kv_cache_specs of get_kv_cache_configs).
    shards : --decode-context-parallel-size.

    Raises
    ------
    InvalidProblem : a class or a layout that kvplan does not know, or stages that share layers.
    """
    held: list[tuple[str, ...]] = []
    stages = []
    for specs in workers:
        names = tuple(specs)
        if names not in held:
            held.append(names)
        stages.append(held.index(names))
    merged = {name: spec for specs in workers for name, spec in specs.items()}
    if len(merged) != sum(map(len, held)):
        raise InvalidProblem.at(
            "kv_cache_specs", "workers that hold the same layers or none in common", "others"
        )
    found = tuple(spec_of(name, spec, shards) for name, spec in merged.items())
    return Layers(tuple(merged), found, tuple(map(len, held)), tuple(stages))


def spec_of(layer: str, spec: Any, shards: int = 1) -> Spec:
    """Read the spec of one layer.

    Raises
    ------
    InvalidProblem : a class or a layout that kvplan does not know, by name.
    """
    kind = KINDS.get(type(spec).__name__)
    path = f"kv_cache_specs.{layer}"
    if kind is None:
        raise InvalidProblem.at(path, f"one of {', '.join(KINDS)}", type(spec).__name__)
    _check_layout(path, spec, shards)
    padded = getattr(spec, "page_size_padded", None)
    own = int(spec.page_size_bytes if padded is None else spec.real_page_size_bytes)
    if kind == "mamba":
        return _state(spec, own, padded)
    reach = getattr(spec, _REACHES.get(kind, "sliding_window"), None)
    return Spec(
        kind,
        int(spec.block_size),
        Fraction(own, int(spec.block_size)),
        padded_bytes=padded,
        reach=reach,
        identity=_identity(spec),
        named_dtype=getattr(spec, "cache_dtype_str", None),
    )


def _check_layout(path: str, spec: Any, shards: int) -> None:
    """Refuse pages whose bytes do not follow from the tokens of a block alone."""
    if getattr(spec, "alignment", None) is not None:
        raise InvalidProblem.at(f"{path}.alignment", "none", str(spec.alignment))
    ask = getattr(spec, "get_block_stride_alignment", None)
    stride = 1 if ask is None else int(ask())
    if int(spec.page_size_bytes) % stride:
        expected = f"a divisor of the page's {spec.page_size_bytes} B"
        raise InvalidProblem.at(f"{path}.block_stride_alignment", expected, str(stride))
    if shards > 1 and hasattr(spec, "num_kv_heads") and not getattr(spec, "dcp_sharded", True):
        expected = "true with --decode-context-parallel-size"
        raise InvalidProblem.at(f"{path}.dcp_sharded", expected, "false")


def _state(spec: Any, own: int, padded: int | None) -> Spec:
    return Spec(
        "mamba",
        int(spec.block_size),
        state_bytes=own,
        padded_bytes=padded,
        mode=str(spec.mamba_cache_mode),  # type: ignore[arg-type]
        speculative_blocks=int(getattr(spec, "num_speculative_blocks", 0)),
        identity=_identity(spec),
    )


def _identity(spec: Any) -> tuple[object, ...]:
    """Every other field as text: vLLM compares them all."""
    kept = sorted((key, value) for key, value in vars(spec).items() if key not in _NO_IDENTITY)
    return (type(spec).__name__, *((key, str(value)) for key, value in kept))
