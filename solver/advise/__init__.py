"""What to set in an engine so that the same bytes hold more requests.

The rules and figures of the engines stand in `kvplan.models.engines`; what solves stands here.
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

_HOMES = {"atom": "atom_slots", "sglang": "sglang_split", "vllm": "vllm_settings"}


def optimizer_of(adapter: ModuleType) -> Optimize | None:
    """Return what finds the best settings of an engine (`Engine` module); None where none does.

    The function takes the architecture, the settings and the mean length in tokens of a request.
    """
    engine = adapter.__name__.rpartition(".")[2]
    if engine not in _HOMES:
        return None
    found: Optimize = import_module(f"{__name__}.{_HOMES[engine]}").optimize
    return found
