"""The wordings in which engines say that they do not start, with reasons and remedies."""

from __future__ import annotations

import re
from typing import NamedTuple

_N = r"(-?\d[\d,]*(?:\.\d+)?)"
_SIZE = r"(-?\d[\d,]*(?:\.\d+)? [KMG]iB)"


class Rule(NamedTuple):
    """One wording of an engine.

    Attributes
    ----------
    why, remedies : with {0}, {1}, ... for the groups of the pattern; {share}, {kv} and {split} for
        the engine's flags. A remedy whose group is missing is left out.
    halved : groups of what is needed, what is left, and the longest length that fits: a cache of
        half the bytes is a remedy by itself only where half of the need is left.
    """

    kind: str
    pattern: re.Pattern[str]
    why: str
    remedies: tuple[str, ...]
    needle: bytes
    halved: tuple[int, int, int] | None = None


COLLECTIVE = Rule(
    "collective",
    re.compile(r"NCCL error.{0,160}"),
    "the ranks could not set up or run a collective",
    ("NCCL_DEBUG=INFO, which tells why", "{share} lower: NCCL allocates beside the budget"),
    b"NCCL error",
)
VLLM = (
    Rule(
        "context",
        re.compile(
            rf"To serve at least one request with the models?'?s? max seq len \({_N}\), "
            rf"\(?{_N} GiB KV cache is needed, which is larger than the available KV cache memory "
            rf"\({_N} GiB\)"
            rf"(?:.*?[Ee]stimated maximum model length is {_N})?"
        ),
        "one request of {0} tokens needs {1} GiB, {2} GiB are left for the cache",
        ("--max-model-len {3}", "{share} higher", "{kv}"),
        b"To serve at least one request",
        (1, 2, 3),
    ),
    Rule(
        "context",
        re.compile(
            rf"max seq len \({_N}\) is larger than the maximum number of tokens that can be "
            rf"stored in KV cache \({_N}\)"
        ),
        "one request of {0} tokens does not fit into {1}",
        ("--max-model-len {1}", "{share} higher", "{kv}"),
        b"that can be stored in KV cache",
        (0, 1, 1),
    ),
    Rule(
        "budget",
        re.compile(r"No available memory for the cache blocks"),
        "weights, activations and graphs leave nothing of the budget for the cache",
        ("{share} higher", "--max-num-batched-tokens lower", "--enforce-eager", "{split} higher"),
        b"No available memory",
    ),
    Rule(
        "length",
        re.compile(r"Cannot auto-fit max_model_len"),
        "what is left for the cache holds not even one token",
        ("{share} higher", "--max-num-batched-tokens lower", "{split} higher"),
        b"Cannot auto-fit max_model_len",
    ),
    Rule(
        "free",
        re.compile(
            rf"Free memory on device.{{0,30}}?\({_N}/{_N} GiB\) on startup is less than desired "
            rf"GPU memory utilization \({_N}, {_N} GiB\)"
        ),
        "{0} of {1} GiB are free at the start, the share of {2} is {3} GiB",
        ("{share} lower", "end the other processes on the card"),
        b"is less than desired GPU memory utilization",
    ),
    Rule(
        "states",
        re.compile(
            rf"max_num_seqs(?:=| ?\()?{_N}?\)? exceeds (?:the )?(?:number of )?available Mamba "
            rf"cache blocks(?: \({_N}\))?"
        ),
        "{0} requests at once want a state block each, there are {1}",
        ("--max-num-seqs {1}", "{share} higher"),
        b"available Mamba cache blocks",
    ),
    Rule(
        "warm-up",
        re.compile(rf"out of memory occurred when warming up (?:the )?sampler with {_N}"),
        "the sampler's warm-up with {0} requests runs out of memory after the cache is built",
        ("--max-num-seqs lower", "{share} lower"),
        b"when warming up",
    ),
    Rule(
        "profile",
        re.compile(
            rf"Error in memory profiling\. Initial free memory {_N} GiB, current free memory {_N}"
        ),
        "free memory grew from {0} to {1} GiB while vLLM measured: another process gave some back",
        ("start once the card is idle", "--kv-cache-memory-bytes, which measures nothing"),
        b"Error in memory profiling",
    ),
)
SGLANG = (
    Rule(
        "budget",
        re.compile(r"Not enough (?:GPU )?memory\b.{0,120}?mem[_-]fraction[_-]static.{0,60}"),
        "the share for weights and pools leaves no token",
        ("{share} higher", "--chunked-prefill-size lower", "{split} higher", "{kv}"),
        b"Not enough ",
    ),
    Rule(
        "balance",
        re.compile(r"memory capacity is unbalanced"),
        "the cards do not have the same free bytes at the start",
        ("end the other processes on the cards", "--base-gpu-id or CUDA_VISIBLE_DEVICES"),
        b"memory capacity is unbalanced",
    ),
    Rule(
        "capture",
        re.compile(r"Capture (?:cuda|CUDA) ?graph failed: (.{0,120})"),
        "the graphs do not fit beside the pools",
        ("{share} lower", "--cuda-graph-max-bs lower", "--disable-cuda-graph"),
        b"graph failed:",
    ),
    Rule(
        "states",
        re.compile(
            r"[Nn]ot enough memory for (?:the )?[Mm]amba|max_mamba_cache_size.{0,40}too small"
        ),
        "the state slots do not hold one request",
        ("--max-mamba-cache-size higher", "--max-running-requests lower", "{share} higher"),
        b"amba",
    ),
)
TRTLLM = (
    Rule(
        "memory",
        re.compile(r"Executor creation failed due to insufficient GPU memory"),
        "the engine and its caches do not fit",
        ("{share} lower", "--max_batch_size or --max_num_tokens lower", "{split} higher"),
        b"insufficient GPU memory",
    ),
    Rule(
        "context",
        re.compile(
            r"(?:maxTokensInPagedKvCache|max_tokens|KV cache).{0,120}?(?:is not enough|too small|"
            r"[Ii]nsufficient).{0,120}"
        ),
        "the paged cache does not hold one request of the longest length",
        ("--max_seq_len lower", "{share} higher", "{kv}"),
        b"[TensorRT-LLM][ERROR]",
    ),
)
LLAMACPP = (
    Rule(
        "memory",
        re.compile(rf"allocating {_N} MiB on device (\d+): cudaMalloc failed: out of memory"),
        "{0} MiB do not fit on device {1}",
        ("--ctx-size lower", "{share} lower", "{kv}", "--ubatch-size lower"),
        b"cudaMalloc failed: out of memory",
    ),
    Rule(
        "memory",
        re.compile(
            rf"(?:alloc_tensor_range: failed|unable) to allocate (\S+) buffer(?: of size {_N})?"
        ),
        "no room for a buffer on {0}",
        ("--ctx-size lower", "{share} lower", "{kv}"),
        b"to allocate ",
    ),
    Rule(
        "memory",
        re.compile(
            r"llama.{0,120}failed to allocate (buffer for kv cache|compute(?: pp| tg)? buffers)"
        ),
        "no room for the {0}",
        ("--ctx-size lower", "{share} lower", "{kv}", "--ubatch-size lower"),
        b"failed to allocate ",
    ),
    Rule(
        "fit",
        re.compile(
            rf"cannot meet free memory target of {_N} MiB, need to reduce device memory by {_N}"
        ),
        "{1} MiB too much for {0} MiB left free",
        ("--ctx-size lower", "{share} lower", "{kv}"),
        b"cannot meet free memory target",
    ),
)
OLLAMA = (
    Rule(
        "memory",
        re.compile(
            rf"model requires more system memory \({_SIZE}\) than is available "
            rf"\({_SIZE}\)"
        ),
        "the model needs {0}, {1} are free",
        ("num_ctx lower", "OLLAMA_NUM_PARALLEL lower", "{kv}"),
        b"model requires more system memory",
    ),
)
LMDEPLOY = (
    Rule(
        "memory",
        re.compile(r"No enough gpu memory for (?:runtime|kv cache)"),
        "the weights leave nothing for the cache",
        ("{share} higher", "--max-prefill-token-num lower", "{split} higher"),
        b"No enough gpu memory",
    ),
)
