"""A chosen layout of the tiny model that the engines' tests start: 25 window and 4 full layers."""

from __future__ import annotations

from pathlib import Path

from kvplan.solver.layout import layout


def layout_file(folder: Path) -> str:
    """The best layout of the tiny model in blocks of 32 tokens; vLLM's own have 128 on a CPU."""
    full = [index for index in range(29) if index % 7 == 6]
    common = {"token_bytes": 2 * 2 * 32 * 4, "tokens_per_block": 32, "max_tokens_per_block": 32}
    window = {"kind": "window", "window": 256, "keep": "in_flight", "in_flight": 512}
    rows = [
        {"name": "window 256", **window, "extra_blocks": 1, "layers": 25}
        | {"positions": [index for index in range(29) if index not in full], "split": False}
        | common,
        {"name": "full", "kind": "full", "layers": 4, "positions": full, "split": False} | common,
    ]
    asked = {"buckets": rows, "requests": [{"capacity": 4096}], "max_groups": 10}
    path = folder / "layout.json"
    path.write_text(layout(asked, freedom=False).model_dump_json())
    return str(path)
