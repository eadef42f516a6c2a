"""kvplan model: a model's config.json in, the problem that an engine would face out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kvplan.models import Problem
    from kvplan.models.engines.layers import Architecture
    from kvplan.models.engines.registry import Settings
    from kvplan.solver.cli.model_compared import Asked
    from kvplan.solver.cli.readings import End


def model(
    context: typer.Context,
    config: Annotated[
        str | None,
        typer.Argument(
            metavar="CONFIG.json",
            show_default=False,
            help="The model's config; - is standard input. Only --flags does without.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            metavar="vllm|sglang|tensorrt-llm|atom|llama.cpp",
            help="Whose rules; its own flags follow (--flags lists them).",
        ),
    ] = "vllm",
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="A card of the table, such as H100-80GB.")
    ] = None,
    total: Annotated[
        str | None, typer.Option(metavar="BYTES", help="Total of the card, as its driver says.")
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
            help="The start of a server's log: with CONFIG its flags and readings, without CONFIG "
            "the problem that its figures describe.",
        ),
    ] = None,
    optimize: Annotated[
        bool, typer.Option("--optimize", help="Free what the engine fixes; say what to set.")
    ] = False,
    mean_tokens: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS", help="Length of a request for --optimize; default the longest."
        ),
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="List the engine's flags and exit.")
    ] = False,
) -> int:
    """Print the problem whose plan is what an engine would do with a model.

    The engine's own printed figures follow from the plan and stand above the problem as comments.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.engines.registry import engine_named

    start = None
    if from_log is not None:
        from kvplan.solver.cli import model_from_log as log

        start = log.last_start(from_log)
        if config is None and not (flags or check or optimize):
            return log.print_described(start)
        engine = log.adapter_name(start)
    adapter = engine_named(engine)
    if config is not None and config.startswith("--"):
        _misplaced(config)
    if flags:
        return _list_flags(adapter.FLAGS)
    if config is None:
        raise InvalidProblem.at("CONFIG.json", "a model's config, or - for standard input", "none")

    from kvplan.models.engines.architecture import load_architecture
    from kvplan.models.engines.settings import read_settings
    from kvplan.solver.cli.readings import arguments_at, gib_at, reading_at

    exact = printed = context.args
    if start is not None:
        exact, printed = (
            log.arguments_from(start, adapter.FLAGS, context.args, exact=is_exact)
            for is_exact in (True, False)
        )
    settings = read_settings(adapter.FLAGS, exact, _common(gpu, total, weights_gib))
    architecture = load_architecture(config)
    mean = _mean(mean_tokens, optimize)

    def at(end: End) -> Settings:
        """Settings with every printed reading at an end of what it can stand for."""
        card = reading_at("--total", total, end) or total
        common = _common(gpu, card, gib_at(weights_gib, end))
        return read_settings(adapter.FLAGS, arguments_at(printed, end), common)

    ends = [at("low"), at("high")] if check else []
    from kvplan.solver.cli.model_compared import Asked

    asked = Asked(engine, adapter, architecture, (settings, *ends), tuple(check or ()))
    return _answer(asked, optimize, mean)


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


def _misplaced(argument: str) -> None:
    """Refuse a flag where the config should be."""
    from kvplan.models import InvalidProblem

    raise InvalidProblem.at("CONFIG.json", "a file before the engine's own flags", argument)


def _list_flags(flags: Any) -> int:
    for flag in flags:
        default = "" if flag.default in (None, False) else f" (default {flag.default})"
        typer.echo(f"{flag.name:36}{flag.help}{default}")
    return 0


def _common(gpu: str | None, total: str | None, weights_gib: str | None) -> dict[str, Any]:
    """Settings that all engines share; bytes are None where nothing says them."""
    from kvplan.models.engines.cards import total_bytes

    table = total_bytes(gpu) if gpu is not None else None
    known = _bytes_of("--total", total) if total is not None else table
    weights = None
    if weights_gib is not None:
        weights = _bytes_of("--weights-gib", f"{weights_gib}GiB", weights_gib)
    return {
        "gpu": gpu,
        "total_bytes": known,
        "total_is_estimated": total is None and table is not None,
        "weights_bytes": weights,
    }


def _bytes_of(flag: str, text: str, written: str | None = None) -> int:
    """Read bytes; `written` is what was typed, where that is a number of GiB."""
    from kvplan.models import InvalidProblem
    from kvplan.models.messages import Misfit, shown
    from kvplan.models.units import parse_bytes

    try:
        return parse_bytes(int(text) if text.isdecimal() else text, round_up=False)
    except Misfit as error:
        if written is not None:
            raise InvalidProblem.at(flag, "a number of GiB", shown(written)) from None
        raise InvalidProblem.at(flag, error.expected, error.got) from None


def _answer(asked: Asked, optimize: bool, mean_tokens: int | None) -> int:
    """Solve, compare, and print."""
    from kvplan.solver.cli.model_compared import compared
    from kvplan.solver.cli.model_text import comment_text, problem_text

    adapter, architecture, settings = asked.adapter, asked.architecture, asked.settings[0]
    problem: Problem = adapter.build(architecture, settings)
    figures, refused = _figures(adapter, architecture, settings, problem)
    differences = compared(asked, problem, figures, _figures) if asked.expected else []
    title = "the engine refuses to start" if refused else "what the engine prints"
    sys.stdout.write(comment_text(title, figures))
    if optimize:
        sys.stdout.write(_advice(adapter, architecture, settings, problem, mean_tokens))
    sys.stdout.write(problem_text(problem))
    for line in differences:
        print(line, file=sys.stderr)
    return 1 if differences else 0


def _figures(
    adapter: Any, architecture: Architecture, settings: Settings, problem: Problem
) -> tuple[Mapping[str, str], bool]:
    """The engine's figures from the plan, or from its refusal where there is none."""
    from kvplan.models import Infeasible
    from kvplan.solver import plan

    try:
        answer = plan(problem)
    except Infeasible as refusal:
        if hasattr(adapter, "refusal"):
            return adapter.refusal(architecture, settings), True
        return {"refused": refusal.reasons[0]}, True
    return adapter.figures(architecture, settings, problem, answer), False


def _advice(
    adapter: Any,
    architecture: Architecture,
    settings: Settings,
    problem: Problem,
    mean_tokens: int | None,
) -> str:
    from kvplan.models import InvalidProblem
    from kvplan.solver.advise import optimizer_of
    from kvplan.solver.cli.model_text import advice_text

    optimize = optimizer_of(adapter)
    if optimize is None:
        raise InvalidProblem.at("--optimize", "an engine with a setting to choose", "none")
    longest = max((r.capacity for batch in problem.batches for r in batch.requests), default=0)
    mean = mean_tokens or longest or architecture.max_positions
    return advice_text(optimize(architecture, settings, mean))
