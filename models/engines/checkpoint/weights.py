"""Bytes of a model's weights, where the weights are at hand: by tensor, layer and expert.

A folder's safetensors files and a GGUF file list their tensors in a header; nothing else is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.models.errors import InvalidProblem
from kvplan.models.immutable.lazy import cached_property
from kvplan.models.messages import shown
from kvplan.models.units import exact_bytes

if TYPE_CHECKING:
    from kvplan.models.engines.layers import Architecture

MOST_HEADER_BYTES = 256 * 2**20
INDEX = "model.safetensors.index.json"
LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|blk)\.(\d+)\.")
TOWER = re.compile(r"(?:^|\.)(?:visual|vision|vision_tower|vision_model|audio_tower|mm_)")
DRAFT = re.compile(r"(?:^|\.)(?:mtp|nextn|eh_proj|draft)(?:\.|$)")
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_OTHERS = frozenset({"I64", "BOOL"})  # indices and masks of a plain checkpoint
_EXPERT = re.compile(r"\.experts?\.(\d+)\.")
_STACKED = re.compile(r"exps\b|\.experts\.(?!\d)")


@dataclass(frozen=True)
class Weights:
    """Tensors by name, in bytes.

    Attributes
    ----------
    tensors : empty where only the total is known (an index without its files).
    source : the file or folder, for messages.
    dtypes : element type of each tensor, as safetensors spells it; empty where it is not known.
    """

    tensors: Mapping[str, int]
    total_bytes: int
    source: str
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def held(self, element_bytes: int, layers: int, *, draft: bool) -> Weights:
        """What an engine keeps of these files.

        Floats of a checkpoint that is not quantised take the served element; of a quantised one
        (any other type among its tensors) every tensor stays as it lies. Without a draft its
        layers are passed over.

        Parameters
        ----------
        element_bytes : of the served dtype.
        layers : of the target model; those behind them are a draft's.
        draft : whether the draft is loaded.
        """
        if not self.tensors:
            return self
        plain = set(self.dtypes.values()) <= set(FLOATS) | _OTHERS
        kept = {
            name: self._held(name, count, element_bytes if plain else 0)
            for name, count in self.tensors.items()
            if draft or not is_drafts(name, layers)
        }
        return Weights(kept, sum(kept.values()), self.source, self.dtypes)

    def _held(self, name: str, count: int, element_bytes: int) -> int:
        own = FLOATS.get(self.dtypes.get(name, ""))
        return count // own * element_bytes if own and element_bytes else count

    @cached_property
    def layer_bytes(self) -> dict[int, int]:
        """Bytes of each layer."""
        found: dict[int, int] = {}
        for name, count in self.tensors.items():
            match = LAYER.search(name)
            if match and not TOWER.search(name):
                found[int(match[1])] = found.get(int(match[1]), 0) + count
        return dict(sorted(found.items()))

    def experts_by_layer(self, experts: int) -> dict[int, tuple[int, ...]]:
        """Bytes of each routed expert by layer; a layer without any is left out.

        Parameters
        ----------
        experts : of a layer, for tensors that stack them: each has an even share, rounded up.
        """
        found: dict[int, dict[int, int]] = {}
        for name, count in self.tensors.items():
            layer, expert = LAYER.search(name), _EXPERT.search(name)
            if layer is None:
                continue
            shares: dict[int, int] = {}
            if expert:
                shares[int(expert[1])] = count
            elif experts and _STACKED.search(name):
                shares = dict.fromkeys(range(experts), -(-count // experts))
            mine = found.setdefault(int(layer[1]), {})
            for index, share in shares.items():
                mine[index] = mine.get(index, 0) + share
        return {layer: tuple(own.values()) for layer, own in sorted(found.items()) if own}

    def expert_bytes(self, experts: int) -> int:
        """Bytes of the largest routed expert of one layer; 0 without experts."""
        return max(map(max, self.experts_by_layer(experts).values()), default=0)


def is_drafts(name: str, layers: int) -> bool:
    """Whether a tensor is of draft (MTP) layers, which lie behind the target's."""
    match = LAYER.search(name)
    behind = match is not None and int(match[1]) >= layers
    return not TOWER.search(name) and (bool(DRAFT.search(name)) or behind)


def weights_lines(
    weights: Weights, ranks: int, architecture: Architecture, stored_bytes: int
) -> tuple[str, ...]:
    """One line on the weights at hand: in all, the largest layer, and an expert.

    stored_bytes : of the files, with what is not loaded, in the element they are stored in.
    """
    parts = [f"weights: {exact_bytes(weights.total_bytes)}"]
    if stored_bytes != weights.total_bytes:
        parts.append(f"of {exact_bytes(stored_bytes)} stored")
    if ranks > 1:
        parts.append(f"an even share on {ranks} ranks (estimated)")
    if weights.layer_bytes:
        parts.append(f"largest layer {exact_bytes(max(weights.layer_bytes.values()))}")
    expert = weights.expert_bytes(architecture.experts)
    if expert:
        parts.append(f"an expert {exact_bytes(expert)}")
    return (f"{', '.join(parts)} ({weights.source})",)


def folder_weights(folder: Path) -> Weights | None:
    """Weights of a folder of safetensors files; None without any.

    With an index but not all of its files the index's total stands alone. Mistral's consolidated
    files are a second copy, where others lie beside them.

    Raises
    ------
    InvalidProblem : a header that cannot be read.
    """
    files = sorted(folder.glob("*.safetensors"))
    index = folder / INDEX
    if index.is_file():
        data = _json(index)
        named = set((data.get("weight_map") or {}).values())
        if not named <= {file.name for file in files}:
            total = (data.get("metadata") or {}).get("total_size")
            return Weights({}, int(total), str(folder)) if isinstance(total, int) else None
        files = [file for file in files if file.name in named]
    copies = [file for file in files if file.name.startswith("consolidated")]
    files = files if len(copies) == len(files) else [one for one in files if one not in copies]
    if not files:
        return None
    tensors: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    for file in files:
        for name, (count, dtype) in _tensors(file).items():
            tensors[name], dtypes[name] = count, dtype
    return Weights(tensors, sum(tensors.values()), str(folder), dtypes)


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise InvalidProblem.at(str(path), "a safetensors index", str(error)) from None
    return data if isinstance(data, dict) else {}


def _tensors(path: Path) -> dict[str, tuple[int, str]]:
    """Read a safetensors header, bytes and dtype: its length in 8 bytes, then JSON with offsets."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= MOST_HEADER_BYTES:
                raise ValueError(f"a header of {length} B")
            data = json.loads(file.read(length))
        return {
            name: (_extent(entry["data_offsets"]), str(entry.get("dtype")))
            for name, entry in data.items()
            if name != "__metadata__"
        }
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise InvalidProblem.at(str(path), "a safetensors header", shown(str(error))) from None


def _extent(offsets: Sequence[Any]) -> int:
    return int(offsets[1]) - int(offsets[0])
