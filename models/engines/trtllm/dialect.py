"""What a trtllm-serve line may carry beside the modelled flags (tensorrt_llm/commands/serve.py)."""

from __future__ import annotations

from kvplan.models.engines.command_line.launch_line import Arity, Dialect

_SWITCHES = """
trust_remote_code fail_fast_on_attention_window_too_large enable_chunked_prefill grpc
"""
_VALUES = """
tokenizer custom_tokenizer host port log_level num_postprocess_workers revision reasoning_parser
tool_parser metadata_server_config_file otlp_traces_endpoint media_io_kwargs chat_template
custom_module_dirs gpus_per_node served_model_name
"""
_MEASURED_VALUES = """
moe_expert_parallel_size moe_cluster_parallel_size
"""
_NOT_MODELLED = {
    "config": "a file of settings; write its flags on the line",
    "max_tokens": "a limit of the pool's tokens",
    "server_role": "a prefill or decode role",
    "disagg_cluster_uri": "a prefill or decode role",
}


def _names(text: str, arity: Arity) -> dict[str, Arity]:
    return {f"--{name.replace('_', '-')}": arity for name in text.split()}


_REFUSED = {
    f"--{name.replace('_', '-')}": f"a line without it (not modelled: {why})"
    for name, why in _NOT_MODELLED.items()
}
DIALECT = Dialect(
    harmless={**_names(_SWITCHES, "switch"), **_names(_VALUES, "value")},
    measured=_names(_MEASURED_VALUES, "value"),
    refused=_REFUSED,
    variables={"TLLM_ALLOW_LONG_MAX_MODEL_LEN": "--allow_long_max_model_len"},
    aliases={
        "--ep-size": "--moe-expert-parallel-size",
        "--cluster-size": "--moe-cluster-parallel-size",
        "--extra-llm-api-options": "--config",
    },
)
