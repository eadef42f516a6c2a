"""The Triton source compiles for every architecture, without a GPU and without spills."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.cases import CASES

SCRIPT = Path(__file__).parents[1] / "support" / "compiling.py"
ARCHITECTURES = ("sm_80", "sm_90", "sm_100", "gfx90a", "gfx942", "gfx950")
NAMES = ("kimi_k3_trade", "strata_plan", "trtllm_fit_to_quota")
MOST_LANES: dict[str, Any] = {
    "ranks": [{"name": "r0", "quota": "40GiB"}],
    "pools": [{"name": "p", "bytes": 65536, "granule": "2MiB"}],
    "caches": [
        {"name": "a", "kind": "window", "keep": "live", "window": 4096, "tokens_per_block": 1584},
        {"name": "b", "kind": "window", "keep": "live", "window": 8192, "tokens_per_block": 1600},
    ],
    "batches": [{"name": "x", "requests": [{"name": "l", "capacity": 2**20, "fit": "capacity"}]}],
    "choices": [
        {"name": "c", "options": [{"name": "d", "bytes": 2**30}, {"name": "e", "bytes": 0}]}
    ],
}
"""198 residue classes and two options: 512 lanes a scenario."""


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="triton is not installed")
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_nothing_spills(architecture: str, tmp_path: Path) -> None:
    """In an interpreter of its own: here the kernels may be imported to be interpreted."""
    wide = tmp_path / "wide.json"
    wide.write_text(json.dumps(MOST_LANES))
    paths = [*(str(CASES[name]) for name in NAMES), str(wide)]
    environment = {key: text for key, text in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), architecture, *paths],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    figures = json.loads(done.stdout)
    assert len(figures) == len(paths)
    for counts in figures.values():
        assert counts
        assert not any(counts.values()), figures
