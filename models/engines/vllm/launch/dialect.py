"""What a vllm serve line may carry beside the modelled flags (vLLM 0.19 to 0.33, `--help=all`)."""

from __future__ import annotations

from kvplan.models.engines.command_line.launch_line import Arity, Dialect

_SWITCHES = """
headless grpc trust-request-chat-template trust-request-mm-kwargs return-tokens-as-token-ids
enable-auto-tool-choice exclude-tools-when-tool-choice-none enable-prompt-tokens-details
enable-per-request-metrics enable-server-load-tracking enable-force-include-usage
enable-tokenizer-info-endpoint enable-log-outputs enable-log-deltas cohere-is-reasoning-model
log-error-stack tokens-only enable-scale-out disable-uvicorn-access-log allow-credentials
enable-ssl-refresh enable-request-id-headers disable-fastapi-docs enable-offline-docs
enable-flash-late-interaction trust-remote-code allow-deprecated-quantization
return-sampling-mask use-fp64-gumbel enable-trace-replay disable-cascade-attn skip-tokenizer-init
enable-prompt-embeds enable-sleep-mode enable-cumem-allocator enable-nccl-comm-suspend
use-tqdm-on-load enable-mamba-cache-stochastic-rounding numa-bind dcp-q-replicate
data-parallel-hybrid-lb data-parallel-external-lb data-parallel-multi-port-external-lb
enable-batch-sharded-sampling enable-shm-tensor-arena disable-nccl-for-dp-synchronization
ray-workers-use-nsight disable-custom-all-reduce enable-fault-tolerance kv-sharing-fast-prefill
swa-bounded-replay interleave-mm-strings kv-cache-metrics cudagraph-metrics
enable-layerwise-nvtx-tracing enable-mfu-metrics enable-logging-iteration-details
jit-monitor-verbose long-prefill-token-threshold-adaptive disable-chunked-mm-input
scheduler-reserve-full-isl enable-flashinfer-autotune disable-log-stats aggregate-engine-logging
fail-on-environ-validation enable-log-requests disable-log-requests enable-mm-embeds
use-v2-block-manager disable-frontend-multiprocessing enable-reasoning calculate-kv-scales
enable-chunked-mm-input disable-mm-preprocessor-cache
"""
_VALUES = """
api-server-count chat-template chat-template-content-format default-chat-template-kwargs
response-role tool-call-parser tool-parser-plugin tool-strict-level tool-server max-log-len
sse-keep-alive-interval cohere-format anthropic-disabled-thinking-effort fingerprint-mode
fingerprint-value host port grpc-port data-parallel-supervisor-port dp-supervisor-probe-interval-s
dp-supervisor-probe-timeout-s dp-supervisor-probe-failure-threshold uds uvicorn-log-level
disable-access-log-for-endpoints allowed-origins allowed-methods allowed-headers ssl-keyfile
ssl-certfile ssl-ca-certs ssl-cert-reqs ssl-ciphers root-path middleware
h11-max-incomplete-event-size h11-max-header-count model tokenizer tokenizer-mode seed
hf-config-path allowed-local-media-path revision code-revision tokenizer-revision max-logprobs
logprobs-mode config-format generation-config override-generation-config model-impl
io-processor-plugin renderer-num-workers load-format download-dir safetensors-load-strategy
safetensors-prefetch-num-threads safetensors-prefetch-block-size model-loader-extra-config
pt-load-map-location mamba-backend mamba-ssu-algorithm mamba-cache-philox-rounds reasoning-parser
reasoning-parser-plugin distributed-executor-backend master-addr master-port nnodes node-rank
distributed-timeout-seconds cpu-distributed-timeout-seconds device-ids dcp-comm-backend
dcp-kv-cache-interleave-size cp-kv-cache-interleave-size data-parallel-rank
data-parallel-start-rank data-parallel-size-local data-parallel-address data-parallel-rpc-port
data-parallel-backend dp-sync-interval max-parallel-loading-workers worker-cls
worker-extension-cls fault-tolerance-config prefix-caching-hash-algo
prefix-cache-retention-interval prefix-match-unit kv-offloading-size kv-offloading-backend
media-io-kwargs mm-processor-cache-gb mm-processor-cache-type mm-hasher-algorithm
mm-shm-cache-max-object-size-mb mm-tensor-ipc logging-config log-level log-config-file
show-hidden-metrics-for-version otlp-traces-endpoint per-request-spec-decode-metrics
kv-cache-metrics-sample custom-histogram-buckets jit-monitor-mode max-num-scheduled-tokens
max-num-active-seqs max-num-queued-reqs max-num-queued-tokens long-prefill-token-threshold
scheduling-policy scheduler-cls watermark prefill-schedule-interval stream-interval ir-op-priority
linear-backend sparse-indexer-topk-backend watermark-config kv-events-config reasoning-config
kernel-config additional-config structured-outputs-config aux-output-config profiler-config
weight-transfer-config shutdown-timeout gdn-prefill-backend kda-prefill-backend kda-decode-backend
swap-space max-seq-len-to-capture guided-decoding-backend task device max-num-partial-prefills
max-long-partial-prefills scheduler-delay-factor preemption-mode num-lookahead-slots
"""
_LISTS = """
lora-modules api-key allowed-media-domains served-model-name sleep-preserve-parameter-names
logits-processors ignore-patterns numa-bind-nodes numa-bind-cpus collect-detailed-traces
"""
_MEASURED_SWITCHES = """
enable-expert-parallel enable-ep-weight-filter enable-dbo enable-elastic-ep enable-eplb
language-model-only mm-encoder-only skip-mm-profiling mm-device-do-normalize enable-lora
enable-tower-connector-lora fully-sharded-loras specialize-active-lora
enable-mixed-moe-lora-format enable-moe-shared-loras sleep-mode-offload-cudagraph
enable-return-routed-experts enable-hc-sp
"""
_MEASURED_VALUES = """
quantization quantization-config data-parallel-size all2all-backend ubatch-size
elastic-ep-max-dp-size dbo-decode-token-threshold dbo-prefill-token-threshold eplb-config
expert-placement-strategy moe-backend offload-backend cpu-offload-gb offload-group-size
offload-num-in-group offload-prefetch-step limit-mm-per-prompt mm-processor-kwargs
mm-encoder-tp-mode mm-encoder-attn-backend mm-encoder-attn-dtype mm-encoder-fp8-scale-path
mm-encoder-fp8-scale-save-path mm-encoder-fp8-scale-save-margin video-pruning-rate
video-pruning-method mm-processor-device max-loras max-lora-rank lora-dtype max-cpu-loras
default-mm-loras max-lora-cls-labels max-cudagraph-capture-size ec-transfer-config
ec-manager-config
"""
_MEASURED_LISTS = """
cpu-offload-params offload-params lora-target-modules cudagraph-capture-sizes cuda-graph-sizes
"""
_REFUSED = {
    "--config": "its flags on the command line (the file is not read)",
    "--convert": "none (a pooling model's sizes are not modelled)",
    "--diffusion-config": "none (diffusion is not modelled)",
    "--disable-sliding-window": "none (windows cut to the length are not modelled)",
    "--enable-mamba-shared-prefix-checkpoint": "none (its blocks are not modelled)",
    "--engram-config": "none (its tables are not modelled)",
    "--mm-ipc-gpu-memory-gb": "none (bytes off the cache's budget are not modelled); lower "
    "--kv-cache-memory-bytes or --available by them",
    "--model-class-overrides": "none (another class's layers are not known)",
    "--pooler-config": "none (a pooling model's sizes are not modelled)",
    "--replayssm-buffer-len": "none (rings beside the states are not modelled)",
    "--use-replayssm": "none (rings beside the states are not modelled)",
}
_SHORT = {
    "-asc": "--api-server-count",
    "-q": "--quantization",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-dp": "--data-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "-ep": "--enable-expert-parallel",
    "-dc": "--diffusion-config",
    **{f"-O{level}": f"--optimization-level={level}" for level in range(4)},
    "-O": "--optimization-level",
}


