"""Whether an engine has a class of the checkpoint at all."""

from __future__ import annotations

from collections.abc import Collection

from kvplan.models.engines.layers import Architecture
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def check_class(
    architecture: Architecture, engine: str, served: Collection[str], expected: str
) -> None:
    """Refuse a class that an engine does not serve.

    Raises
    ------
    InvalidProblem : such a class. A config without one, or layers without a config, pass.
    """
    named = bool(architecture.model_type) and architecture.name[:1].isupper()
    if named and architecture.name not in served:
        raise InvalidProblem.at(f"--engine {engine}", expected, shown(architecture.name))
