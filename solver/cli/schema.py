"""kvplan schema: the problem format for editors and other tools."""

from __future__ import annotations

import json
import sys


def schema() -> int:
    """Print the JSON Schema of a problem file."""
    from kvplan.models import Problem

    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Problem.model_json_schema(),
    }
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
    return 0
