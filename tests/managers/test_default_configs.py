"""Default configs of all configuration classes of transformers, read with transformers at hand."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import once, run_script


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ran = once(
        tmp_path_factory,
        "default_configs",
        lambda: run_script("vllm-0.32.0", "default_configs.py", HF_HUB_OFFLINE="1"),
    )
    found: dict[str, Any] = ran.answer
    return found


def test_none_crashes_and_most_decoders_are_read(swept: dict[str, Any]) -> None:
    """transformers 5.19: 713 classes have a default config, most of them encoders and towers."""
    assert swept["crashes"] == []
    counts = swept["counts"]
    assert counts["configs"] > 700
    least = {"read": 215, "vllm": 210, "sglang": 200, "llama.cpp": 155, "tensorrt-llm": 58}
    assert {name: counts[name] >= floor for name, floor in least.items()} == dict.fromkeys(
        least, True
    )


def test_a_field_that_is_left_out_is_what_its_class_puts_back(swept: dict[str, Any]) -> None:
    assert swept["counts"]["omissions"] > 2000
    assert swept["wrong"] == []
