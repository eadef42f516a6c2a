"""Models of latent vectors: MLA, its sparse indexer, and DeepSeek-V4's compressed kinds."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.layers import Compressed, Latent, Layer
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

SPARSE_KINDS = ("indexed_attention", "deepseek_sparse_attention")


def latent(fields: Fields, index: int, *, index_dim: int = 0, draft: bool = False) -> Latent:
    """Make one MLA layer."""
    rank = fields.count("kv_lora_rank", least=1)
    rope = fields.count("qk_rope_head_dim", least=1)
    return Latent(index, rank, rope, index_dim=index_dim, draft=draft)


def mla(fields: Fields) -> list[Layer]:
    """DeepSeek-V2/V3, Kimi-K2: one latent a token and layer; MTP layers alike."""
    fields.require("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim")
    drafts = fields.count("num_nextn_predict_layers", 0)
    layers = fields.layers
    return [latent(fields, index, draft=index >= layers) for index in range(layers + drafts)]


def glm4_lite(fields: Fields) -> list[Layer]:
    """GLM-4.7-Flash: MLA; to its class head_dim is another name of qk_rope_head_dim."""
    rope = fields.count("qk_rope_head_dim", least=1)
    if fields.count("head_dim", rope) != rope:
        where, expected = f"{fields.path}.head_dim", f"{rope}, as qk_rope_head_dim"
        raise InvalidProblem.at(where, expected, shown(fields.raw("head_dim")))
    return mla(fields)


def longcat(fields: Fields) -> list[Layer]:
    """LongCat-Flash: two MLA layers in each of num_layers blocks; its MTP block has one."""
    fields.require("num_layers", "kv_lora_rank", "qk_rope_head_dim")
    layers = fields.count("num_layers", least=1)
    drafts = fields.count("num_nextn_predict_layers", 0)
    target = [latent(fields, index // 2) for index in range(2 * layers)]
    drafted = range(layers, layers + drafts)
    return [*target, *(latent(fields, index, draft=True) for index in drafted)]


def indexed_mla(fields: Fields) -> list[Layer]:
    """DeepSeek-V3.2, GLM-5: MLA whose sparse indexer keeps a key of index_head_dim a token.

    With index_topk_freq f and index_skip_topk_offset o (2), layer i owns an indexer where
    max(i - o + 1, 0) % f == 0 and else shares the one before; index_topk_pattern says it by letter
    (S shares), indexer_types by word (transformers 5.19). An MTP layer owns its own.
    (vllm/models/deepseek_v32/attention.py)
    """
    fields.require("num_hidden_layers", "kv_lora_rank", "qk_rope_head_dim", "index_head_dim")
    layers = fields.layers
    drafts = fields.count("num_nextn_predict_layers", 0)
    every = fields.count("index_topk_freq", 1, least=1)
    offset = fields.count("index_skip_topk_offset", 2)
    pattern = fields.word("index_topk_pattern")
    if fields.has("indexer_types"):
        kinds = fields.items("indexer_types", layers)
        pattern = "".join("S" if kind == "shared" else "F" for kind in kinds)
    _check_kinds(fields)
    keys = fields.count("index_head_dim", least=1)

    def owns(index: int) -> bool:
        if index >= layers:
            return True
        if index < len(pattern):
            return pattern[index] != "S"
        return max(index - offset + 1, 0) % every == 0

    return [
        latent(
            fields,
            index,
            index_dim=keys if owns(index) else 0,
            draft=index >= layers,
        )
        for index in range(layers + drafts)
    ]


def _check_kinds(fields: Fields) -> None:
    """Refuse a kind of layer that is no sparse MLA.

    Raises
    ------
    InvalidProblem : such a kind, by its place.
    """
    kinds = fields.items("layer_types") if fields.has("layer_types") else []
    for index, kind in enumerate(kinds):
        if kind not in SPARSE_KINDS:
            where = f"{fields.path}.layer_types[{index}]"
            raise InvalidProblem.at(where, " or ".join(SPARSE_KINDS), shown(kind))


def hy_v4(fields: Fields) -> list[Layer]:
    """HY-V4: sparse MLA; its class has a pattern of its own where the config says nothing."""
    if not (fields.has("index_topk_freq") or fields.has("index_topk_pattern")):
        fields.require("indexer_types")
    return indexed_mla(fields)


def deepseek_v4(fields: Fields) -> list[Layer]:
    """DeepSeek-V4: a window in every layer, and a compressed row every compress_ratios[i] tokens.

    Layers of ratio 4 have an indexer over their compressed rows; ratio 0 is the window alone. The
    list goes on over the MTP layers. transformers 5.19 saves layer_types and compress_rates.
    """
    fields.require(
        "num_hidden_layers",
        "head_dim",
        "qk_rope_head_dim",
        "sliding_window",
        "index_head_dim",
    )
    layers = fields.layers
    total = layers + fields.count("num_nextn_predict_layers", 0)
    rope = fields.count("qk_rope_head_dim", least=1)
    window = fields.count("sliding_window", least=1)
    keys = fields.count("index_head_dim", least=1)
    return [
        Compressed(
            index,
            window,
            fields.count("head_dim", least=rope) - rope,
            rope,
            ratio,
            index_dim=keys if ratio == 4 else 0,
            draft=index >= layers,
        )
        for index, ratio in enumerate(_ratios(fields, total))
    ]


def _ratios(fields: Fields, total: int) -> list[int]:
    """Ratio of each layer, 0 for the window alone; MTP layers without one have their window."""
    if fields.has("compress_ratios") or not fields.has("compress_rates"):
        return fields.counts("compress_ratios", total)[:total]
    rates = fields.inner("compress_rates")
    kinds = [str(kind) for kind in fields.items("layer_types", fields.layers)[: fields.layers]]
    found = [0 if kind == "sliding_attention" else rates.count(kind, least=1) for kind in kinds]
    return found + [0] * (total - len(found))
