"""A Hugging Face config.json -> the layers that keep something for a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from kvplan.models.engines.checkpoint.gguf_file import is_gguf, read_gguf
from kvplan.models.engines.checkpoint.gguf_layers import gguf_architecture
from kvplan.models.engines.checkpoint.weights import Weights, folder_weights
from kvplan.models.engines.config.config_overrides import Overrides, laid_over, overridden_positions
from kvplan.models.engines.config.sections import text_fields
from kvplan.models.engines.config.understood import check_heeded, check_understood
from kvplan.models.engines.families import READERS
from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.families.unserved import why_not
from kvplan.models.engines.layers import DTYPE_BITS, Architecture, Layer
from kvplan.models.engines.positions import positions_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import one_of, shown
from kvplan.models.reading.loader import load_data

_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
_SIGNS = {
    "kv_lora_rank": "kv_lora_rank and qk_rope_head_dim",
    "sliding_window": "layer_types (which layers slide) and sliding_window",
    "layer_types": "the geometry of each kind in layer_types",
    "mamba_d_state": "layers_block_type or layer_types, and the mamba_* geometry",
    "ssm_state_size": "layers_block_type and the mamba_* geometry",
    "linear_attn_config": "linear_attn_config with its layers",
}


CONFIG = "config.json"


def load_architecture(source: str | Path) -> Architecture:
    """Read a config.json ("-" is standard input), a model's folder, or a GGUF file's header.

    Raises
    ------
    InvalidProblem : not a config, an unknown architecture, or a field that is missing.
    """
    return load_model(source)[0]


def load_model(
    source: str | Path, overrides: Overrides | None = None
) -> tuple[Architecture, Weights | None]:
    """Read a model's layers, and the bytes of its weights where they lie beside it.

    Parameters
    ----------
    overrides : fields laid over the config, sections key by key.

    Raises
    ------
    InvalidProblem : not a config, an unknown architecture, a field or a file that is missing.
    """
    path = Path(source)
    if path.is_dir() and not (path / CONFIG).is_file():
        path = _only_gguf(path)
    if str(source) != "-" and is_gguf(path):
        if overrides:
            raise InvalidProblem.at(overrides.flag, "a config.json to lay over", str(path))
        file = read_gguf(path)
        return gguf_architecture(file.metadata), file.weights
    folder = path if path.is_dir() else path.parent
    config = load_config(source)
    if overrides is None:
        known = read_architecture(config)
    else:
        known = read_architecture(laid_over(config, overrides.fields))
        known = replace(known, positions=overridden_positions(config, overrides))
    beside = str(source) != "-" and (path.is_dir() or path.name == CONFIG)
    return known, folder_weights(folder) if beside else None


def _only_gguf(folder: Path) -> Path:
    """The GGUF file of a folder without a config; the first part of a split one."""
    files = sorted(folder.glob("*.gguf"))
    if not files or any("-of-" not in file.name for file in files[1:]):
        found = f"{len(files)} GGUF files" if files else "neither"
        raise InvalidProblem.at(str(folder), f"a folder with {CONFIG} or one GGUF file", found)
    return files[0]


def load_config(source: str | Path) -> Mapping[str, Any]:
    """Read the mapping of a config.json, or the one under `config`.

    Raises
    ------
    InvalidProblem : the file cannot be read, or holds no mapping.
    """
    path = Path(source)
    data = load_data(path / CONFIG if path.is_dir() else source)
    if not isinstance(data, Mapping):
        raise InvalidProblem.at("config", "a mapping (a model's config.json)", shown(data))
    inner = data.get("config")
    return inner if isinstance(inner, Mapping) and "model_type" not in data else data


def read_architecture(config: Mapping[str, Any]) -> Architecture:
    """Read a config's layers.

    Raises
    ------
    InvalidProblem : an unknown architecture (with the fields that would be needed), or a field that
        is missing or malformed.
    """
    fields = text_fields(config)
    model_type = fields.word("model_type") or _outer_type(config)
    reader = READERS.get(model_type)
    if reader is None:
        raise _unknown(config, fields, model_type)
    check_heeded(fields, model_type)
    layers = tuple(reader(fields))
    check_understood(fields, layers, model_type)
    return Architecture(
        name=_name(config),
        model_type=model_type,
        dtype=_dtype(config, fields),
        layers=layers,
        total_layers=_total(fields, layers),
        max_positions=fields.count("max_position_embeddings", 0),
        vocabulary=fields.count("vocab_size", 0),
        hidden_dim=fields.count("hidden_size", 0),
        query_heads=fields.count("num_attention_heads", 0),
        read=tuple(fields.read),
        experts=max((fields.count(name, 0) for name in _EXPERTS), default=0),
        kv_dtype=_kv_dtype(config, fields),
        positions=positions_of(fields.data, fields.given),
    )


def _kv_dtype(config: Mapping[str, Any], fields: Fields) -> str:
    """Read the cache's element from quantization_config, as modelopt and llm-compressor write it.

    kv_cache_quant_algo or kv_cache_scheme (8 or 4 bits, float).
    """
    found = config.get("quantization_config") or fields.data.get("quantization_config")
    if not isinstance(found, Mapping):
        return ""
    inner = found.get("quantization")
    parts = [part for part in (inner, found) if isinstance(part, Mapping)]
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for part in parts:
            if (word := _quantised(part.get(key))) is not None:
                return word
    return ""


def _quantised(scheme: Any) -> str | None:
    """fp8 or nvfp4 of a scheme; empty for one that is not known, None without one."""
    if isinstance(scheme, str) and scheme:
        return {"fp8": "fp8", "nvfp4": "nvfp4"}.get(scheme.lower(), "")
    if isinstance(scheme, Mapping) and scheme.get("type") == "float":
        return {8: "fp8", 4: "nvfp4"}.get(scheme.get("num_bits", 0), "")
    return None


def _outer_type(config: Mapping[str, Any]) -> str:
    return str(config.get("model_type") or "")


def _name(config: Mapping[str, Any]) -> str:
    named = config.get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        return named[0]
    return _outer_type(config)


def _dtype(config: Mapping[str, Any], fields: Fields) -> str:
    """Name the dtype of the weights; empty where the config has none (an engine must be told)."""
    for part in (fields.data, config):
        for key in ("dtype", "torch_dtype"):
            named = part.get(key)
            if isinstance(named, str) and named in DTYPE_BITS:
                return named
    return ""


def _total(fields: Fields, layers: tuple[Layer, ...]) -> int:
    """Layers of the target; a config that only lists their kinds says it by the length."""
    if fields.has("num_hidden_layers"):
        return fields.layers
    if fields.has("layers_block_type"):
        return len(fields.items("layers_block_type"))
    return 1 + max((layer.index for layer in layers if not layer.draft), default=-1)


def _holds(config: Mapping[str, Any]) -> str:
    """The first keys of a mapping that is no config, to recognise the file by."""
    keys = [shown(str(key)) for key in islice(config, 3)]
    return f" (the file has {', '.join(keys)})" if keys else " (an empty mapping)"


def _unknown(config: Mapping[str, Any], fields: Fields, model_type: str) -> InvalidProblem:
    """Refuse, and say what a reader for this model would have to know."""
    reason = why_not(config, model_type, _outer_type(config))
    if reason is not None:
        return InvalidProblem.at(f"{fields.path}.model_type", reason, shown(model_type))
    needed = [text for sign, text in _SIGNS.items() if fields.has(sign)]
    needed = needed or ["num_hidden_layers, num_key_value_heads, head_dim, and the kind of layers"]
    if not model_type and not _name(config):
        expected = "model_type or architectures, as a Hugging Face config.json has"
        raise InvalidProblem.at(f"{fields.path}.model_type", expected, f"neither{_holds(config)}")
    known = one_of(READERS, model_type)
    return InvalidProblem.at(
        f"{fields.path}.model_type",
        f"a known architecture ({known}); to plan it: {'; '.join(needed)}",
        shown(model_type or _name(config) or "none"),
    )
