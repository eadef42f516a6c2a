"""kvplan layout: buckets or a model in, the page layout of the fewest bytes out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvplan.models import Problem
    from kvplan.models.engines.command_line.typed import Budget
    from kvplan.models.layouts import LayoutAnswer, LayoutQuestion
    from kvplan.models.layouts.pool_split import PoolSplit
    from kvplan.solver.layout.read import Asked

_PRINTS = ("report", "json", "question", "problem")


def layout(
    context: typer.Context,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="A layout question (buckets, requests), vLLM's specs layer by layer, or a model's "
            "config.json; - is standard input.",
        ),
    ],
    engine: Annotated[
        str | None,
        typer.Option(
            metavar="[vllm|sglang]",
            show_default=False,
            help="For a model: the engine whose flags follow.",
        ),
    ] = None,
    gpu: Annotated[
        str | None, typer.Option(metavar="NAME", help="For a model: a card, such as H100-80GB.")
    ] = None,
    total: Annotated[
        str | None, typer.Option(metavar="BYTES", help="For a model: total memory of the card.")
    ] = None,
    weights_gib: Annotated[
        str | None, typer.Option(metavar="GIB", help="For a model: weights on one rank.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="For a model: the requests that you expect, as a mix, quantiles or counts; "
            "default: one of the longest length.",
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change one field of the question, such as max_groups=12, pages=packed or "
            "buckets.*.own_pool=true. Repeatable.",
        ),
    ] = None,
    prints: Annotated[
        str,
        typer.Option(
            "--print",
            metavar="[report|json|question|problem]",
            help="report; json (one document); question (to edit and ask again); problem (the "
            "chosen layout, for kvplan solve).",
        ),
    ] = "report",
    as_json: Annotated[bool, typer.Option("--json", help="The same as --print json.")] = False,
) -> int:
    """Choose pages, block sizes and groups of a hybrid model's caches, and prove the choice.

    The engine's own rule is compared under the same limits. SGLang's pools are separate: its
    split by ratio is compared with the best one, and the flags for it are printed.
    """
    from kvplan.models import Infeasible, InvalidProblem
    from kvplan.models.engines.command_line.typed import Budget
    from kvplan.models.layouts.pool_split import PoolSplit
    from kvplan.models.messages import shown

    prints = "json" if as_json else prints
    if prints not in _PRINTS:
        raise InvalidProblem.at("--print", "report, json, question or problem", shown(prints))
    budget = Budget(gpu, total, weights_gib)
    try:
        asked = _asked(source, engine, budget, context.args, workload, overrides or ())
    except Infeasible as refusal:  # no split of SGLang's bytes holds the longest request
        print(refusal, file=sys.stderr)
        return 1
    if isinstance(asked, PoolSplit):
        _print_split(asked, prints)
        return 0
    if prints == "question":
        sys.stdout.write(_text(asked.question))
        return 0

    from kvplan.solver.layout.answered import answered

    answer = answered(asked.question, engine=asked.engine, freedom=prints != "problem")
    _print(answer, prints)
    return 0


def _asked(
    source: str,
    engine: str | None,
    budget: Budget,
    arguments: Sequence[str],
    workload: str | None,
    overrides: Sequence[str],
) -> Asked | PoolSplit:
    """Read the question: the file says itself what it holds. SGLang's pools are answered at once.

    Raises
    ------
    InvalidProblem : another engine, flags without a model, or what is wrong in the file.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.engines.architecture import load_model
    from kvplan.models.engines.command_line.typed import config_overrides, typed_settings
    from kvplan.models.engines.registry import engine_named
    from kvplan.models.reading.loader import load_data
    from kvplan.solver.advise.sglang_pools import best_pools
    from kvplan.solver.cli.model import model_settings as told
    from kvplan.solver.layout.read import asked_of_data, asked_of_model, is_dump
    from kvplan.solver.managers.workload import load_workload

    data = load_data(source) if source.endswith((".yaml", ".yml", ".json")) or source == "-" else {}
    if "buckets" in data or is_dump(data):
        given = [*arguments, *(each for each in (engine, workload, *vars(budget).values()) if each)]
        if given:
            raise InvalidProblem.at("FILE", "a model's config beside an engine's flags", given[0])
        return asked_of_data(data, overrides)
    if source == "-":
        raise InvalidProblem.at("FILE", "buckets or specs on standard input", "another mapping")
    name = told.engine_of(engine, arguments)
    if name not in ("vllm", "sglang"):
        expected = "vllm or sglang (kvplan model --optimize frees the settings of others)"
        raise InvalidProblem.at("--engine", expected, name)
    if name == "sglang" and overrides:
        expected = "no field to set (SGLang's pools are split by flags)"
        raise InvalidProblem.at("--set", expected, overrides[0])
    settings = typed_settings(engine_named(name), arguments, budget)
    known, weights = load_model(source, config_overrides(settings))
    settings = settings.weighed(weights, known)
    requests = None if workload is None else load_workload(workload)
    if name == "sglang":
        return best_pools(known, settings, requests)
    return asked_of_model(known, settings, requests, overrides)


def _print_split(answer: PoolSplit, prints: str) -> None:
    from kvplan.models import InvalidProblem

    if prints == "json":
        sys.stdout.write(answer.model_dump_json(indent=2) + "\n")
    elif prints == "problem":
        sys.stdout.write(_text(answer.problem))
    elif prints == "question":
        raise InvalidProblem.at("--print", "report, json or problem for SGLang", prints)
    else:
        from kvplan.solver.report import show
        from kvplan.solver.report.split_report import split_document

        show(split_document(answer), sys.stdout)


def _print(answer: LayoutAnswer, prints: str) -> None:
    if prints == "json":
        sys.stdout.write(answer.model_dump_json(indent=2) + "\n")
    elif prints == "problem":
        sys.stdout.write(_text(answer.problem))
    else:
        from kvplan.solver.layout.layout_report import layout_document
        from kvplan.solver.report import show

        show(layout_document(answer), sys.stdout)


def _text(written: Problem | LayoutQuestion) -> str:
    from kvplan.solver.report.problem_text import problem_text

    return problem_text(written)
