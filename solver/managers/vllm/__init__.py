"""vLLM, 0.19 to 0.33: `vllm.general_plugins` loads `register` in every process.

`question` reads vLLM's own objects, `apply` makes its KVCacheConfigs, `regroup` deals its groups
anew; `layout_question` asks which pages and groups its layers should have. vLLM is never imported
before KVPLAN asks for something.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kvplan.solver.managers import is_off

if TYPE_CHECKING:
    from kvplan.solver.managers.vllm.applied_layout import layout_question
    from kvplan.solver.managers.vllm.asking import question
    from kvplan.solver.managers.vllm.configs import apply
    from kvplan.solver.managers.vllm.groups import regroup

__all__ = ["apply", "layout_question", "question", "register", "regroup"]
_HOMES = {
    "apply": "configs",
    "layout_question": "applied_layout",
    "question": "asking",
    "regroup": "groups",
}


def register() -> None:
    """Plug kvplan into vLLM's start; may be called again, and does nothing where KVPLAN is off."""
    if is_off(os.environ):
        return
    from kvplan.solver.managers.vllm.plug import plug_in

    plug_in()


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
