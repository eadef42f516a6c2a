"""Reading a config.json: typed fields, the names that other models give them, and what is missing.

Nothing is guessed. A field that a rule needs and the config lacks is a fault that names it, at the
top of a file at least: sections are saved without what their Hugging Face class has as a default.
Those defaults hold for a field that is left out, not for one that is null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kvplan.models.engines.families.config_classes import DEFAULTS
from kvplan.models.engines.layers import DTYPE_BITS
from kvplan.models.errors import Fault, InvalidProblem
from kvplan.models.messages import Misfit, one_of, shown
from kvplan.models.units import parse_integer

TOP = "config"
MOST_LAYERS = 100_000
LAYER_KEYS = frozenset({"head_dim", "num_key_value_heads", "sliding_window"})
"""Overrides of one layer that its cache follows from."""
LAYER_HARMLESS = frozenset(
    {
        *("num_attention_heads", "intermediate_size", "moe_intermediate_size", "num_experts"),
        *("num_experts_per_tok", "num_local_experts", "hidden_act", "rope_parameters"),
        *("rope_theta", "rope_scaling", "partial_rotary_factor", "attention_bias", "mlp_bias"),
    }
)
_ALIASES = {
    "num_hidden_layers": ("n_layer", "num_layers", "n_layers"),
    "num_attention_heads": ("n_head", "n_heads", "attention_heads"),
    "hidden_size": ("n_embd", "d_model", "n_embed"),
    "max_position_embeddings": (
        *("n_positions", "seq_length", "max_seq_len", "max_target_positions"),
    ),
}
_MEANING = {
    "num_hidden_layers": "the number of layers",
    "num_attention_heads": "query heads",
    "num_key_value_heads": "KV heads",
    "head_dim": "elements of a head",
    "hidden_size": "elements of a hidden state",
    "kv_lora_rank": "elements of the latent vector (MLA)",
    "qk_rope_head_dim": "elements of the rotary part (MLA)",
    "layer_types": "the kind of each layer",
    "sliding_window": "tokens of the window",
}


class Fields:
    """The part of a config that describes the text model.

    Attributes
    ----------
    data : fields that are not null, over the defaults of the model_type.
    given : fields that the config has.
    path : where that part lies in the file, for messages.
    read : names of the fields that were used.
    """

    def __init__(self, config: Mapping[str, Any], path: str = TOP) -> None:
        defaults = DEFAULTS.get(str(config.get("model_type")), {})
        left = {key: value for key, value in defaults.items() if not _names(key) & set(config)}
        self.given = {key: value for key, value in config.items() if value is not None}
        self.data, self.path = {**left, **self.given}, path
        self.read: dict[str, None] = {}

    def raw(self, name: str) -> Any:
        """Value of a field under its own name or an alias; None where there is none."""
        for key in (name, *_ALIASES.get(name, ())):
            if key in self.data:
                self.read[key] = None
                return self.data[key]
        return None

    def has(self, name: str) -> bool:
        """Whether the field is there and not null, or left to its class."""
        return any(key in self.data for key in (name, *_ALIASES.get(name, ())))

    def pass_over(self, *names: str) -> None:
        """Note fields that would change a cache and that the engines' class does not look at."""
        self.read.update(dict.fromkeys(names))

    def require(self, *names: str) -> None:
        """Refuse with one fault for each field that is missing."""
        known = self.given if self.path == TOP else self.data
        missing = [name for name in names if not _names(name) & set(known)]
        if missing:
            raise InvalidProblem(
                Fault(f"{self.path}.{name}", _MEANING.get(name, "this field"), "none")
                for name in missing
            )

    def count(self, name: str, default: int | None = None, *, least: int = 0) -> int:
        """Read a whole number; without a default it is required."""
        value = self.raw(name)
        if value is None:
            if default is not None:
                return default
            self.require(name)
        try:
            return parse_integer(value, least=least)
        except Misfit as error:
            raise InvalidProblem.at(f"{self.path}.{name}", error.expected, error.got) from None

    def word(self, name: str, default: str = "") -> str:
        """Read a text."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise InvalidProblem.at(f"{self.path}.{name}", "text", shown(value))
        return value

    def dtype(self, *names: str) -> str | None:
        """Read the name of an element type from the first of some fields; None without any."""
        for name in names:
            word = self.word(name)
            if word and word not in DTYPE_BITS:
                known = one_of(DTYPE_BITS, word)
                raise InvalidProblem.at(f"{self.path}.{name}", known, shown(word))
            if word:
                return word
        return None

    def switch(self, name: str, *, default: bool = False) -> bool:
        """Read true or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise InvalidProblem.at(f"{self.path}.{name}", "true or false", shown(value))
        return value

    def items(self, name: str, length: int | None = None) -> list[Any]:
        """Read a list, of so many entries where that is known."""
        self.require(name)
        value = self.raw(name)
        if not isinstance(value, Sequence) or isinstance(value, str):
            raise InvalidProblem.at(f"{self.path}.{name}", "a list", shown(value))
        if length is not None and len(value) < length:
            raise InvalidProblem.at(
                f"{self.path}.{name}", f"an entry for each of {length} layers", str(len(value))
            )
        return list(value)

    def counts(self, name: str, length: int | None = None) -> list[int]:
        """Read a list of whole numbers."""
        found = []
        for index, value in enumerate(self.items(name, length)):
            try:
                found.append(parse_integer(value))
            except Misfit as error:
                where = f"{self.path}.{name}[{index}]"
                raise InvalidProblem.at(where, error.expected, error.got) from None
        return found

    def replaced(self, **changes: Any) -> Fields:
        """Show this part with other values; what is read of it counts as read here."""
        part = Fields({**self.data, **changes}, self.path)
        part.read = self.read
        return part

    def at_layer(self, index: int) -> Fields:
        """Show this part as one layer sees it, with its per_layer_config laid over.

        transformers 5.19 saves what varies by layer as {"05": {"head_dim": 512}}.

        Raises
        ------
        InvalidProblem : an override that is not understood.
        """
        if not self.has("per_layer_config"):
            return self
        table = self.inner("per_layer_config")
        own = {key: value for key, value in table.data.items() if _is_index(key, index)}
        if not own:
            return self
        ((key, changes),) = own.items()
        where = f"{table.path}.{key}"
        if not isinstance(changes, Mapping):
            raise InvalidProblem.at(where, "a mapping", shown(changes))
        unknown = sorted(set(map(str, changes)) - LAYER_KEYS - LAYER_HARMLESS)
        if unknown:
            expected = f"fields among {', '.join(sorted(LAYER_KEYS))} (others are not understood)"
            raise InvalidProblem.at(where, expected, shown(unknown[0]))
        layer = Fields({**self.data, **changes}, where)
        layer.read = self.read
        return layer

    def inner(self, name: str) -> Fields:
        """Read a nested section."""
        self.require(name)
        value = self.raw(name)
        if not isinstance(value, Mapping):
            raise InvalidProblem.at(f"{self.path}.{name}", "a mapping", shown(value))
        return Fields(value, f"{self.path}.{name}")

    @property
    def layers(self) -> int:
        """num_hidden_layers, within reason."""
        self.require("num_hidden_layers")
        count = self.count("num_hidden_layers", least=1)
        if count > MOST_LAYERS:
            where = f"{self.path}.num_hidden_layers"
            raise InvalidProblem.at(where, f"at most {MOST_LAYERS} layers", str(count))
        return count

    @property
    def head_dim(self) -> int:
        """head_dim, or hidden_size / num_attention_heads."""
        if self.has("head_dim"):
            return self.count("head_dim", least=1)
        self.require("hidden_size", "num_attention_heads")
        heads = self.count("num_attention_heads", least=1)
        return self.count("hidden_size", least=heads) // heads

    @property
    def kv_heads(self) -> int:
        """num_key_value_heads; without it as many as query heads (plain multi-head attention)."""
        if self.has("num_key_value_heads"):
            return self.count("num_key_value_heads", least=1)
        return self.count("num_attention_heads", least=1)


def _names(name: str) -> set[str]:
    """A field's own name and others that say the same."""
    groups = [{key, *others} for key, others in _ALIASES.items()]
    return next((group for group in groups if name in group), {name})


def _is_index(key: object, index: int) -> bool:
    return str(key).isdecimal() and int(str(key)) == index
