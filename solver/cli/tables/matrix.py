"""kvplan matrix: models, cards and settings side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvplan.solver.cli.tables.explore import print_table, progress_bar, read_changes, target_of
from kvplan.solver.explore.files import TABLES


def matrix(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL... [FLAG...]",
            show_default=False,
            help="Models, each a config.json, a folder or a GGUF file. Flags of the engine after "
            "them apply to every row.",
        ),
    ] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=A,B,C",
            help="Vary a flag of the engine (kv-cache-dtype=auto,fp8; on,off for a switch), the "
            "card (gpu=H100-80GB,L40S), the engine, a variant of the problem, or a field of it. "
            "Repeatable, the last one varying fastest.",
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(metavar="vllm|sglang|tensorrt-llm|atom|llama.cpp", help="The engine."),
    ] = "vllm",
    gpu: Annotated[
        str | None,
        typer.Option(metavar="CARD", help="Card of every row; --vary gpu=A,B compares several."),
    ] = None,
    weights_gib: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL=]GIB",
            help="Weights of the whole model; each GPU of a replica holds an even share. "
            "Repeatable. Not needed for a folder or GGUF file with weights.",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        typer.Option(
            metavar="TOKENS", help="Length of a request, such as 32K; default the longest allowed."
        ),
    ] = None,
    users: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="For N requests of --tokens at once: the replicas that each row takes, the least "
            "memory first.",
        ),
    ] = None,
    best: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help='Sort by a column, the largest first: "tokens per gpu", requests, tokens.',
        ),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the table to a .csv, .jsonl or .parquet file."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the table as one JSON document, a list of rows.")
    ] = False,
) -> int:
    """Plan models under every combination of settings; print one row for each start."""
    models, flags = split_words(words or [])
    changes = with_card(read_changes(vary or [], form="NAME=A,B,C"), gpu)
    target = target_of(out, TABLES)

    from kvplan.solver.matrix import matrix as table_of

    with progress_bar() as progress:
        table = table_of(
            models,
            changes,
            engine=engine,
            arguments=flags,
            weights_gib=read_weights(weights_gib or [], models),
            tokens=read_tokens(tokens),
            users=users,
            best=best,
            progress=progress,
        )
    if users is not None and table.empty:
        typer.echo("no row holds a request; without --users each says why", err=True)
        return 1
    if target is not None:
        from kvplan.solver.explore.files import write_table

        write_table(table, target)
    print_table(table, target, as_json=as_json)
    return 0 if (table["status"] == "starts").any() else 1


def with_card(changes: dict[str, str], gpu: str | None) -> dict[str, str]:
    """Put the card of --gpu before what varies.

    Raises
    ------
    InvalidProblem : --vary gpu= stands beside it.
    """
    from kvplan.models import InvalidProblem

    if gpu is None:
        return changes
    if "gpu" in changes:
        raise InvalidProblem.at("--gpu", "one of --gpu and --vary gpu=", "both")
    return {"gpu": gpu, **changes}


def read_tokens(text: str | None) -> int | None:
    """Read --tokens: 32768, 32k (32,000) or 32K (32,768), as vLLM reads its lengths.

    Raises
    ------
    InvalidProblem : no such count.
    """
    from kvplan.models import InvalidProblem
    from kvplan.models.messages import shown

    if text is None:
        return None
    scale = {"k": 1000, "K": 1024, "m": 10**6, "M": 2**20}.get(text[-1:], 1)
    digits = text if scale == 1 else text[:-1]
    if not digits.isdecimal() or not int(digits):
        raise InvalidProblem.at("--tokens", "a length in tokens, such as 32768 or 32K", shown(text))
    return int(digits) * scale


def split_words(words: list[str]) -> tuple[list[str], list[str]]:
    """Split the models from the engine's flags behind them."""
    first = next((at for at, word in enumerate(words) if word.startswith("-")), len(words))
    return words[:first], words[first:]


def read_weights(texts: list[str], models: list[str]) -> dict[str, str]:
    """Read --weights-gib by model: a figure alone holds for every model that has none."""
    named: dict[str, str] = {}
    every: dict[str, str] = {}
    for text in texts:
        name, equals, gib = text.rpartition("=")
        if not equals:
            every = dict.fromkeys(models, text)
            continue
        matching = [model for model in models if name in (model, Path(model).name)]
        named |= dict.fromkeys(matching or [name], gib)
    return every | named
