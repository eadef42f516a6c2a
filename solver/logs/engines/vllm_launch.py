"""What lines of vLLM say of a launch: settings, and whether its layers are of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TRAITS = (
    "padding layers",
    "Setting attention block size",
    "Padding mamba page size",
    "Mamba cache",
    "mamba_cache",
    "Hybrid KV cache",
    "hybrid KV cache",
)
ONE_LINE = "tokens and concurrency on one line"
"""From 0.28 on: tokens are int(concurrency x length), whatever the layers."""
_BOTH = re.compile(r"KV cache size: [\d,]{1,30} tokens, Maximum concurrency for")
KINDS = "layers of several kinds"
ONE_KIND = "layers of one kind"
BLOCK_TOKENS, FITTED = "block tokens", "fitted"
AUTO_FIT = "a length that the engine chose"
GIVEN_BYTES = "bytes of the cache as given"
_MIXED = re.compile(
    r"gpt-?oss|gemma|qwen-?3(?:[\w.-]*next|[._][5-9]|[5-9](?!\d*b))|llama-?4|nemotron|granite-?4|"
    r"jamba|lfm|minimax|"
    r"kimi-?(?:linear|k3)|mimo|command|cohere|exaone|olmo-?3|ministral|step-?3|falcon-?(?:h|mamba)|"
    r"zamba|bamba|phi-4-mini-flash|plamo|deepseek-?v4|ling-|ring-|bailing",
    re.IGNORECASE,
)
"""Families whose layers are of several kinds, by the names of their models."""
_UNIFORM = re.compile(
    r"llama-?[23](?!\d)|qwen-?(?:1\.5|2|2\.5|3)(?![\d._]|-next|-omni)|mixtral|granite-3|"
    r"deepseek-(?:r1|v3(?!\.2))|(?<![a-z])phi-?4(?!-mini-flash)|(?<![a-z])opt-\d",
    re.IGNORECASE,
)
"""Families whose layers are all alike; a draft may have others, overrides may change them."""
_OVERLAID = re.compile(
    r"speculative_config=(?!None)|'(?:speculative_config|hf_overrides)': (?!None)"
)
_NAMES_SETTINGS = (
    *("LLM engine (v", "vLLM API server version", "non-default args", "args: Namespace("),
    *("orcing kv cache block size to ", "Auto-fit max_model_len"),
)
_IS = r"['\"]?[=:] ?['\"]?"  # name=value, or 'name': 'value' in the line of non-default arguments
_WORDS = (
    ("version", re.compile(r"LLM engine \(v([^)]{1,60})\)")),
    ("version", re.compile(r"vLLM API server version (\S{1,60})")),
    ("model", re.compile(r"LLM engine .{0,60}?with config: model='([^']{1,300})'")),
    ("model", re.compile(r"non-default args: \{.{0,900}?'model(?:_tag)?': '([^']{1,300})'")),
    ("max-model-len", re.compile(rf"\bmax_(?:seq|model)_len{_IS}(\d{{1,12}})\b")),
    ("tensor-parallel-size", re.compile(rf"\btensor_parallel_size{_IS}(\d{{1,6}})\b")),
    ("pipeline-parallel-size", re.compile(rf"\bpipeline_parallel_size{_IS}(\d{{1,6}})\b")),
    ("kv-cache-dtype", re.compile(rf"\bkv_cache_dtype{_IS}(\w{{1,30}})")),
    ("dtype", re.compile(r"\bdtype=torch\.(\w{1,30})")),
    ("max-num-batched-tokens", re.compile(rf"\bmax_num_batched_tokens{_IS}(\d{{1,12}})")),
    (FITTED, re.compile(r"Auto-fit max_model_len: reduced from (\d{1,12} to \d{1,12})")),
    (BLOCK_TOKENS, re.compile(rf"\bargs: .{{0,3000}}?\bblock_size{_IS}(\d{{1,6}})")),
    (BLOCK_TOKENS, re.compile(r"orcing kv cache block size to (\d{1,6})")),
)
_NESTED = re.compile(r"(?<!^)\{[^{}]{0,2000}\}")
_DEEPEST = 3
_ARGUMENT = re.compile(r"'(\w{1,60})': (?:'([^']{0,300})'|(-?[\w.+-]{1,40})(?=[,}]))")
SETTINGS = (
    b"LLM engine (v",
    b"vLLM API server version",
    b"non-default args",
    b"args: Namespace(",
    b"orcing kv cache block size to ",
    b"Auto-fit max_model_len",
    *(trait.encode() for trait in _TRAITS),
)
"""Bytes of the lines that say so."""


def trait_of(text: str) -> str:
    """What a line says of the layout, or of how its figures were counted."""
    if _BOTH.search(text):
        return ONE_LINE
    if "Auto-fit max_model_len" in text:
        return AUTO_FIT
    if "specified by kv_cache_memory_bytes" in text:
        return GIVEN_BYTES
    model = words_of(text).get("model", "")
    if _MIXED.search(model.rpartition("/")[2]) or any(trait in text for trait in _TRAITS):
        return KINDS
    alike = _UNIFORM.search(model) and not _MIXED.search(model)
    return ONE_KIND if alike and not _OVERLAID.search(text) else ""


def words_of(text: str) -> dict[str, str]:
    """Settings that the line of an engine's start names."""
    if not any(sign in text for sign in _NAMES_SETTINGS):
        return {}
    found = ((name, pattern.search(text)) for name, pattern in _WORDS)
    words = {name: match[1] for name, match in found if match is not None}
    if ("args: Namespace(" in text or "non-default args" in text) and BLOCK_TOKENS not in words:
        words[BLOCK_TOKENS] = "16"  # the default on a GPU
    return words | dict(_arguments(text))


def _arguments(text: str) -> Iterator[tuple[str, str]]:
    """Every plain value of the non-default arguments, by its flag; a switch has "true", "false"."""
    _, _, arguments = text.partition("non-default args: ")
    for _ in range(_DEEPEST):
        arguments = _NESTED.sub("", arguments)
    for key, quoted, plain in _ARGUMENT.findall(arguments):
        value = quoted or plain
        if value not in ("", "None", "auto"):
            named = value.lower() if value in ("True", "False") else value
            yield f"--{key.replace('_', '-')}", named
