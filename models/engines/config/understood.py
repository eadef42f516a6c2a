"""Fields of a config that change a cache, by their names, and which of them a reader may pass over.

What a reader did not look at is refused by name: a config with a field that changes a cache is
another model than one without.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Attention, Layer
from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import shown

_SECTIONS = frozenset(
    {
        *("per_layer_config", "kv_lora_rank", "compress_ratios", "compress_rates", "block_configs"),
        *("linear_attn_config", "attn_type_list", "layers_block_type", "hybrid_override_pattern"),
        *("layer_types", "attention_chunk_size", "hybrid_layer_pattern", "use_cla", "block_types"),
        *("sparse_attention_config", "attn_config", "attention_other_setting", "indexer_types"),
    }
)
_KINDS = re.compile(
    r"^(layer_types|layers_block_type|hybrid_override_pattern|attn_type_list|local_layer_ids"
    r"|hybrid_layer_pattern|attn_layer_(indices|period|offset)|hybrid_layer_ids|layer_group_size"
    r"|no_rope_layers|no_rope_layer_interval|interleaved_sliding_window|mtp_layers_block_type"
    r"|.*every_n_layers|full_attention_(interval|layers)|.*sliding_window_(pattern|layers))$"
)
"""Which layers attend how: a config may say it twice."""
_WINDOWS = re.compile(r"(window|window_size|window_length|window_layers)$")
_HEADS = re.compile(
    r"((^|_)(head_dim|head_size|kv_heads|key_value_heads|head_kv|heads_kv)|kv_channels"
    r"|multi_query_group_num)$"
)
_INDEXERS = re.compile(r"^index(er)?_(head_dim|dim|n?_?heads|kv_heads|kpool|topk|budget)$")
_OTHERS = re.compile(
    r"^(.*conv_kernel(_size|_dim)?|.*d_conv|conv_L_cache|conv_dim|.*state_(size|dim)|.*d_state"
    r"|linear_.*(heads|head_dim)|mamba_.*(heads|head_?dim|d_head)|.*kv_shared_layers|kv_shar.*"
    r"|cla_.*|loop_(num|window_size)|num_loops|total_ut_steps|.*sink_(number|tokens|size)"
    r"|add_cross_attention|cross_att(n|ention)_.*|.*kv_compress.*|(kv|attn)_.*(rank|dim|size)"
    r"|index_kpool)$"
)
_HARMLESS = frozenset(
    {
        *(
            "use_sliding_window",
            "max_window_layers",
            "qk_head_dim",
            "qk_nope_head_dim",
        ),
        *("qk_rope_head_dim", "rope_head_dim", "keep_window_size", "no_rope_layer_interval"),
        *("no_rope_layers", "attn_res_block_size", "mamba_d_state_rank"),
    }
)
"""Names like those, of fields that no cache follows from."""

_ALIKE = frozenset(
    {
        *("mixtral", "gemma", "qwen2_moe", "qwen3_moe", "olmoe", "stablelm", "cohere", "glm4"),
        *("glm4_moe", "ernie4_5_moe", "nemotron", "opt", "hy_v3", "internlm2", "exaone", "orion"),
        *("minicpm", "solar", "param2moe", "k2_horizon", "PanguEmbedded", "sarvam_moe", "deepseek"),
        *("bailing_moe", "bailing_moe_v2", "minimax_m2", "phimoe", "hyperclovax"),
        *("qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"),
        *("qwen3_vl_moe_text", "qwen3_omni_moe_text", "ernie4_5_vl_moe_text", "glm4v_moe_text"),
    }
)
"""Types whose class in vLLM does not look at layer_types."""
_QUOTIENTS = frozenset(
    {
        *("qwen2", "qwen2_moe", "granitemoe", "granitemoeshared", "olmoe", "stablelm", "internlm2"),
        *(
            "orion",
            "minicpm",
            "iquestloopcoder",
            "lfm2",
            "lfm2_moe",
            "deepseek",
            "mimo",
            "qwen2_vl",
        ),
        *("qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text", "gpt2", "gptj"),
        *("opt", "granitemoe_swa", "olmo_hybrid", "deepseek_ocr2_text"),
    }
)
"""Types whose class has heads of hidden_size / num_attention_heads, whatever head_dim says."""
_MULTI_HEAD = frozenset({"gpt2", "gptj", "opt", "bloom", "hrm_text"})
"""Types whose class has as many KV heads as query heads."""


def check_heeded(fields: Fields, model_type: str) -> None:
    """Refuse a field that vLLM's class of this type does not look at, where it says another thing.

    tests/bench/vllm_families.py builds the classes with such fields.

    Raises
    ------
    InvalidProblem : one fault for each.
    """
    faults = []
    kinds = fields.given.get("layer_types")
    if model_type in _ALIKE and isinstance(kinds, list) and set(kinds) - {"full_attention"}:
        faults.append(("layer_types", "full_attention in each layer"))
    if model_type in _QUOTIENTS and "head_dim" in fields.given:
        heads = fields.count("num_attention_heads", least=1)
        quotient = fields.count("hidden_size", least=heads) // heads
        if fields.head_dim != quotient:
            faults.append(("head_dim", f"{quotient}, hidden_size / num_attention_heads"))
    if model_type in _MULTI_HEAD and "num_key_value_heads" in fields.given:
        heads = fields.count("num_attention_heads", least=1)
        if fields.kv_heads != heads:
            faults.append(("num_key_value_heads", f"{heads}, as num_attention_heads"))
    if faults:
        raise InvalidProblem(
            Fault(
                f"{fields.path}.{name}",
                f"{expected} (the class of {model_type} looks at no other)",
                shown(fields.given[name]),
            )
            for name, expected in faults
        )


def check_understood(fields: Fields, layers: Sequence[Layer], model_type: str) -> None:
    """Refuse a field that changes a cache and that this model's reader did not look at.

    Zero, false and empty say nothing. Kinds may be said twice; sliding_window says nothing beside
    kinds that are all full, no window where use_sliding_window is false; heads nothing beside
    latent vectors; an indexer's other sizes nothing beside its key's.

    Raises
    ------
    InvalidProblem : one fault for each, by name.
    """
    kinds = any(map(_KINDS.match, fields.read))
    slides = fields.data.get("use_sliding_window") is not False
    heads = any(isinstance(layer, Attention) for layer in layers)
    keyed = any(name in fields.read for name in ("index_head_dim", "sparse_attention_config"))

    def changes(name: str) -> bool:
        if name in _SECTIONS or (_OTHERS.match(name) and name not in _HARMLESS):
            return True
        return name not in _HARMLESS and (
            (bool(_KINDS.match(name)) and not kinds)
            or (bool(_WINDOWS.search(name)) and slides and not (kinds and name == "sliding_window"))
            or (bool(_HEADS.search(name)) and heads)
            or (bool(_INDEXERS.match(name)) and not keyed)
        )

    for index in range(fields.layers if fields.has("per_layer_config") else 0):
        fields.at_layer(index)  # its overrides are understood in layers without heads, too
    unread = [
        name
        for name, value in fields.given.items()
        if value and name not in fields.read and changes(name)
    ]
    if unread:
        expected = f"no such field of {model_type} (it changes a cache, and is not understood here)"
        raise InvalidProblem(
            Fault(f"{fields.path}.{name}", expected, shown(fields.given[name])) for name in unread
        )
