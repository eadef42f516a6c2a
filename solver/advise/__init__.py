"""Better engine settings: more requests in the same bytes.

`kvplan.models.engines` holds the engines' rules and figures; what solves is here.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings
    from kvplan.solver.advise.advice import Advice

    Optimize = Callable[[Architecture, Settings, int], Advice]

_HOMES = {
    "atom": "atom_slots",
    "llamacpp": "llamacpp_placement",
    "sglang": "sglang_split",
    "vllm": "vllm_settings",
}


def optimizer_of(adapter: ModuleType) -> Optimize | None:
    """Return the function that finds an engine's best settings; None where there is none.

    The function takes the architecture, the settings and the mean length in tokens of a request.
    """
    engine = adapter.__name__.rpartition(".")[2]
    if engine not in _HOMES:
        return None
    found: Optimize = import_module(f"{__name__}.{_HOMES[engine]}").optimize
    return found
