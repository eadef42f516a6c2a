"""kvplan model: a model's config.json in, the problem that an engine would face out."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def model(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG",
            show_default=False,
            help="The model's config.json, its folder, or a GGUF file; - is standard input. "
            "Optional with --from-log and --flags.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="vllm|sglang|tensorrt-llm|atom|llama.cpp",
            show_default=False,
            help="The engine. Its own flags follow (--flags lists them), or paste its whole "
            "command line behind --. Default: the engine of that line, else vllm.",
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="A card of the table, such as H100-80GB.")
    ] = None,
    total: Annotated[
        str | None,
        typer.Option(metavar="BYTES", help="Total of the card, as the driver reports it."),
    ] = None,
    weights_gib: Annotated[
        str | None,
        typer.Option(metavar="GIB", help="Weights on one rank, as the engine logs them."),
    ] = None,
    check: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LINE",
            help='A line of the log, such as "GPU KV cache size: 302,921 tokens"; exit 1 where '
            "a figure of it differs. Repeatable.",
        ),
    ] = None,
    from_log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG",
            help="Take flags and readings from a server's log; without CONFIG, print the problem "
            "that its figures describe.",
        ),
    ] = None,
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Find the best settings, and print the flags to set.")
    ] = False,
    mean_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS", help="Typical request for --optimize; default: the longest."
        ),
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="List the engine's flags and exit.")
    ] = False,
    share: Annotated[
        str | None,
        typer.Option(
            metavar="joint|priority",
            show_default=False,
            help="With --and: who takes what is left, and whose context shrinks last: all alike "
            "(joint, the default), or the first model.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: figures, assumed, problem.")
    ] = False,
) -> int:
    """Print the problem whose plan is what an engine would do with a model.

    The figures that the engine would log stand above it as comments. With --and CONFIG another
    model follows on the same card, with its own --weights-gib and engine's line; --and-draft
    CONFIG adds the draft of the llama.cpp model before it.
    """
    from kvplan.solver.cli.model.model_groups import groups_of

    groups = groups_of(context)
    if len(groups) > 1:
        from kvplan.solver.cli.model.several import print_several

        return print_several(groups, share, as_json=as_json)
    from kvplan.models import InvalidProblem
    from kvplan.models.engines.registry import engine_named
    from kvplan.solver.cli.model import model_settings as told

    start = None
    if from_log is not None:
        from kvplan.solver.cli.model import model_from_log as log

        start = log.last_start(from_log, settings_suffice=config is not None)
        if config is None and not (flags or check or optimize):
            return log.print_described(start)
    logged = None if start is None else log.adapter_name(start)
    engine = told.engine_of(engine, context.args, logged)
    adapter = engine_named(engine)
    if config is not None and config.startswith("--"):
        raise InvalidProblem.at("CONFIG.json", "a file before the engine's own flags", config)
    if flags:
        return _list_flags(adapter.FLAGS)
    if config is None:
        raise InvalidProblem.at("CONFIG.json", "a model's config, or - for standard input", "none")

    from kvplan.models.engines.architecture import load_model
    from kvplan.models.engines.command_line.typed import Budget, config_overrides, typed_settings
    from kvplan.solver.cli.model.model_answer import Answer
    from kvplan.solver.cli.model.model_compared import Asked

    exact = printed = context.args
    if start is not None:
        exact, printed = log.both_arguments(start, adapter, context.args)
    budget = Budget(gpu, total, weights_gib)
    typed = typed_settings(adapter, exact, budget)
    mean = _mean(mean_tokens, optimize)
    known, weights = load_model(config, config_overrides(typed))
    ends = told.settings_at_ends(adapter, printed, budget) if check else ()
    settings = tuple(each.weighed(weights, known) for each in (typed, *ends))
    asked = Asked(engine, adapter, known, settings, tuple(check or ()))
    return Answer(asked).printed(optimize=optimize, mean_tokens=mean, as_json=as_json)


def _mean(tokens: str | None, optimize: bool) -> int | None:
    """Read --mean-tokens, which only --optimize looks at."""
    from kvplan.models import InvalidProblem
    from kvplan.models.messages import Misfit
    from kvplan.models.units import parse_integer

    if tokens is None:
        return None
    if not optimize:
        raise InvalidProblem.at("--mean-tokens", "--optimize beside it", "none")
    try:
        figure = int(tokens) if tokens.isdecimal() else tokens
        return parse_integer(figure, what="tokens", least=1)
    except Misfit as error:
        raise InvalidProblem.at("--mean-tokens", error.expected, error.got) from None


def _list_flags(flags: Any) -> int:
    for flag in flags:
        default = "" if flag.default in (None, False) else f" (default {flag.default})"
        typer.echo(f"{flag.name:36}{flag.help}{default}")
    return 0
