"""kvplan model: a model's config.json in, the problem that an engine would face out."""

from __future__ import annotations

from collections.abc import Mapping
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
            "Only --flags does without.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="vllm|sglang|tensorrt-llm|atom|llama.cpp",
            show_default=False,
            help="Whose rules; its own flags follow (--flags lists them), or its whole command "
            "line behind --. Default: the engine of that line, else vllm.",
        ),
    ] = None,
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
            "the figure differs. Repeatable.",
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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON document: figures, assumed, problem.")
    ] = False,
) -> int:
    """Print the problem whose plan is what an engine would do with a model.

    The engine's own printed figures follow from the plan and stand above the problem as comments.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.engines.registry import engine_named

    adapter = engine_named(_engine(engine, context.args))
    if config is not None and config.startswith("--"):
        _misplaced(config)
    if flags:
        return _list_flags(adapter.FLAGS)
    if config is None:
        raise InvalidProblem.at("CONFIG.json", "a model's config, or - for standard input", "none")

    from kvplan.models.engines.architecture import load_model
    from kvplan.models.engines.launch import Dialect
    from kvplan.models.engines.settings import read_settings
    from kvplan.models.units import bare_bytes_doubt
    from kvplan.solver.cli.model_answer import Answer

    common = _common(gpu, total, weights_gib)
    dialect = getattr(adapter, "DIALECT", Dialect())
    settings = read_settings(adapter.FLAGS, context.args, common, dialect)
    if total is not None and (doubt := bare_bytes_doubt(total, common["total_bytes"])):
        settings.notes = (f"--total: {doubt}", *settings.notes)
    mean = _mean(mean_tokens, optimize)
    known, weights = load_model(config, _overrides(settings))
    answer = Answer(adapter, known, settings.weighed(weights, known))
    return answer.printed(tuple(check or ()), optimize=optimize, mean_tokens=mean, as_json=as_json)


def _overrides(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the command line lays over the config (--hf-overrides).

    Raises
    ------
    InvalidProblem : no JSON mapping.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.loader import parse_text
    from kvplan.models.messages import shown

    text = settings.get("hf_overrides")
    if text is None:
        return {}
    data = parse_text(text, name="--hf-overrides")
    if not isinstance(data, dict):
        raise InvalidProblem.at("--hf-overrides", "JSON, a mapping", shown(text))
    return data


def _engine(named: str | None, arguments: list[str]) -> str:
    """The engine named by --engine, else that of the pasted command line, else vllm.

    Raises
    ------
    InvalidProblem : the two differ.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.engines.launch import read_line

    started = read_line(arguments).engine
    if named and started and named != started:
        raise InvalidProblem.at("--engine", f"{started}, whose command line follows", named)
    return named or started or "vllm"


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
