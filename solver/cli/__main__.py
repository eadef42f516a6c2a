"""The command line as a module: python -m kvplan.solver.cli."""

from kvplan.solver.cli.run import main

main()
