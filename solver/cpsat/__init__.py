"""The integer program for CP-SAT: domains, variables, rows (a function a rule), goals, solve.

It reads only the instance: bounds come from budgets and limits, needs and bytes are stated
again here, and the search gives a hint at most. Importing this package imports OR-Tools;
`kvplan.solver` does so on first use.
"""

from kvplan.solver.cpsat.driver import Verdict
from kvplan.solver.cpsat.lexicographic import Solved, refutes, solve_program
from kvplan.solver.cpsat.model.constraint_rows import TooLargeError

__all__ = ["Solved", "TooLargeError", "Verdict", "refutes", "solve_program"]
