"""Print what configs may leave to their configuration class in transformers, as Python.

Run it where transformers is installed, with the model types to look at:

    python tests/bench/class_defaults.py llama qwen3 gemma2 ...

A field is left out of the class's own default config, as it is, with twice the width, and with
twice the heads: it is a constant where the class puts the same value back each time. The output is
the table of models/engines/families/config_classes.py.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from textwrap import wrap
from typing import Any

FIELDS = (
    *("num_hidden_layers", "num_attention_heads", "hidden_size", "num_key_value_heads"),
    *("head_dim", "max_position_embeddings", "n_positions", "seq_length"),
    *(
        "max_seq_len",
        "max_target_positions",
        "sliding_window",
        "use_sliding_window",
        "max_window_layers",
    ),
    *("num_kv_shared_layers", "mamba_chunk_size", "chunk_size"),
)
COLUMNS = 100
WIDER = ("hidden_size", "num_attention_heads")


def put_back(kind: type, name: str, **changes: Any) -> Any:
    """Value that the class gives a field that its config lacks."""
    data = {**kind().to_dict(), **changes}
    data.pop(name, None)
    return getattr(kind.from_dict(data), name, None)


def constant(kind: type, name: str) -> Any:
    """Value of a field without which the class does not derive another; None without one."""
    own = kind().to_dict()
    if name not in own:
        return None
    found = set()
    for changes in ({}, *({key: 2 * own[key]} for key in WIDER if _varies(own, key, name))):
        try:
            found.add(put_back(kind, name, **changes))
        except Exception:  # the class refuses these dimensions
            continue
    (first, *others) = found or {None}
    is_count = isinstance(first, bool) or (isinstance(first, int) and first > 0)
    return first if is_count and not others else None


def _varies(own: dict[str, Any], key: str, name: str) -> bool:
    return key != name and isinstance(own.get(key), int)


def main(names: list[str]) -> None:
    """Print values by field, and the model types that have each."""
    from transformers import CONFIG_MAPPING

    table: dict[str, dict[Any, list[str]]] = defaultdict(lambda: defaultdict(list))
    for model_type in sorted(set(names) & set(CONFIG_MAPPING)):
        for name in FIELDS:
            value = constant(CONFIG_MAPPING[model_type], name)
            if value is not None:
                table[name][value].append(model_type)
    for name, values in table.items():
        for value, types in sorted(values.items()):
            line = f"{name} {int(value)} {' '.join(types)}"
            print("\n".join(wrap(line, COLUMNS, subsequent_indent="  ", break_on_hyphens=False)))


if __name__ == "__main__":
    main(sys.argv[1:])
