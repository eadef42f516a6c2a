"""Models of attention layers alone: full, sliding window, chunked, pruned, shared."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

FULL, WINDOW, CHUNK = "full_attention", "sliding_attention", "chunked_attention"


def attention(fields: Fields, index: int, kind: str = FULL, *, draft: bool = False) -> Attention:
    """Make one layer with the config's common geometry.

    Raises
    ------
    InvalidProblem : a kind that is no attention, or a field that it needs is missing.
    """
    fields = fields.at_layer(index)
    heads, dim = fields.kv_heads, fields.head_dim
    if kind in (FULL, "attention", "global_attention"):
        return Attention(index, "full", heads, dim, dim, draft=draft)
    if kind in (WINDOW, "local_attention"):
        window = fields.count("sliding_window", least=1)
        return Attention(index, "window", heads, dim, dim, window=window, draft=draft)
    if kind == CHUNK:
        chunk = fields.count("attention_chunk_size", least=1)
        return Attention(index, "chunked", heads, dim, dim, chunk=chunk, draft=draft)
    where = f"{fields.path}.layer_types[{index}]"
    raise InvalidProblem.at(where, f"{FULL}, {WINDOW} or {CHUNK}", shown(kind))


def every(fields: Fields, interval: int, *, kind: str, other: str) -> list[str]:
    """Kinds where each `interval`-th layer (1-based) is `kind`."""
    if interval < 1:
        raise InvalidProblem.at(fields.path, "a layer pattern of at least 1", str(interval))
    return [kind if (index + 1) % interval == 0 else other for index in range(fields.layers)]


def layer_kinds(fields: Fields) -> list[str] | None:
    """layer_types, where the config lists them."""
    if not fields.has("layer_types"):
        return None
    return [str(kind) for kind in fields.items("layer_types", fields.layers)[: fields.layers]]


def plain(fields: Fields) -> list[Layer]:
    """Llama and its kin: all layers alike, or as layer_types says.

    sliding_window applies to every layer (Mistral), unless use_sliding_window says no; with
    max_window_layers the layers below it are full (Qwen2). interleaved_sliding_window is a window
    for every layer, or a list that repeats, with null for a full one (openPangu, PLaMo-3).
    """
    fields.require("num_hidden_layers", "num_attention_heads")
    if fields.has("interleaved_sliding_window"):
        return _interleaved(fields)
    kinds = layer_kinds(fields) or _windowed(fields)
    return [attention(fields, index, kind) for index, kind in enumerate(kinds)]


def _interleaved(fields: Fields) -> list[Layer]:
    name = "interleaved_sliding_window"
    given = fields.raw(name)
    windows = fields.items(name) if isinstance(given, list) else [fields.count(name, least=1)]
    if not windows:
        raise InvalidProblem.at(f"{fields.path}.{name}", "a window, or some", "an empty list")
    fields.raw("layer_types")
    layers: list[Layer] = []
    for index in range(fields.layers):
        window = windows[index % len(windows)]
        kind = FULL if window is None else WINDOW
        layers.append(attention(fields.replaced(sliding_window=window), index, kind))
    return layers


def _windowed(fields: Fields) -> list[str]:
    layers = fields.layers
    declared = fields.has("use_sliding_window")
    if not fields.has("sliding_window") or (declared and not fields.switch("use_sliding_window")):
        return [FULL] * layers
    full = fields.count("max_window_layers", 0)
    return [FULL if index < full else WINDOW for index in range(layers)]


def mtp_modules(fields: Fields) -> list[Layer]:
    """MiniMax-M2: num_mtp_modules of mtp_transformer_layers layers each, of the target's kind."""
    number = fields.count("num_mtp_modules", 0) * fields.count("mtp_transformer_layers", 1)
    return nextn(fields, number)


def nextn(fields: Fields, number: int | None = None) -> list[Layer]:
    """num_nextn_predict_layers draft layers of full attention behind the target's."""
    count = fields.count("num_nextn_predict_layers", 0) if number is None else number
    start = fields.layers
    return [attention(fields, start + index, draft=True) for index in range(count)]


def minimax_m2(fields: Fields) -> list[Layer]:
    """MiniMax-M2: plain layers and MTP modules."""
    return [*plain(fields), *mtp_modules(fields)]


def glm4(fields: Fields) -> list[Layer]:
    """GLM-4 MoE: plain layers and next-token layers."""
    return [*plain(fields), *nextn(fields)]


def gemma2(fields: Fields) -> list[Layer]:
    """Gemma-2: every second layer (1-based) is full, the others slide."""
    fields.require("sliding_window")
    kinds = layer_kinds(fields) or every(fields, 2, kind=FULL, other=WINDOW)
    return [attention(fields, index, kind) for index, kind in enumerate(kinds)]


