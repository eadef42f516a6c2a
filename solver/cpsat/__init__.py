"""The integer program for CP-SAT: variables, constraints (a function a rule), goals, solve.

Importing this package imports OR-Tools; `kvplan.solver` does so on first use.
"""
