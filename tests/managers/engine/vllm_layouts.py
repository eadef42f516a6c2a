"""Layouts that kvplan chooses, in vLLM's real planning, scheduler and block pool; prints JSON.

For each model, with one page for all (LBNHC) and with packed pages (BLHNC): the layout question of
vLLM's own specs, its answer as a file, KVPLAN=apply with it, then one longest request from its
first chunk to its last token.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch
from vllm.v1.kv_cache_interface import MambaSpec
from vllm_real import Layer, Served, config_of, planned

from kvplan.solver.layout import layout
from kvplan.solver.managers import vllm as manager

STEP, OUTPUT, AVAILABLE = 512, 8, 16 << 30
LENGTH = 16 * STEP
GDN = ((3, 8192), (32, 128, 128))
STATE_BYTES = 3 * 8192 * 2 + 32 * 128 * 128 * 4


def hybrid(states: int, full: int, heads: int, dim: int) -> list[Any]:
    """States of Qwen3-Next beside full layers whose blocks vLLM aligned: a page holds a state."""
    unit = 16 * heads * 2 * dim * 2
    block = 16 * -(-STATE_BYTES // unit)
    attends = Layer(1, heads, dim, dim, block=block).spec()
    state = MambaSpec(
        shapes=GDN,
        dtypes=(torch.bfloat16, torch.float32),
        block_size=LENGTH,
        page_size_padded=attends.page_size_bytes,
        mamba_cache_mode="none",
    )
    return spread((states, state), (full, attends))


def spread(*kinds: tuple[int, Any]) -> list[Any]:
    """Layers of several kinds, mixed evenly."""
    rows = [
        ((i + 0.5) / count, k, spec) for k, (count, spec) in enumerate(kinds) for i in range(count)
    ]
    return [spec for _, _, spec in sorted(rows, key=lambda row: row[:2])]


MODELS = {
    "gemma-3": spread((26, Layer(1, 2, 64, 64, 512).spec()), (5, Layer(1, 2, 64, 64).spec())),
    "gpt-oss": spread((12, Layer(1, 8, 64, 64, 128).spec()), (12, Layer(1, 8, 64, 64).spec())),
    "Qwen3-Next": hybrid(36, 12, 2, 256),
    "a Mamba hybrid": hybrid(21, 4, 8, 128),
    "GDN with a draft": [
        *hybrid(30, 10, 4, 128),
        *[Layer(1, 8, 128, 128, 2048, block=1056).spec()] * 5,
    ],
    "wider heads in windows": spread(
        (39, Layer(1, 8, 192, 128, 128).spec()), (9, Layer(1, 4, 192, 128).spec())
    ),
}


def own(layers: list[Any], config: Any, available: int) -> dict[str, Any]:
    """vLLM's own planning of these layers."""
    os.environ["KVPLAN"] = "off"
    kv = planned(config, named(layers), available)
    return {"groups": len(kv.kv_cache_groups), "blocks": kv.num_blocks, **admitted(kv, config)}


def named(layers: list[Any]) -> dict[str, Any]:
    return {f"model.layers.{index}.attn": spec for index, spec in enumerate(layers)}


def admitted(kv: Any, config: Any) -> dict[str, Any]:
    """Blocks of a longest request by group and bytes of a block, by vLLM's own rules."""
    specs = [group.kv_cache_spec for group in kv.kv_cache_groups]
    by_group = [spec.max_memory_usage_bytes(config) // spec.page_size_bytes for spec in specs]
    tables = [spec.max_num_blocks_per_req(config, LENGTH) for spec in specs]
    total = max(tensor.size for tensor in kv.kv_cache_tensors)
    return {
        "by_group": by_group,
        "table_entries": sum(tables),
        "block_bytes": total // kv.num_blocks,
        "pages": sorted({spec.page_size_bytes for spec in specs}),
    }


def peaks(served: Served) -> list[int]:
    """Most blocks that one request holds at a time in each group, null blocks aside."""
    served.add("longest", LENGTH - OUTPUT, OUTPUT)
    most: list[int] = []
    manager_ = served.scheduler.kv_cache_manager
    while served.step():
        if "longest" not in served.scheduler.requests:
            break
        groups = manager_.get_blocks("longest").blocks
        held = [sum(not block.is_null for block in blocks) for blocks in groups]
        most = [max(pair) for pair in zip(held, most or held, strict=True)]
    return most


def run(layers: list[Any], pages: str) -> dict[str, Any]:
    config = config_of(LENGTH, STEP, 16)
    config.cache_config.mamba_cache_mode = "none"
    config.cache_config.kv_cache_layout = pages
    asked = manager.layout_question(
        config, [named(layers)], [AVAILABLE], version="0.32.0", most_groups=16
    )
    answer = layout(asked, freedom=False)
    path = Path(mkdtemp()) / "layout.json"
    path.write_text(answer.model_dump_json())
    before = own(layers, config, AVAILABLE)
    os.environ |= {"KVPLAN": "apply", "KVPLAN_LAYOUT": str(path)}
    kv = planned(config, named(layers), AVAILABLE)
    served = Served(config, kv)
    held = peaks(served)
    figures = answer.figures
    return {
        "own": before,
        "kinds": [group.members[0].bucket for group in answer.layout.groups],
        "said": {
            "blocks": figures.blocks,
            "block_bytes": figures.block_bytes,
            "groups": figures.groups,
            "table_bytes": figures.table_bytes,
            "slot_bytes": figures.slot_bytes,
            "bytes": str(figures.bytes),
        },
        "applied": {
            "groups": len(kv.kv_cache_groups),
            "tokens": [group.kv_cache_spec.block_size for group in kv.kv_cache_groups],
            **admitted(kv, config),
        },
        "held": held,
        "finished": not served.scheduler.requests,
        "left": served.blocks_held,
        "preempted": served.preempted,
    }


def main() -> None:
    os.environ |= {"KVPLAN": "apply", "KVPLAN_STRICT": "1"}
    manager.register()
    found = {
        pages: {name: run(layers, pages) for name, layers in MODELS.items()}
        for pages in ("LBNHC", "BLHNC")
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
