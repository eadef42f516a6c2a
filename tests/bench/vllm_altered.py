"""Record what vLLM's own model classes make of configs with one altered field.

    python tests/bench/vllm_altered.py tests/cases/vllm_altered.json llama qwen2 gpt2 ...

Four layers of each model, as tests/bench/vllm_families.py builds them. What a class refuses is left
out.
"""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

from vllm_families import config_of, pretend_to_run, specs_of, trimmed

SLIDES, FULL = "sliding_attention", "full_attention"
LAYERS = 4
CHANGES: dict[str, dict[str, Any]] = {
    "none": {},
    "head_dim": {"head_dim": 96},
    "kv_heads": {"num_key_value_heads": 4},
    "sliding": {"sliding_window": 777, "use_sliding_window": True},
    "plain_sliding": {"sliding_window": 777},
    "kinds": {"layer_types": [SLIDES, FULL, SLIDES, FULL], "sliding_window": 777},
    "v_head_dim": {"v_head_dim": 48},
}


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The section of the text model, or the config itself."""
    inner = config.get("text_config")
    return inner if isinstance(inner, dict) else config


def shrunk(config: dict[str, Any]) -> dict[str, Any]:
    """Leave the first layers only."""
    part = text_part(config)
    layers = part.get("num_hidden_layers")
    if isinstance(layers, int) and layers > LAYERS:
        lists = {k: v[:LAYERS] for k, v in part.items() if isinstance(v, list) and len(v) == layers}
        part.update(lists, num_hidden_layers=LAYERS)
    return config


def main(target: str, names: list[str]) -> None:
    """Add the models to the record."""
    from vllm.distributed import init_distributed_environment

    pretend_to_run()
    init_distributed_environment(1, 0, "tcp://127.0.0.1:29779", 0, "gloo")
    path = Path(target)
    record = json.loads(path.read_text()) if path.exists() else {}
    for name in names:
        plain = shrunk(config_of(name))
        found = {}
        for change, fields in CHANGES.items():
            config = copy.deepcopy(plain)
            text_part(config).update(fields)
            try:
                found[change] = dict(specs_of(config))
            except (Exception, SystemExit) as error:
                print(f"{name}, {change}: left out, {error}", file=sys.stderr)
        record[name] = {"config": trimmed(plain), "specs": found}
    path.write_text(json.dumps(record, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
