"""kvplan schema: the formats of a problem and of a plan, for editors and other tools."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer


def schema(
    of_plan: Annotated[
        bool, typer.Option("--plan", help="Of a plan, as solve --json prints it.")
    ] = False,
) -> int:
    """Print the JSON Schema of a problem file."""
    from kvplan.models import Plan, Problem

    document: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if of_plan:
        document |= Plan.model_json_schema(mode="serialization")
    else:
        document |= Problem.model_json_schema()
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0
