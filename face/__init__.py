"""kvplan sizes the memory pools of an LLM server: `plan(Problem.load("server.yaml"))`.

Names are imported on first use: `import kvplan` loads neither Pydantic nor OR-Tools, torch, pandas.
"""

TYPE_CHECKING = False  # typing is not imported either; type checkers know the name

if TYPE_CHECKING:
    from kvplan.models.errors import AgreementFailed, Infeasible, InvalidProblem, KvplanError
    from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
    from kvplan.models.plan import Plan
    from kvplan.models.problem import Problem
    from kvplan.models.ranks import Rank, RankMemory
    from kvplan.solver.agree.together import plan_together
    from kvplan.solver.explain import explain
    from kvplan.solver.explore import explore
    from kvplan.solver.layout import layout
    from kvplan.solver.planner import Planner
    from kvplan.solver.solve.plan import plan

    __version__: str

__all__ = [
    "AgreementFailed",
    "Infeasible",
    "InvalidProblem",
    "KvplanError",
    "LayoutAnswer",
    "LayoutQuestion",
    "Plan",
    "Planner",
    "Problem",
    "Rank",
    "RankMemory",
    "__version__",
    "explain",
    "explore",
    "layout",
    "plan",
    "plan_together",
]
_HOMES = {
    "AgreementFailed": "models.errors",
    "Infeasible": "models.errors",
    "InvalidProblem": "models.errors",
    "KvplanError": "models.errors",
    "LayoutAnswer": "models.layouts",
    "LayoutQuestion": "models.layouts",
    "Plan": "models.plan",
    "Planner": "solver.planner",
    "Problem": "models.problem",
    "Rank": "models.ranks",
    "RankMemory": "models.ranks",
    "explain": "solver.explain",
    "explore": "solver.explore",
    "layout": "solver.layout",
    "plan": "solver.solve.plan",
    "plan_together": "solver.agree.together",
}


def __dir__() -> list[str]:
    """List the lazy names, for tab completion."""
    return sorted({*__all__, "kernels", "models", "solver"})


if not TYPE_CHECKING:  # a checker that sees it would accept any name

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            return version("kvplan")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"kvplan.{_HOMES[name]}"), name)
        globals()[name] = value  # the next access asks nobody
        return value
