"""--speculative-config: draft tokens, the draft's own layers, and the keys that vLLM knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from kvplan.models.engines.layers import Architecture, Layer
from kvplan.models.engines.vllm.launch.json_values import Keys, read_json
from kvplan.models.engines.vllm.launch.versions import Version, version_of
from kvplan.models.errors import InvalidProblem
from kvplan.models.messages import shown

FLAG = "--speculative-config"
MOST_DRAFTS = 1024
NO_LAYERS = ("ngram", "ngram_gpu", "suffix")
"""Methods that draft from the text itself: no layers, no cache."""
KEYS = Keys(
    read=(
        *("method", "model", "num_speculative_tokens", "kv_cache_dtype", "parallel_drafting"),
        *("use_heterogeneous_vocab", "disable_padded_drafter_batch"),
        *("draft_tensor_parallel_size", "tensor_parallel_size", "max_model_len"),
    ),
    harmless=(
        *("quantization", "revision", "code_revision", "enforce_eager"),
        *("moe_backend", "attention_backend", "prompt_lookup_max", "prompt_lookup_min"),
        *("disable_by_batch_size", "disable_logprobs", "num_speculative_tokens_per_batch_size"),
        *("suffix_decoding_max_tree_depth", "suffix_decoding_max_cached_requests"),
        *("suffix_decoding_max_spec_factor", "suffix_decoding_min_token_prob"),
        *("rejection_sample_method", "draft_sample_method", "synthetic_acceptance_rates"),
        *("synthetic_acceptance_length", "enable_adaptive_verification", "draft_load_config"),
        *("use_local_argmax_reduction", "index_share_for_mtp_iteration", "acceptance_method"),
        *("disable_eagle_block_drop", "disable_lookahead_block_hashes", "dspark_draft_topk"),
        *("posterior_threshold", "posterior_alpha", "speculative_token_tree", "xpress_topc"),
        *("draft_lm_head_quantization", "fly_window_size", "fly_entropy_threshold"),
        *("fly_entropy_top_k", "typical_acceptance_sampler_posterior_alpha"),
        "typical_acceptance_sampler_posterior_threshold",
    ),
    refused={},
)


@dataclass(frozen=True)
class Speculation:
    """Draft tokens, and the draft's own layers behind the target's.

    Attributes
    ----------
    dtype : of a separate draft's weights; empty for layers of the target itself.
    architecture : of a separate draft; None for layers of the target itself.
    length : what the JSON sets for the draft's max_model_len; 0 leaves it to its config.
    kv_dtype : what the JSON sets for the draft's cache; None leaves the target's.
    parallel, mixed_vocabulary, unpadded : keys that the model runner does not take.
    """

    method: str = ""
    tokens: int = 0
    layers: tuple[Layer, ...] = field(default=())
    dtype: str = ""
    kv_dtype: str | None = None
    architecture: Architecture | None = None
    length: int = 0
    parallel: bool = False
    mixed_vocabulary: bool = False
    unpadded: bool = False

    @property
    def is_mtp(self) -> bool:
        """Whether the method is one of the *_mtp names."""
        return "mtp" in self.method


def speculation(architecture: Architecture, settings: Mapping[str, Any]) -> Speculation:
    """Read the draft: MTP uses the model's draft layers, another model its own config.

    --spec-method, --spec-model and --spec-tokens stand for the keys of the same meaning.

    Raises
    ------
    InvalidProblem : no JSON, an unknown key, no token count, or layers that nothing describes.
    """
    data = _data(settings)
    if not data:
        return Speculation()
    version = version_of(settings["engine_version"])
    _same_ranks(data, settings)
    method = str(data.get("method") or ("draft_model" if "model" in data else "mtp"))
    draft = Speculation(
        method,
        _tokens(data),
        kv_dtype=_kv_dtype(data, version),
        length=_length(data),
        parallel=bool(data.get("parallel_drafting")),
        mixed_vocabulary=bool(data.get("use_heterogeneous_vocab")),
        unpadded=bool(data.get("disable_padded_drafter_batch")),
    )
    if method in NO_LAYERS:
        return draft
    if "model" in data and not (architecture.draft and draft.is_mtp):
        other = _other(str(data["model"]))
        return replace(draft, layers=other.target, dtype=other.dtype, architecture=other)
    if not draft.is_mtp:
        expected = f'"model": the draft\'s config.json, for method {method}'
        raise InvalidProblem.at(FLAG, expected, shown(data))
    if not architecture.draft:
        expected = "a config with MTP layers (num_nextn_predict_layers or mtp_num_hidden_layers)"
        raise InvalidProblem.at(FLAG, expected, architecture.name)
    return replace(draft, layers=architecture.draft)


def _other(source: str) -> Architecture:
    """Read a separate draft's config.

    Raises
    ------
    InvalidProblem : the name of a model where a file should be, or a config that is not known.
    """
    from kvplan.models.engines.architecture import load_architecture

    if source != "-" and not Path(source).exists():
        expected = "the path of the draft's config.json (models are not downloaded)"
        raise InvalidProblem.at(f"{FLAG}.model", expected, shown(source))
    return load_architecture(source)


def _data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON with the short flags laid over; empty without speculation."""
    data: dict[str, Any] = {}
    if settings["speculative_config"] is not None:
        data = dict(read_json(FLAG, settings["speculative_config"], KEYS))
        if not data:
            raise InvalidProblem.at(FLAG, 'JSON with "num_speculative_tokens"', "{}")
    short = {
        "method": "spec_method",
        "model": "spec_model",
        "num_speculative_tokens": "spec_tokens",
    }
    return data | {key: settings[flag] for key, flag in short.items() if settings[flag] is not None}


def _tokens(data: Mapping[str, Any]) -> int:
    tokens = data.get("num_speculative_tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        expected = 'JSON with "method" and "num_speculative_tokens"'
        raise InvalidProblem.at(FLAG, expected, shown(dict(data)))
    if not 0 < tokens <= MOST_DRAFTS:
        expected = f"num_speculative_tokens from 1 to {MOST_DRAFTS}"
        raise InvalidProblem.at(FLAG, expected, shown(tokens))
    return tokens


def _length(data: Mapping[str, Any]) -> int:
    """max_model_len of the draft; 0 without one."""
    length = data.get("max_model_len")
    if length is None:
        return 0
    if not isinstance(length, int) or isinstance(length, bool) or length < 1:
        raise InvalidProblem.at(f"{FLAG}.max_model_len", "tokens", shown(length))
    return length


def _kv_dtype(data: Mapping[str, Any], version: Version) -> str | None:
    """kv_cache_dtype of the draft, a key from 0.26 on (vllm/config/speculative.py)."""
    if "kv_cache_dtype" not in data:
        return None
    if not version.has_draft_kv_dtype:
        expected = f"no kv_cache_dtype (vLLM {version.text}: a draft takes --kv-cache-dtype)"
        raise InvalidProblem.at(f"{FLAG}.kv_cache_dtype", expected, shown(data["kv_cache_dtype"]))
    return str(data["kv_cache_dtype"])


def _same_ranks(data: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Refuse a draft on another number of ranks: how its heads are shared is not modelled."""
    ranks = max(1, int(settings["tensor_parallel_size"]))
    for key in ("draft_tensor_parallel_size", "tensor_parallel_size"):
        if data.get(key) not in (None, ranks):
            expected = f"{ranks}, the target's (another number of ranks is not modelled)"
            raise InvalidProblem.at(f"{FLAG}.{key}", expected, shown(data[key]))
