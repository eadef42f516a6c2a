"""The command line as a module: python -m kvplan."""

from kvplan.solver.cli import main

main()
