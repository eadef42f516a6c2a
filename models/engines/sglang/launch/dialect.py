"""What an SGLang launch line may carry beside the modelled flags.

(arg_groups/fields of 0.5.23, and names that 0.5 had before.)
"""

from __future__ import annotations

from kvplan.models.engines.command_line.launch_line import Arity, Dialect

_SWITCHES = """
abort-on-priority-when-disabled allow-auto-truncate checkpoint-engine-wait-weights-before-ready
constrained-json-disable-any-whitespace dcp-replicate-q-proj debug-cuda-graph
delete-ckpt-after-loading disable-aiter-allreduce-fusion-in-decode
disable-aiter-allreduce-fusion-in-prefill disable-attn-tp-gather disable-chunked-prefix-cache
disable-cuda-graph-padding disable-custom-all-reduce disable-fast-image-processor
disable-flashinfer-autotune disable-flashinfer-cutlass-moe-fp4-allgather disable-mla
disable-outlines-disk-cache disable-priority-preemption disable-tokenizer-batch-decode
disaggregation-decode-enable-offload-kvcache disaggregation-decode-enable-radix-cache
disaggregation-enable-kv-checksum dllm-fdfo enable-adaptive-dispatch-to-encoder
enable-aiter-allreduce-fusion enable-amd-monokernel enable-attn-tp-input-scattered
enable-broadcast-mm-inputs-process enable-cache-report enable-cp-decode-attn-tp
enable-cp-tp-group-sharing enable-cudagraph-gc enable-custom-logit-processor
enable-dense-mlp-attn-tp enable-deterministic-inference
enable-dp-attention-local-control-broadcast enable-draft-weights-cpu-backup
enable-dsa-fused-indexer enable-dynamic-batch-tokenizer enable-dynamic-chunking
enable-elastic-expert-backup enable-flashinfer-allreduce-fusion enable-flashinfer-mla
enable-flashmla enable-flexkv enable-forward-pass-metrics enable-fused-moe-sum-all-reduce
enable-fused-qk-norm-rope enable-hierarchical-cache enable-http-worker-reuseport enable-http2
enable-layernorm-sp enable-layerwise-nvtx-marker enable-lean-attention enable-linker-mla-dedup
enable-lmcache enable-lora-overlap-loading enable-mamba-cache-stochastic-rounding
enable-megamoe-for-layernorm-sp enable-metrics enable-metrics-for-all-schedulers
enable-mfu-metrics enable-mis enable-mixed-chunk enable-mla-speculative enable-mm-global-cache
enable-nvidia-megakernel enable-p2p-check enable-pd-role-switch enable-pdmux
enable-precise-embedding-interpolation enable-prefill-delayer enable-prefix-mm-cache
enable-priority-scheduling enable-profile-cuda-graph enable-quant-communications
enable-request-time-stats-logging enable-response-store enable-return-aux-hidden-states
enable-return-hidden-states enable-return-indexer-topk enable-return-routed-experts
enable-scattered-sconv enable-session-radix-cache enable-shared-experts-attn-tp
enable-single-batch-overlap enable-ssl-refresh enable-streaming-session enable-strict-thinking
enable-tf32-matmul enable-tokenizer-batch-encode enable-torch-compile-debug-mode
enable-torch-symm-mem enable-tp-lm-head-all-to-all enable-trace
enable-unified-cache-external-linker enable-w4a4-mxfp4-megamoe enable-waterfill enable-watermark
enable-weights-cpu-backup enforce-disable-flashinfer-allreduce-fusion
enforce-shared-experts-fusion experts-shared-outer-loras export-metrics-to-file
flashinfer-mla-disable-ragged grpc-mode incremental-streaming-output is-embedding log-requests
lora-strict-loading lora-use-virtual-experts mlx-enable-sampling mm-enable-dp-encoder
pre-warm-nccl quantize-and-serve remote-instance-weight-loader-start-seed-via-transfer-engine
return-input-ids return-output-ids schedule-low-priority-values-first show-time-cost
skip-server-warmup skip-tokenizer-init sleep-on-idle smg-grpc-mode
speculative-dspark-align-verify-tokens-to-graph-tier speculative-enable-w4a4-mxfp4-megamoe
speculative-use-block-verification speculative-use-rejection-sampling
stream-response-default-include-usage strip-thinking-cache triton-attention-reduce-in-fp32
trust-mm-content-hashes trust-remote-code trust-request-chat-template use-ray
watermark-default-enabled watermark-enforce-all weight-loader-disable-mmap
weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints
"""
_VALUES = """
admin-api-key api-key asr-max-buffer-seconds asr-max-concurrent-sessions aux-hidden-state-capture
base-gpu-id batch-notify-size bf16-gemm-backend boundary-reduction chat-template
completion-template constrained-json-max-whitespace-cnt constrained-json-whitespace-pattern
cp-strategy crash-dump-folder cuda-graph-max-seq-len-prefill cuda-graph-prefill-max-context
custom-sigquit-handler dcp-comm-backend debug-tensor-dump-input-file
debug-tensor-dump-output-folder decode-log-interval decoupled-spec-bind-endpoint
decoupled-spec-rank decoupled-spec-role decrypted-config-file decrypted-draft-config-file
deepep-config deepep-dispatcher-output-dtype deepep-v2-mode default-chat-template-kwargs
default-priority-value detokenizer-worker-num disaggregation-bootstrap-port
disaggregation-decode-allocation-policy disaggregation-decode-host-receive-threshold
disaggregation-decode-polling-interval disaggregation-decode-retraction-backup
disaggregation-ib-device disaggregation-transfer-backend dist-init-addr dist-timeout
dllm-algorithm-config download-dir dsa-paged-mqa-logits-backend dsa-topk-backend dsa-triton-union
dsv4-prefill-backend dwdp-size dynamic-batch-tokenizer-batch-size
dynamic-batch-tokenizer-batch-timeout elastic-ep-backend elastic-ep-initial-size
elastic-ep-scale-timeout encoder-bootstrap-port encoder-transfer-backend
engine-info-bootstrap-port ep-dispatch-algorithm ep-join-mode ep-join-rank-offset eplb-algorithm
eplb-min-rebalancing-utilization-threshold eplb-rebalance-layers-per-chunk
eplb-rebalance-num-iterations expert-balancedness-report-mode
expert-distribution-recorder-buffer-size expert-distribution-recorder-mode
export-metrics-to-file-dir extra-metric-labels fastapi-root-path file-storage-path
flashinfer-a2a-dispatch-type flashinfer-allreduce-fusion-backend flashinfer-mxfp4-moe-precision
flexkv-config-file forward-pass-metrics-ipc-name forward-pass-metrics-worker-id
fp4-gemm-runner-backend fp8-gemm-runner-backend fuseep-mode gated-launch-port
gc-warning-threshold-secs gpu-id-step grammar-backend grpc-port grpc-response-timeout-secs
grpc-worker-threads hf-chat-template-name hicache-host-memory-fraction hicache-host-memory-mode
hicache-io-backend hicache-mem-layout hicache-ratio hicache-size hicache-storage-backend
hicache-storage-backend-extra-config hicache-storage-prefetch-policy
hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval
hicache-write-policy host http2-initial-connection-window-size http2-max-concurrent-streams
image-processor-backend kt-cpuinfer kt-max-deferred-experts-per-token kt-method
kt-threadpool-count kv-canary kv-canary-real-data kv-canary-sweep-interval kv-events-config
limit-mm-data-per-request linear-attn-backend linear-attn-decode-backend
linear-attn-prefill-backend linear-attn-verify-backend linear-replayssm-cache-len
lmcache-config-file load-balance-method load-publish-endpoint load-snapshot-publish-interval
log-level log-level-http log-requests-format log-requests-level lora-backend
lora-drain-wait-threshold lora-eviction-policy mamba-backend mamba-cache-philox-rounds
mamba-max-states-per-path mamba-track-interval max-ep-size max-lora-chunk-size max-queued-requests
media-url-max-file-size-mb min-free-slots-delay mm-attention-backend mm-global-cache-backend
mm-io-worker-num mm-process-config mm-processor-worker-num model-config-parser model-impl
model-loader-extra-config model-path modelexpress-config modelopt-checkpoint-restore-path
modelopt-checkpoint-save-path modelopt-export-path mooncake-ib-device msprobe-dump-config
nccl-port nnodes node-rank num-continuous-decode-steps num-reserved-decode-tokens
optimistic-prefill-attempts otlp-service-name otlp-traces-endpoint pdmux-config-path
ple-offload-backend ple-offload-dir port pp-async-batch-depth pp-max-micro-batch-size
preferred-sampling-params prefill-decode-interval prefill-decode-interval-min-bs
prefill-delayer-max-delay-ms prefill-delayer-max-delay-passes prefill-delayer-queue-min-ratio
prefill-delayer-token-usage-low-watermark prefill-kv-cache-dequant-dtype prefill-max-requests
priority-scheduling-preemption-threshold radix-cache-backend radix-eviction-policy
radix-eviction-policy-config random-seed reasoning-parser remote-instance-weight-loader-backend
remote-instance-weight-loader-seed-instance-ip
remote-instance-weight-loader-seed-instance-service-port retraction-policy
return-hidden-states-mode revision rl-on-policy-target rl-quant-profile sampling-backend
sampling-defaults sampling-mask-max-tokens schedule-conservativeness schedule-policy
scheduler-recv-interval served-model-name shared-experts-tp-size sidecar sm-group-num
smg-http-sidecar-port soft-watchdog-timeout spec-trace-dir speculative-accept-threshold-acc
speculative-accept-threshold-single speculative-attention-mode speculative-boundary-reduction
speculative-domino-candidate-pool-size speculative-draft-attention-backend
speculative-draft-load-format speculative-draft-model-revision speculative-dsa-topk-backend
speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
speculative-moe-a2a-backend speculative-moe-runner-backend speculative-ngram-capacity
speculative-ngram-external-corpus-max-tokens speculative-ngram-external-corpus-path
speculative-ngram-external-sam-budget speculative-ngram-match-type
speculative-ngram-max-trie-depth speculative-ngram-min-bfs-breadth speculative-token-map
ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password startup-weight-load-mode stat-loggers
stream-interval tbo-token-distribution-threshold tokenizer-backend
tokenizer-metrics-custom-labels-header tokenizer-mode tokenizer-path tokenizer-worker-num
tool-call-parser tool-server torch-compile-max-bs torchao-config trace-modules
triton-attention-num-kv-splits triton-attention-split-tile-size
unified-cache-external-linker-backend unified-cache-external-linker-config warmups
watchdog-timeout watermark-config watermark-context-window watermark-key watermark-key-b
watermark-max-probability watermark-mixing-probability weight-cache-mode weight-cache-socket
weight-cache-timeout weight-loader-prefetch-num-threads weight-version
"""
_LISTS = """
allowed-media-domains bucket-e2e-request-latency bucket-inter-token-latency
bucket-time-to-first-token custom-weight-loader debug-tensor-dump-layers
decoupled-spec-connect-endpoints encoder-register-urls encoder-urls flashinfer-autotune-skip-ops
forward-hooks gc-threshold generation-tokens-buckets log-requests-target model-checksum numa-node
prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets prompt-tokens-buckets
remote-instance-weight-loader-send-weights-group-ports return-aux-hidden-state-layer-ids
sidecar-args tokenizer-metrics-allowed-custom-labels uvicorn-access-log-exclude-prefixes
"""
_MEASURED_SWITCHES = """
disable-cuda-graph disable-decode-cuda-graph disable-prefill-cuda-graph
disable-shared-experts-fusion enable-deepep-moe enable-dp-lm-head enable-ep-moe enable-eplb
enable-fp32-lm-head enable-lora enable-memory-saver enable-mscclpp enable-multimodal
enable-nccl-nvls enable-paged-experts enable-symm-mem enable-torch-compile
enable-two-batch-overlap encoder-only language-model-only language-only ple-offload-embedding
enable-piecewise-cuda-graph disable-piecewise-cuda-graph enable-flashinfer-trtllm-moe
enable-flashinfer-cutlass-moe keep-mm-feature-on-device
"""
_MEASURED_VALUES = """
cpu-offload-gb cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-config
cuda-graph-max-bs cuda-graph-max-bs-decode cuda-graph-max-bs-prefill deepep-mode
ep-num-redundant-experts ep-size init-expert-location kt-weight-path
load-format max-loaded-loras max-lora-rank max-loras-per-batch
mm-feature-transport mm-preprocess-cache-size-mb modelopt-quant moe-a2a-backend moe-dense-tp-size
moe-dp-size moe-runner-backend offload-group-size offload-mode offload-num-in-group
offload-prefetch-step paged-experts-num-resident quantization quantization-param-path
speculative-draft-model-quantization piecewise-cuda-graph-max-tokens piecewise-cuda-graph-compiler
"""
_MEASURED_LISTS = """
cuda-graph-bs cuda-graph-bs-decode cuda-graph-bs-prefill lora-paths lora-target-modules
piecewise-cuda-graph-tokens
"""
_NOT_MODELLED = {
    "enable-hisparse": "host tokens behind a device token",
    "hisparse-config": "host tokens behind a device token",
    "enable-kv-cache-sharding": "pages that ranks share",
    "enable-unified-memory": "one buffer for all pools",
    "enable-page-major-kv-layout": "pages over all layers",
    "attn-dp-size": "replicas; --enable-dp-attention and --dp-size say them",
    "enable-prefill-cp": "context parallel prefill",
    "enable-dsa-cache-layer-split": "layers that ranks share",
    "speculative-draft-kv-cache-dtype": "an element of the draft's own",
    "speculative-draft-window-size": "a window of the draft",
    "speculative-draft-sink-size": "a window of the draft",
    "enable-multi-layer-eagle": "several draft models",
    "speculative-adaptive": "steps that change while serving",
    "speculative-adaptive-config": "steps that change while serving",
    "speculative-dspark-block-size": "DSPARK",
    "enable-linear-replayssm": "rings beside the states",
    "enable-linear-replayssm-spec": "rings beside the states",
    "enable-int8-mamba-checkpoint": "checkpoints in int8",
    "int8-mamba-ckpt-size": "checkpoints in int8",
    "prefill-only-disable-kv-cache": "no cache at all",
    "qsa-indexer-dtype": "QSA's indexer",
    "enable-deepseek-v4-fp4-indexer": "indexer rows in fp4",
    "enable-encoder-swa-bounded-replay": "replayed windows",
    "enable-decoder-swa-bounded-replay": "replayed windows",
    "dsv4-attn-backend": "DeepSeek-V4's rows by backend",
    "swa-prefix-tails": "cached tails of the window pool",
    "c128-page-size": "pages of ratio 128",
    "disaggregation-decode-extra-slots": "pools of a decode role",
    "dllm-algorithm": "diffusion models",
    "uno-lora-path": "UNO",
    "config": "a file of flags; write its flags on the line",
}
_SWITCH_REFUSED = tuple(
    name
    for name in _NOT_MODELLED
    if name.startswith("enable-")
    or name in ("speculative-adaptive", "prefill-only-disable-kv-cache")
)