def _names(text: str, arity: Arity) -> dict[str, Arity]:
    return {f"--{name}": arity for name in text.split()}


DIALECT = Dialect(
    true_words=("1", "true"),  # vllm/envs.py
    harmless={
        **_names(_SWITCHES, "switch"),
        **_names(_VALUES, "value"),
        **_names(_LISTS, "values"),
        "--hf-token": "optional",
    },
    measured={
        **_names(_MEASURED_SWITCHES, "switch"),
        **_names(_MEASURED_VALUES, "value"),
        **_names(_MEASURED_LISTS, "values"),
    },
    refused=_REFUSED,
    refused_arity=dict.fromkeys(
        (
            *("--disable-sliding-window", "--enable-mamba-shared-prefix-checkpoint"),
            "--use-replayssm",
        ),
        "switch",
    ),
    aliases=_SHORT,
    variables={
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "--allow-long-max-model-len",
        "VLLM_USE_V2_MODEL_RUNNER": "--v2-model-runner",
        "VLLM_PP_LAYER_PARTITION": "--pp-layer-partition",
        "VLLM_KV_CACHE_LAYOUT": "--kv-cache-layout",
        "VLLM_ATTENTION_BACKEND": "--attention-backend",
        "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "--estimate-graphs",
    },
    image_version="--engine-version",
    paired=True,
    abbreviates=True,
)
"""Harmless flags leave every size alone; measured ones change what a start-up measures (weights,
activation, graphs), which --weights-gib, --activation, --graphs or --available say."""
