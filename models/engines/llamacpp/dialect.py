"""What a line of llama-server or llama-cli may carry beside the modelled flags.

(tools/server/README.md and tools/cli/README.md as of llama-cpp-python 0.3.36.)
"""

from __future__ import annotations

from kvplan.models.engines.command_line.launch_line import Arity, Dialect

_SWITCHES = """
agent backend-sampling cache-idle-slots cache-list cache-prompt check-tensors completion-bash
cont-batching context-shift cors-credentials embd-gemma-default embedding escape
fim-qwen-1.5b-default fim-qwen-14b-spec fim-qwen-30b-default fim-qwen-3b-default
fim-qwen-7b-default fim-qwen-7b-spec gpt-oss-120b-default gpt-oss-20b-default help ignore-eos
jinja list-devices log-disable log-enable log-jsonl log-prefix log-timestamps metrics mlock
models-autoload no-cache-prompt no-context-shift no-jinja no-mmap no-mmproj no-perf no-slots no-ui
no-warmup no-webui offline perf prefill-assistant props reasoning-preserve rerank reuse-port
skip-chat-parsing slots spec-draft-backend-sampling spec-draft-cpu-moe special spm-infill ui
ui-mcp-proxy verbose version vision-gemma-12b-default vision-gemma-4b-default warmup
"""
_VALUES = """
adaptive-decay adaptive-target alias api-key api-key-file api-prefix cache-ram cache-reuse
chat-template chat-template-file chat-template-kwargs checkpoint-min-step
control-vector-layer-range cors-headers cors-methods cors-origins cpu-mask cpu-mask-batch
cpu-range cpu-range-batch cpu-strict cpu-strict-batch ctx-checkpoints defrag-thold draft-min
dry-allowed-length dry-base dry-multiplier dry-penalty-last-n dry-sequence-breaker dynatemp-exp
dynatemp-range embd-normalize fit-target frequency-penalty grammar grammar-file hf-file hf-repo
hf-token host json-schema json-schema-file keep lazy-mode log-file log-prompts-dir logit-bias
lookup-cache-dynamic lookup-cache-static mcp-servers-config mcp-servers-json media-path min-p
main-gpu mirostat mirostat-ent mirostat-lr model model-url models-dir models-max models-preset
mtmd-batch-max-tokens numa path poll poll-batch pooling port predict presence-penalty prio
prio-batch reasoning-budget reasoning-budget-message reasoning-effort reasoning-format
repeat-last-n repeat-penalty reverse-prompt rope-freq-base rope-freq-scale rope-scale rope-scaling
sampler-seq samplers seed sleep-idle-seconds slot-prompt-similarity slot-save-path
spec-draft-cpu-mask spec-draft-cpu-mask-batch spec-draft-cpu-range spec-draft-cpu-strict
spec-draft-cpu-strict-batch spec-draft-device spec-draft-n-cpu-moe spec-draft-n-min spec-draft-ngl
spec-draft-override-tensor spec-draft-p-min spec-draft-p-split spec-draft-poll
spec-draft-poll-batch spec-draft-prio spec-draft-prio-batch spec-draft-threads
spec-draft-threads-batch spec-draft-type-k spec-draft-type-v spec-ngram-map-k-min-hits
spec-ngram-map-k-size-m spec-ngram-map-k-size-n spec-ngram-map-k4v-min-hits
spec-ngram-map-k4v-size-m spec-ngram-map-k4v-size-n spec-ngram-min-hits spec-ngram-mod-n-match
spec-ngram-mod-n-max spec-ngram-mod-n-min spec-ngram-simple-min-hits spec-ngram-simple-size-m
spec-ngram-simple-size-n spec-ngram-size-m spec-ngram-size-n spec-synth-len spec-synth-rates
sse-ping-interval ssl-cert-file ssl-key-file tags temp threads threads-batch threads-http timeout
tools tools-runtime top-k top-nsigma top-p typical ui-config ui-config-file verbosity
video-ffmpeg-dir video-fps video-timestamp-interval xtc-probability xtc-threshold yarn-attn-factor
yarn-beta-fast yarn-beta-slow yarn-ext-factor yarn-orig-ctx
"""
_CLI_SWITCHES = """
conversation single-turn interactive interactive-first simple-io multiline-input show-timings
no-display-prompt display-prompt
"""
_CLI_VALUES = "prompt file binary-file image audio system-prompt system-prompt-file"
_OPTIONAL = """
color docker-repo fit log-colors reasoning
"""
_MEASURED_SWITCHES = """
lora-init-without-apply mmproj-auto no-host op-offload repack
"""
_MEASURED_VALUES = """
control-vector control-vector-scaled image-max-tokens image-min-tokens load-mode lora lora-scaled
mmproj-device mmproj-url
"""
_SPELLINGS = {
    "-p": "--prompt",
    "-f": "--file",
    "-bf": "--binary-file",
    "-sys": "--system-prompt",
    "-sysf": "--system-prompt-file",
    "-cnv": "--conversation",
    "-st": "--single-turn",
    "-i": "--interactive",
    "-if": "--interactive-first",
    "-mli": "--multiline-input",
    "--cache-type-k-draft": "--spec-draft-type-k",
    "--cache-type-v-draft": "--spec-draft-type-v",
    "--cpu-mask-batch-draft": "--spec-draft-cpu-mask-batch",
    "--cpu-mask-draft": "--spec-draft-cpu-mask",
    "--cpu-moe-draft": "--spec-draft-cpu-moe",
    "--cpu-range-draft": "--spec-draft-cpu-range",
    "--cpu-strict-batch-draft": "--spec-draft-cpu-strict-batch",
    "--cpu-strict-draft": "--spec-draft-cpu-strict",
    "--device-draft": "--spec-draft-device",
    "--draft-n-min": "--draft-min",
    "--draft-p-min": "--spec-draft-p-min",
    "--draft-p-split": "--spec-draft-p-split",
    "--embeddings": "--embedding",
    "--gpu-layers-draft": "--spec-draft-ngl",
    "--hf-repo-draft": "--spec-draft-hf",
    "--log-verbose": "--verbose",
    "--log-verbosity": "--verbosity",
    "--model-draft": "--spec-draft-model",
    "--n-cpu-moe-draft": "--spec-draft-n-cpu-moe",
    "--n-gpu-layers-draft": "--spec-draft-ngl",
    "--n-predict": "--predict",
    "--override-tensor-draft": "--spec-draft-override-tensor",
    "--poll-batch-draft": "--spec-draft-poll-batch",
    "--poll-draft": "--spec-draft-poll",
    "--prio-batch-draft": "--spec-draft-prio-batch",
    "--prio-draft": "--spec-draft-prio",
    "--reranking": "--rerank",
    "--sampling-seq": "--sampler-seq",
    "--spec-draft-ncmoe": "--spec-draft-n-cpu-moe",
    "--swa-checkpoints": "--ctx-checkpoints",
    "--temperature": "--temp",
    "--threads-batch-draft": "--spec-draft-threads-batch",
    "--threads-draft": "--spec-draft-threads",
    "--top-n-sigma": "--top-nsigma",
    "--typical-p": "--typical",
    "--usage": "--help",
    "--webui": "--ui",
    "--webui-config": "--ui-config",
    "--webui-config-file": "--ui-config-file",
    "--webui-mcp-proxy": "--ui-mcp-proxy",
    "-C": "--cpu-mask",
    "-Cb": "--cpu-mask-batch",
    "-Cbd": "--spec-draft-cpu-mask-batch",
    "-Cd": "--spec-draft-cpu-mask",
    "-Cr": "--cpu-range",
    "-Crb": "--cpu-range-batch",
    "-Crd": "--spec-draft-cpu-range",
    "-a": "--alias",
    "-ag": "--agent",
    "-bs": "--backend-sampling",
    "-cb": "--cont-batching",
    "-cl": "--cache-list",
    "-cmoed": "--spec-draft-cpu-moe",
    "-cms": "--checkpoint-min-step",
    "-cram": "--cache-ram",
    "-ctkd": "--spec-draft-type-k",
    "-ctvd": "--spec-draft-type-v",
    "-ctxcp": "--ctx-checkpoints",
    "-devd": "--spec-draft-device",
    "-dr": "--docker-repo",
    "-dt": "--defrag-thold",
    "-e": "--escape",
    "-fit": "--fit",
    "-fitc": "--fit-ctx",
    "-fitt": "--fit-target",
    "-h": "--help",
    "-hf": "--hf-repo",
    "-hfd": "--spec-draft-hf",
    "-hff": "--hf-file",
    "-hfr": "--hf-repo",
    "-hfrd": "--spec-draft-hf",
    "-hft": "--hf-token",
    "-j": "--json-schema",
    "-jf": "--json-schema-file",
    "-l": "--logit-bias",
    "-lcd": "--lookup-cache-dynamic",
    "-lcs": "--lookup-cache-static",
    "-lm": "--load-mode",
    "-lv": "--verbosity",
    "-lzm": "--lazy-mode",
    "-m": "--model",
    "-md": "--spec-draft-model",
    "-mg": "--main-gpu",
    "-mmdev": "--mmproj-device",
    "-mmu": "--mmproj-url",
    "-mu": "--model-url",
    "-n": "--predict",
    "-ncmoed": "--spec-draft-n-cpu-moe",
    "-ngld": "--spec-draft-ngl",
    "-nr": "--repack",
    "-otd": "--spec-draft-override-tensor",
    "-r": "--reverse-prompt",
    "-rea": "--reasoning",
    "-s": "--seed",
    "-sp": "--special",
    "-sps": "--slot-prompt-similarity",
    "-t": "--threads",
    "-tb": "--threads-batch",
    "-tbd": "--spec-draft-threads-batch",
    "-td": "--spec-draft-threads",
    "-to": "--timeout",
    "-ts": "--tensor-split",
    "-v": "--verbose",
}
_NOT_MODELLED = {
    "--rpc": "devices of other hosts",
    "--tensor-split": "several devices",
    "--fit-ctx": "a context that is fitted; say --ctx-size",
    "--override-kv": "changed metadata",
    "--kv-unified-per-slot": "a context by slot; say --ctx-size",
    "--spec-draft-hf": "a draft model's own cache",
    "--spec-draft-model": "a draft model's own cache",
    "--spec-type": "a draft's own cache",
    "--spec-default": "a draft's own cache",
}
_MODELLED_VARIABLES = {
    "CTX_SIZE": "--ctx-size",
    "BATCH": "--batch-size",
    "UBATCH": "--ubatch-size",
    "FLASH_ATTN": "--flash-attn",
    "KV_OFFLOAD": "--kv-offload",
    "KV_UNIFIED": "--kv-unified",
    "SWA_FULL": "--swa-full",
    "CACHE_TYPE_K": "--cache-type-k",
    "CACHE_TYPE_V": "--cache-type-v",
    "OVERRIDE_TENSOR": "--override-tensor",
    "CPU_MOE": "--cpu-moe",
    "N_CPU_MOE": "--n-cpu-moe",
    "N_CPU_FFN": "--n-cpu-ffn",
    "N_GPU_LAYERS": "--n-gpu-layers",
    "N_PARALLEL": "--parallel",
    "SPEC_DRAFT_N_MAX": "--draft-max",
}


def _names(text: str, arity: Arity) -> dict[str, Arity]:
    return {f"--{name}": arity for name in text.split()}


_REFUSED = {name: f"a line without it (not modelled: {why})" for name, why in _NOT_MODELLED.items()}
DIALECT = Dialect(
    harmless={
        **_names(_SWITCHES + _CLI_SWITCHES, "switch"),
        **_names(_VALUES + _CLI_VALUES, "value"),
        **_names(_OPTIONAL, "optional"),
    },
    measured={**_names(_MEASURED_SWITCHES, "switch"), **_names(_MEASURED_VALUES, "value")},
    refused=_REFUSED,
    refused_arity={"--spec-default": "switch"},
    aliases={
        **_SPELLINGS,
        "-nkvo": "--no-kv-offload",
        "-no-kvu": "--no-kv-unified",
        "-nocb": "--no-cont-batching",
        "-nr": "--no-repack",
        "-no-ag": "--no-agent",
    },
    variables={f"LLAMA_ARG_{name}": flag for name, flag in _MODELLED_VARIABLES.items()},
)
"""Harmless flags leave the caches alone; measured ones take bytes of the device that a budget of
--gpu and weights does not count (projector, adapters)."""
