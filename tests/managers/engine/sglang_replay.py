"""Mixed, short and long requests over SGLang's real allocators: its own split, and kvplan's.

The scheduling around them is a restatement: prefills first, one chunk a step, first come first
served; a request is admitted when all of its tokens fit; windows slide every 128 tokens.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from types import SimpleNamespace
from typing import Any

import torch
from sglang.srt.plugins import hook_registry
from sglang_real import CONTEXT_LENGTH, SCHEDULE, States, Windows, configurator, window_model
from traces import PROMPTS, trace

from kvplan.solver.managers import sglang as manager

GIB = 1 << 30
CHUNK, EVERY = 8192, 128


@dataclass
class Running:
    prompt: int
    output: int
    tokens: Any
    filled: int = 0
    made: int = 0
    freed: int = 0
    held: Any = None


def replay(pools: Any, requests: list[tuple[int, int]]) -> dict[str, int]:
    """Forward batches until all are done, and the most that ran at once."""
    waiting, running = deque(requests), list[Running]()
    filling: Running | None = None
    steps = most = 0
    while waiting or running or filling:
        steps += 1
        promised = sum(one.output - one.made for one in running)
        if filling is None and waiting and pools.fits(*waiting[0], promised):
            prompt, output = waiting.popleft()
            filling = Running(prompt, output, torch.empty(0, dtype=torch.int64), held=pools.admit())
        if filling is not None:
            count = min(CHUNK, filling.prompt - filling.filled)
            taken = pools.take(count) if count <= pools.room() else None
            if taken is not None:
                filling.tokens = torch.cat((filling.tokens, taken))
                filling.filled += count
                filling.freed = pools.slide(filling.tokens, filling.freed, filling.filled)
                if filling.filled == filling.prompt:
                    running.append(filling)
                    filling = None
                most = max(most, len(running))
                continue
        if not running:
            raise RuntimeError("nothing runs and nothing fits")
        decode(pools, running)
    return {"steps": steps, "most_running": most}


def decode(pools: Any, running: list[Running]) -> None:
    """One token for every running request; those that are done leave."""
    taken = pools.take(len(running))
    if taken is None:
        raise RuntimeError("a decode found no token")
    for index, one in enumerate(list(running)):
        one.tokens = torch.cat((one.tokens, taken[index : index + 1]))
        one.made += 1
        if one.made % EVERY == 0:
            one.freed = pools.slide(one.tokens, one.freed, one.filled + one.made)
        if one.made == one.output:
            running.remove(one)
            pools.give(one.tokens, one.freed if one.held is None else one.held)


def windows(full: int, sliding: int, heads: Any, dims: Any, window: int, gib: int) -> Any:
    model = window_model(full, sliding, heads, dims, window)

    def start() -> tuple[Any, dict[str, int]]:
        config = model.config_from_budget(gib * GIB)
        sizes = {
            "full": config.full_max_total_num_tokens,
            "window": config.swa_max_total_num_tokens,
        }
        return Windows(config, window), sizes

    return start


def states(gib: int) -> Any:
    """Qwen3-Next-80B-A3B on one rank: 12 attention layers, 36 of gated delta nets."""
    slot = 36 * (3 * 8192 * 2 + 32 * 128 * 128 * 4)
    params = SimpleNamespace(layers=list(range(36)), mamba_cache_per_req=slot)
    hybrid = SimpleNamespace(
        mamba2_cache_params=params, full_attention_layer_ids=list(range(3, 48, 4))
    )
    cell = 12 * 2 * 256 * 2 * 2
    model = SimpleNamespace(context_len=CONTEXT_LENGTH)
    made = configurator(model_config=model, mambaish_config=hybrid)
    plain = type("DefaultPoolConfigurator", (), {"_cell_size": cell, "_fixed_overhead_bytes": 0})()

    def start() -> tuple[Any, dict[str, int]]:
        from sglang.srt.model_executor import pool_configurator

        SCHEDULE.max_mamba_cache_size = None
        pool_configurator.create_memory_pool_configurator = lambda kvc: plain
        rest = made._handle_max_mamba_cache(float(gib))
        tokens, slots = int(rest * GIB) // cell, SCHEDULE.max_mamba_cache_size
        ratio = made._calculate_mamba_ratio()
        return States(tokens, slots, ratio), {"tokens": tokens, "slots": slots}

    return start


SHAPES = {
    "gpt-oss-120b": lambda: windows(18, 18, (8, 8), (64, 64), 128, 16),
    "MiMo-V2-Flash": lambda: windows(9, 39, (4, 8), (192, 128), 128, 16),
    "Qwen3-Next": lambda: states(12),
}


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    logging.getLogger("sglang.srt").setLevel(logging.WARNING)
    path = Path(mkdtemp()) / "workload.json"
    os.environ |= {"KVPLAN": "check", "KVPLAN_WORKLOAD": str(path)}
    manager.register()
    hook_registry.HookRegistry.apply_hooks()
    found: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        start = shape()
        for kind in PROMPTS if name == "Qwen3-Next" else ("mixed",):
            requests = trace(kind)
            path.write_text(json.dumps({"requests": [{"capacity": p + o} for p, o in requests]}))
            for mode in ("check", "apply"):
                os.environ["KVPLAN"] = mode
                pools, sizes = start()
                key = f"{name} {kind}"
                found.setdefault(key, {})[mode] = {**sizes, **replay(pools, requests)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