def _names(text: str, arity: Arity) -> dict[str, Arity]:
    return {f"--{name}": arity for name in text.split()}


_REFUSED = {
    f"--{name}": f"a line without it (not modelled: {why})" for name, why in _NOT_MODELLED.items()
}
DIALECT = Dialect(
    harmless={
        **_names(_SWITCHES, "switch"),
        **_names(_VALUES, "value"),
        **_names(_LISTS, "values"),
    },
    measured={
        **_names(_MEASURED_SWITCHES, "switch"),
        **_names(_MEASURED_VALUES, "value"),
        **_names(_MEASURED_LISTS, "values"),
    },
    refused=_REFUSED,
    refused_arity={f"--{name}": "switch" for name in _SWITCH_REFUSED},
    aliases={
        "--model": "--model-path",
        "--ep": "--ep-size",
        "--expert-parallel-size": "--ep-size",
        "--fp8-gemm-backend": "--fp8-gemm-runner-backend",
        "--fp4-gemm-backend": "--fp4-gemm-runner-backend",
        "--enable-hicache": "--enable-hierarchical-cache",
        "--nsa-prefill-backend": "--dsa-prefill-backend",
        "--nsa-decode-backend": "--dsa-decode-backend",
        "--nsa-prefill": "--dsa-prefill-backend",
        "--nsa-decode": "--dsa-decode-backend",
        "--nccl-init-addr": "--dist-init-addr",
        "--attention-data-parallel-size": "--attn-dp-size",
        "--attention-context-parallel-size": "--attn-cp-size",
    },
    abbreviates=True,
    variables={
        "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "--allow-longer-context",
        "SGLANG_PP_LAYER_PARTITION": "--pp-layer-partition",
        "SGLANG_SWA_EVICTION_INTERVAL": "--swa-eviction-interval",
    },
)
"""Harmless flags leave every size alone; measured ones change what a start-up measures (weights,
graphs), which --weights-gib, --available or the readings around the load say."""
