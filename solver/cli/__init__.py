"""The command line. Only `typer` is loaded here; a command loads what it needs when it runs."""

from kvplan.solver.cli.run import main, run

__all__ = ["main", "run"]
