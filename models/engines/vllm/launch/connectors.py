"""Flags that matter for some models only: connectors, contexts, scaled positions, JSON values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.layers import Architecture
from kvplan.models.engines.vllm.launch.attention_config import check_indexer
from kvplan.models.engines.vllm.spec import Spec
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def check_other_flags(
    architecture: Architecture, settings: Mapping[str, Any], specs: Sequence[Spec]
) -> None:
    """Refuse what changes the sizes of this model and is not modelled.

    Raises
    ------
    InvalidProblem : with the flag and the reason.
    """
    contexts = int(settings["prefill_context_parallel_size"])
    if contexts != 1:
        flag = "--prefill-context-parallel-size"
        raise InvalidProblem.at(flag, "1 (more is not modelled)", str(contexts))
    check_indexer(architecture, settings)
    several = len({spec.family for spec in specs}) > 1
    apart = several and not settings["disable_hybrid_kv_cache_manager"]
    if settings["kv_transfer_config"] is not None and apart:
        raise InvalidProblem.at(
            "--kv-transfer-config",
            "none, or --disable-hybrid-kv-cache-manager beside it (whether a connector keeps "
            f"the groups of {architecture.name} is not modelled)",
            shown(settings["kv_transfer_config"]),
        )
