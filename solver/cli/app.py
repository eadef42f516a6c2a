"""The commands and the help of `kvplan`."""

from __future__ import annotations

from typing import Annotated

import typer

from kvplan.solver.cli.check_log import check_log
from kvplan.solver.cli.demo import demo
from kvplan.solver.cli.explain import explain
from kvplan.solver.cli.init import init
from kvplan.solver.cli.layout import layout
from kvplan.solver.cli.model.command import model
from kvplan.solver.cli.model.model_groups import GroupedCommand
from kvplan.solver.cli.schema import schema
from kvplan.solver.cli.solve import solve
from kvplan.solver.cli.tables.explore import explore
from kvplan.solver.cli.tables.frontier import frontier
from kvplan.solver.cli.tables.matrix import matrix
from kvplan.solver.cli.tables.report_page import report
from kvplan.solver.cli.verify import verify

_HELP = """Size the memory pools of an LLM server: one proven plan for all ranks.

A problem file (YAML or JSON) says what an engine knows when it starts; the plan says how many
blocks, which prefill chunk, how many expert slots and which requests fit.
"""
_EPILOG = """\b
Exit codes:
  0    a plan; verify: every rule holds; explore: a row has a plan; model: a problem
  1    infeasible (solve: 0 with --advise); undecided (no plan found, none ruled out); verify: a
       rule is violated; explore: no row has a plan; model: a figure differs from --check;
       check-log: ranks disagree, a figure is wrong, or the start failed
  2    bad input, one line per fault on standard error
  3    kvplan itself failed (a solver, or the output could not be written)
  130  interrupted

\b
Example:
  kvplan demo
"""

app = typer.Typer(
    name="kvplan",
    help=_HELP,
    epilog=_EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _example(command: str) -> str:
    """Help text on a line of its own, never wrapped, so that it can be pasted."""
    return f"\b\nExample:\n  {command}"


app.command(epilog=_example("kvplan solve server.yaml --set 'ranks.*.quota=60GiB'"))(solve)
app.command(
    epilog=_example("kvplan explain server.yaml --set 'ranks.*.quota=40GiB'"),
    short_help="Explain why nothing fits, or what limits the plan.",
)(explain)
app.command(epilog=_example("kvplan solve server.yaml --json | kvplan verify server.yaml -"))(
    verify
)
app.command(
    epilog=_example("kvplan explore server.yaml --vary 'ranks.*.quota=10GiB:80GiB:1GiB'"),
    short_help="Solve a problem for many values of its fields.",
)(explore)
app.command(
    epilog=_example("kvplan frontier server.yaml --goals capacity:long,prefill"),
    short_help="List the best trade-offs between two or three goals.",
)(frontier)
app.command(
    epilog=_example("kvplan matrix config.json --weights-gib 15.3 --vary gpu=L40S,H100-80GB"),
    short_help="Compare models, cards and settings, one row for each start.",
    context_settings={"ignore_unknown_options": True},
)(matrix)
app.command(
    epilog=_example(
        "kvplan model config.json --available 40GiB --max-model-len auto\n"
        "  kvplan model A --gpu h100 -- vllm serve A --and B -- vllm serve B --max-model-len 8k"
    ),
    short_help="Turn a model's config into the problem that an engine solves.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    cls=GroupedCommand,
)(model)
app.command(
    epilog=_example("kvplan layout config.json --available 40GiB --max-model-len 65536"),
    short_help="Choose the page layout of a hybrid model, and prove the choice.",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)(layout)
app.command(
    "check-log",
    epilog=_example("kvplan check-log server.log"),
    short_help="Recompute the memory figures of a server log.",
)(check_log)
app.command(epilog=_example("kvplan init --for vllm server.yaml"))(init)
app.command(
    epilog=_example("kvplan schema > kvplan.schema.json"),
    short_help="Print the JSON Schema of a problem file, or of a plan.",
)(schema)
app.command(
    epilog=_example("kvplan report server.yaml --out server.html"),
    short_help="Write one page about a problem, with pictures, to pass on.",
)(report)
app.command(epilog=_example("kvplan demo"))(demo)


@app.callback(invoke_without_command=True)
def kvplan(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> int:
    """Print the version, or the help where no command was named."""
    if version:
        from importlib.metadata import version as version_of

        typer.echo(f"kvplan {version_of('kvplan')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)
    return 0
