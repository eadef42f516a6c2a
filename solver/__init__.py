"""How a question becomes an answer: `plan(problem)`.

The engines are imported when they are first asked for, so that the command line's help is quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.solver.digest import digest_of
    from kvplan.solver.engine import plan, solve_confirmed

__all__ = ["digest_of", "plan", "solve_confirmed"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    home = "kvplan.solver.digest" if name == "digest_of" else "kvplan.solver.engine"
    return getattr(import_module(home), name)