def patterned(fields: Fields) -> list[Layer]:
    """Gemma-3, Cohere-2, EXAONE-4: layer_types, or each sliding_window_pattern-th layer is full."""
    fields.require("sliding_window")
    kinds = layer_kinds(fields)
    if kinds is None:
        fields.require("sliding_window_pattern")
        interval = fields.count("sliding_window_pattern", least=1)
        kinds = every(fields, interval, kind=FULL, other=WINDOW)
    own = len(kinds) - fields.count("num_kv_shared_layers", 0)
    return [attention(fields, index, kind) for index, kind in enumerate(kinds[: max(own, 0)])]


def gemma4(fields: Fields) -> list[Layer]:
    """Gemma-4, DiffusionGemma: full layers have a head_dim and perhaps KV heads of their own.

    They are global_head_dim, and with attention_k_eq_v num_global_key_value_heads.

    Configs saved by transformers 5.19 say both in per_layer_config instead. The last
    num_kv_shared_layers read an earlier layer's cache and own none.
    """
    fields.require("layer_types", "sliding_window", "num_key_value_heads", "head_dim")
    kinds = [*(layer_kinds(fields) or [FULL])[:-1], FULL]  # its class makes the last one full
    own = len(kinds) - fields.count("num_kv_shared_layers", 0)
    fields.pass_over("num_global_key_value_heads")  # read with attention_k_eq_v alone
    heads, dim = fields.kv_heads, fields.count("global_head_dim", fields.head_dim, least=1)
    if fields.switch("attention_k_eq_v", default=True):
        heads = fields.count("num_global_key_value_heads", heads, least=1)
    listed = fields.has("per_layer_config")
    return [
        Attention(index, "full", heads, dim, dim)
        if kind == FULL and not listed
        else attention(fields, index, kind)
        for index, kind in enumerate(kinds[: max(own, 0)])
    ]


def minicpm3(fields: Fields) -> list[Layer]:
    """MiniCPM-3: MLA whose latents are expanded, so keys and values take qk_head_dim by head."""
    fields.require("num_hidden_layers", "num_attention_heads", "qk_nope_head_dim")
    fields.pass_over("kv_lora_rank", "head_dim", "num_key_value_heads", "v_head_dim")
    heads = fields.count("num_attention_heads", least=1)
    dim = fields.count("qk_nope_head_dim") + fields.count("qk_rope_head_dim", least=1)
    return [Attention(index, "full", heads, dim, dim) for index in range(fields.layers)]


def interleaved(fields: Fields) -> list[Layer]:
    """gpt-oss and others whose layer_types must say which layers slide."""
    fields.require("layer_types")
    return plain(fields)


def llama4(fields: Fields) -> list[Layer]:
    """Llama-4: chunked local layers; those without rotary embedding are full.

    They are listed (layer_types; no_rope_layers with 0), or each no_rope_layer_interval-th (4).
    """
    fields.require("attention_chunk_size")
    kinds = layer_kinds(fields)
    if kinds is None and fields.raw("no_rope_layers"):
        listed = fields.counts("no_rope_layers", fields.layers)[: fields.layers]
        kinds = [CHUNK if rotary else FULL for rotary in listed]
    if kinds is None:
        interval = fields.count("no_rope_layer_interval", 4, least=1)
        kinds = every(fields, interval, kind=FULL, other=CHUNK)
    return [attention(fields, index, kind) for index, kind in enumerate(kinds)]


def deci(fields: Fields) -> list[Layer]:
    """Nemotron-NAS (DeciLM): block_configs say which layers attend, and with how many groups."""
    fields.require("block_configs", "num_attention_heads")
    queries, dim = fields.count("num_attention_heads"), fields.head_dim
    layers: list[Layer] = []
    for index, entry in enumerate(fields.items("block_configs", fields.layers)):
        where = f"{fields.path}.block_configs[{index}].attention"
        block = Fields(entry if isinstance(entry, dict) else {}, where.removesuffix(".attention"))
        attends = block.inner("attention")
        if attends.switch("no_op") or attends.switch("replace_with_linear"):
            continue
        if attends.has("window_length"):
            raise InvalidProblem.at(where, "no window_length", shown(attends.raw("window_length")))
        group = attends.count("n_heads_in_group", least=1)
        if queries % group:
            raise InvalidProblem.at(where, f"a divisor of {queries} query heads", str(group))
        heads = queries // group
        layers.append(Attention(index, "full", heads, dim, dim))
    return layers
