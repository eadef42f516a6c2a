"""What is wrong in a file of vLLM's specs, with its path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.models.engines.layers import DTYPE_BITS
from kvplan.models.errors import Fault
from kvplan.models.messages import one_of, shown

_ATTENTION = ("num_kv_heads", "head_size")
_COUNTS: Mapping[str, tuple[str, ...]] = {
    "full": _ATTENTION,
    "window": (*_ATTENTION, "window"),
    "chunked": (*_ATTENTION, "chunk"),
    "mla": _ATTENTION,
    "mamba": (),
}
"""Fields of each kind that are whole numbers of at least 1, beside block_size."""
_MODES = ("none", "align", "all")


def dump_faults(data: Mapping[str, Any]) -> Iterator[Fault]:
    """Find every fault of a dump (`server_of_dump`)."""
    specs = data.get("specs")
    if not isinstance(specs, Mapping):
        yield Fault("specs", "a mapping of names to specs", shown(specs))
        return
    for name, spec in specs.items():
        yield from _spec(f"specs.{name}", spec)
    yield from _layers(data, specs)
    for field in ("max_model_len", "max_num_batched_tokens"):
        yield from _count(field, data.get(field))
    available = data.get("available")
    if not isinstance(available, list) or not available:
        yield Fault("available", "a list of bytes, one a rank", shown(available))


def _layers(data: Mapping[str, Any], specs: Mapping[str, Any]) -> Iterator[Fault]:
    layers = data.get("layers")
    if not isinstance(layers, list) or not layers:
        yield Fault("layers", "a list of names of specs", shown(layers))
        return
    for index, name in enumerate(layers):
        if name not in specs:
            yield Fault(f"layers[{index}]", one_of(tuple(specs), str(name)), shown(name))
    stages = data.get("stages")
    if stages is None:
        return
    counts = isinstance(stages, list) and all(isinstance(n, int) for n in stages)
    if not counts or sum(stages) != len(layers):
        yield Fault("stages", f"layers by stage that sum to {len(layers)}", shown(stages))


def _spec(path: str, spec: Any) -> Iterator[Fault]:
    if not isinstance(spec, Mapping):
        yield Fault(path, "a mapping", shown(spec))
        return
    kind = str(spec.get("kind"))
    if kind not in _COUNTS:
        yield Fault(f"{path}.kind", one_of(tuple(_COUNTS), kind), shown(spec.get("kind")))
        return
    for field in ("block_size", *_COUNTS[kind]):
        yield from _count(f"{path}.{field}", spec.get(field))
    if kind == "mamba":
        yield from _state(path, spec)
    else:
        yield from _dtype(f"{path}.dtype", spec.get("dtype"))


def _state(path: str, spec: Mapping[str, Any]) -> Iterator[Fault]:
    shapes, dtypes = spec.get("shapes"), spec.get("dtypes")
    if not isinstance(shapes, list) or not all(isinstance(each, list) for each in shapes):
        yield Fault(f"{path}.shapes", "a list of shapes", shown(shapes))
    elif not isinstance(dtypes, list) or len(dtypes) != len(shapes):
        yield Fault(f"{path}.dtypes", f"{len(shapes)} dtypes, one a shape", shown(dtypes))
    else:
        for index, shape in enumerate(shapes):
            for at, extent in enumerate(shape):
                yield from _count(f"{path}.shapes[{index}][{at}]", extent)
            yield from _dtype(f"{path}.dtypes[{index}]", dtypes[index])
    mode = spec.get("mamba_cache_mode")
    if mode is not None and mode not in _MODES:
        yield Fault(f"{path}.mamba_cache_mode", one_of(_MODES, str(mode)), shown(mode))


def _dtype(path: str, dtype: Any) -> Iterator[Fault]:
    if dtype not in DTYPE_BITS:
        yield Fault(path, one_of(tuple(DTYPE_BITS), str(dtype)), shown(dtype))


def _count(path: str, value: Any) -> Iterator[Fault]:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        yield Fault(path, "a whole number of at least 1", shown(value))
