"""Whether an engine has a class of the checkpoint, and whether its caches are modelled for it."""

from __future__ import annotations

from collections.abc import Collection

from kvplan.models.engines.layers import Architecture, Attention, Convolved, Cross
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


def refuse_cross(architecture: Architecture, engine: str, *, indexed: bool = False) -> None:
    """Refuse what is modelled for vLLM alone: cross caches, inputs of convolutions, index keys.

    Parameters
    ----------
    indexed : index keys beside heads are modelled for this engine, too.

    Raises
    ------
    InvalidProblem : the model has some.
    """
    keyed = any(isinstance(x, Attention) and x.index_dim for x in architecture.layers)
    if keyed and not indexed:
        expected = "a model without index keys beside its heads (not modelled for this engine)"
        raise InvalidProblem.at(f"--engine {engine}", expected, architecture.model_type)
    if any(isinstance(layer, Convolved) for layer in architecture.layers):
        expected = "a model without convolutions beside its heads (not modelled for this engine)"
        raise InvalidProblem.at(f"--engine {engine}", expected, architecture.model_type)
    if any(isinstance(layer, Cross) for layer in architecture.layers):
        expected = "a model without an encoder's cross caches (not modelled for this engine)"
        raise InvalidProblem.at(f"--engine {engine}", expected, architecture.model_type)
