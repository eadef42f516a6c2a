"""kvplan schema: the formats of files and answers, for editors and other tools."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer


def schema(
    of_plan: Annotated[
        bool, typer.Option("--plan", help="The schema of a plan, as solve --json prints it.")
    ] = False,
    of_layout: Annotated[
        bool, typer.Option("--layout", help="The schema of a question for kvplan layout.")
    ] = False,
    of_answer: Annotated[
        bool,
        typer.Option("--layout-answer", help="The schema of a layout, as layout --json prints it."),
    ] = False,
) -> int:
    """Print the JSON Schema of a problem file."""
    from kvplan.models import InvalidProblem, Plan, Problem
    from kvplan.models.layouts import LayoutAnswer, LayoutQuestion

    if of_plan + of_layout + of_answer > 1:
        expected = "one of --plan, --layout and --layout-answer"
        raise InvalidProblem.at("schema", expected, "several")
    document: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if of_plan:
        document |= Plan.model_json_schema(mode="serialization")
    elif of_answer:
        document |= LayoutAnswer.model_json_schema(mode="serialization")
    else:
        document |= (LayoutQuestion if of_layout else Problem).model_json_schema()
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0
