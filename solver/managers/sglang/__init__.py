"""SGLang 0.5.23: `sglang.srt.plugins` loads `register` in every process.

`question` reads SGLang's pool configurators, `apply` makes its MemoryPoolConfig. SGLang is never
imported before KVPLAN asks for something.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kvplan.solver.managers import is_off

if TYPE_CHECKING:
    from kvplan.solver.managers.sglang.start import apply, question

__all__ = ["apply", "question", "register"]


def register() -> None:
    """Hook kvplan into SGLang's sizing; does nothing where KVPLAN is off."""
    if is_off(os.environ):
        return
    from kvplan.solver.managers.sglang.hooks import plug_in

    plug_in()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.start"), name)
