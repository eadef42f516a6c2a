"""Read the default config of every configuration class of transformers, and ask each engine.

Then leave each field that was read out of its config, as it is and with twice the width: what the
class puts back must give the same layers. Prints counts, crashes and differences.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from transformers import CONFIG_MAPPING
from transformers.models.auto import modeling_auto
from vllm import ModelRegistry

from kvplan.models import InvalidProblem
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.config.sections import text_fields
from kvplan.models.engines.registry import engine_named

FLAGS = {
    "vllm": "--available 90GiB --max-model-len 256 --dtype bfloat16",
    "sglang": "--available 90GiB --context-length 256 --dtype bfloat16",
    "tensorrt-llm": "--available 90GiB",
    "atom": "--available 90GiB",
    "llama.cpp": "--available 90GiB --ctx-size 256",
}
LEFT = ("model_type", "num_nextn_predict_layers", "mamba_ssm_cache_dtype")
"""Fields that checkpoints and engines know better than the class."""
MAPPINGS = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ")


def plain(config: Any) -> dict[str, Any]:
    """A config as JSON."""
    found: dict[str, Any] = json.loads(json.dumps(config.to_dict(), default=str))
    return found


def class_of(model_type: str) -> str | None:
    """The class that vLLM has, or the first one of transformers."""
    maps = [f"MODEL_FOR_{name}_MAPPING_NAMES" for name in MAPPINGS] + ["MODEL_MAPPING_NAMES"]
    named = [getattr(modeling_auto, name, {}).get(model_type) for name in maps]
    names = [name if isinstance(name, str) else name[0] for name in named if name]
    served = set(ModelRegistry.get_supported_archs())
    return next((name for name in names if name in served), names[0] if names else None)


def configs() -> Iterator[tuple[str, dict[str, Any]]]:
    """Default configs with their class; those that need a file or a package are left out."""
    for model_type in sorted(CONFIG_MAPPING.keys()):
        try:
            config = plain(CONFIG_MAPPING[model_type]())
        except Exception:
            continue
        name = class_of(model_type)
        yield model_type, {**config, "torch_dtype": "bfloat16", "architectures": [name or ""]}


def layers_of(config: dict[str, Any]) -> Any:
    """Layers and context; None where it is refused."""
    try:
        known = read_architecture(config)
    except InvalidProblem:
        return None
    return known.layers, known.max_positions


def differences(model_type: str, config: dict[str, Any]) -> Iterator[str | None]:
    """Leave fields out: None where the class's own config gives the same, else the field."""
    fields = text_fields(config)
    path = fields.path.split(".")[1:]
    width = fields.given.get("hidden_size")
    for name in read_architecture(config).read:
        for wide in (False, True) if isinstance(width, int) else (False,):
            less = copy.deepcopy(config)
            part = less
            for key in path:
                part = part[key]
            if name in LEFT or part.pop(name, None) is None:
                continue
            if wide and "hidden_size" in part:
                part["hidden_size"] = 2 * width
            found = layers_of(less)
            try:
                whole = plain(CONFIG_MAPPING[model_type].from_dict(copy.deepcopy(less)))
            except Exception:
                continue
            yield None if found in (None, layers_of(whole)) else f"{model_type}.{name}"


def main() -> None:
    """Print one JSON document."""
    counts: Counter[str] = Counter()
    crashes, wrong = [], []
    for model_type, config in configs():
        counts["configs"] += 1
        try:
            known = read_architecture(config)
        except InvalidProblem:
            continue
        except Exception as error:
            crashes.append(f"{model_type}: {error!r}")
            continue
        counts["read"] += 1
        for engine, flags in FLAGS.items():
            adapter = engine_named(engine)
            try:
                adapter.build(known, read_settings(adapter.FLAGS, flags.split(), {}))
                counts[engine] += 1
            except InvalidProblem:
                continue
            except Exception as error:
                crashes.append(f"{model_type} on {engine}: {error!r}")
        for found in differences(model_type, config):
            counts["omissions"] += 1
            wrong += [found] if found else []
    print(json.dumps({"counts": counts, "crashes": crashes, "wrong": sorted(set(wrong))}))


if __name__ == "__main__":
    main()
