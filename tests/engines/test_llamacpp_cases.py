"""llama.cpp 0.3.36: every cache that the engine's own code allocated, to the cell and the MiB."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.models.engines.llamacpp import build, figures
from kvplan.solver import plan
from support.llamacpp import CASES, architecture_of, settings_of


@pytest.mark.parametrize("name", CASES)
def test_caches_are_the_engines(name: str) -> None:
    case = CASES[name]
    architecture, settings = architecture_of(case), settings_of(case)
    problem = build(architecture, settings)
    printed = figures(architecture, settings, problem, plan(problem))
    contexts = [printed[label] for label in ("n_ctx", "n_ctx_seq", "n_batch", "n_ubatch")]
    assert contexts == [str(count) for count in case["contexts"]]
    caches = [_cache(printed, label) for label in ("full", "window") if f"{label} K" in printed]
    assert caches == [[*map(str, cache[:3]), *map(_mib, cache[3:])] for cache in case["caches"]]
    assert _state(printed) == _expected_state(case)


def _cache(printed: dict[str, str], label: str) -> list[str]:
    return [printed[f"{label} {part}"] for part in ("cells", "layers", "streams", "K", "V", "size")]


def _state(printed: dict[str, str]) -> list[str] | None:
    if "RS size" not in printed:
        return None
    return [printed[f"RS {part}"] for part in ("cells", "layers", "R", "S", "size")]


def _expected_state(case: dict[str, Any]) -> list[str] | None:
    if "recurrent" not in case:
        return None
    cells, layers, *sizes = case["recurrent"]
    return [str(cells), str(layers), *map(_mib, sizes)]


def _mib(figure: object) -> str:
    return f"{float(str(figure)):.2f} MiB"
