"""Groups of layers whose last one attends by MLA, the others keeping states: Ling and Ring."""

from __future__ import annotations

from kvplan.models.engines.families.fields import Fields
from kvplan.models.engines.families.latent import latent
from kvplan.models.engines.layers import Layer, Recurrent
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown


def bailing(fields: Fields) -> list[Layer]:
    """Ling-2.5, Ring-2.5: linear attention; Ling-3 (short_conv_kernel_size): KDA.

    Layer i attends where (i + 1) % layer_group_size == 0; of Ling-3 so do the layers behind the
    last whole group. Next-token layers attend. (vllm/model_executor/models/bailing_moe_linear.py,
    bailing_moe_v3.py.)
    """
    fields.require("num_hidden_layers", "num_attention_heads", "layer_group_size", "kv_lora_rank")
    size = fields.count("layer_group_size", least=1)
    heads, dim = fields.count("num_attention_heads", least=1), fields.head_dim
    taps = fields.count("short_conv_kernel_size", 0)
    whole = fields.layers // size * size if taps else fields.layers
    layers: list[Layer] = []
    for index in range(fields.layers):
        if (index + 1) % size == 0 or index >= whole:
            layers.append(latent(fields, index))
        elif taps:
            layers.append(
                Recurrent(index, "kda", heads, dim, dim, heads, taps, 3 * heads * dim, "float32")
            )
        else:
            layers.append(Recurrent(index, "linear", heads, dim, dim, 0, 0, 0, "float32"))
    _check_kinds(fields, layers)
    drafts = range(fields.layers, fields.layers + fields.count("num_nextn_predict_layers", 0))
    return [*layers, *(latent(fields, index, draft=True) for index in drafts)]


def _check_kinds(fields: Fields, layers: list[Layer]) -> None:
    """Refuse kinds that are others than layer_group_size says, which the class alone looks at.

    Raises
    ------
    InvalidProblem : the first such kind.
    """
    for name in ("layer_types", "layers_block_type"):
        if not fields.has(name):
            continue
        for kind, layer in zip(fields.items(name, len(layers)), layers, strict=False):
            states = isinstance(layer, Recurrent)
            if kind not in (("linear_attention",) if states else ("full_attention", "attention")):
                where = f"{fields.path}.{name}[{layer.index}]"
                expected = "linear_attention" if states else "full_attention"
                raise InvalidProblem.at(where, f"{expected}, by layer_group_size", shown(kind))
