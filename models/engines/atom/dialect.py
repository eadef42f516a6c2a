"""What a line of ATOM's server may carry beside the modelled flags (model_engine/arg_utils.py)."""

from __future__ import annotations

from kvplan.models.engines.command_line.launch_line import Arity, Dialect

_SWITCHES = "enable-prefix-caching load-dummy trust-remote-code disable-log-requests"
_VALUES = "model port host server-port torch-profiler-dir method hf-token log-level"
_MEASURED_SWITCHES = "enforce-eager enable-expert-parallel enable-dp-attention enable-tbo"
_MEASURED_VALUES = """
data-parallel-size cudagraph-capture-sizes level max-num-batched-tokens online-quant-config
"""


def _names(text: str, arity: Arity) -> dict[str, Arity]:
    return {f"--{name}": arity for name in text.split()}


DIALECT = Dialect(
    harmless={**_names(_SWITCHES, "switch"), **_names(_VALUES, "value")},
    measured={**_names(_MEASURED_SWITCHES, "switch"), **_names(_MEASURED_VALUES, "value")},
    refused={
        "--draft-model": "a line without it (a separate draft's layers are not modelled)",
        "--kv-transfer-config": "--connector beside it, and no such flag (its reserve is bytes)",
    },
    aliases={"-tp": "--tensor-parallel-size", "-dp": "--data-parallel-size"},
    abbreviates=True,
)
"""Measured flags change the readings that --peak-torch, --graphs or --available say."""
