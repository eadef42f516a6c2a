"""A problem as its file would have it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from kvplan.models import Problem
    from kvplan.models.layouts import LayoutQuestion


def problem_text(problem: Problem | LayoutQuestion) -> str:
    """Write a problem or a layout question as YAML, as it was built: defaults stay out."""
    data = {"version": 1, **problem.model_dump(mode="json", exclude_unset=True)}
    return yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=100)
