"""How a question becomes an answer: `plan(problem)`."""

from kvplan.solver.engine import plan, solve_confirmed

__all__ = ["plan", "solve_confirmed"]
