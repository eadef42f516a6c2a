"""How a question becomes an answer: `plan(problem)`; `need(problem)` does not solve.

Solvers are imported on first use, so that the command line's help is quick.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.solver.digest import digest_of
    from kvplan.solver.floors import need
    from kvplan.solver.planner import Planner
    from kvplan.solver.solve.plan import plan, solve_confirmed

__all__ = ["Planner", "digest_of", "need", "plan", "solve_confirmed"]
_HOMES = {"Planner": "planner", "digest_of": "digest", "need": "floors"}


def __dir__() -> list[str]:
    """List the lazy names too, for tab completion."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"kvplan.solver.{_HOMES.get(name, 'solve.plan')}"), name)
