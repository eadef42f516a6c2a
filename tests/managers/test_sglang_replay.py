"""SGLang's real configurator, hooks and allocators (0.5.23): its own split against kvplan's."""

from __future__ import annotations

from typing import Any

import pytest

from support.engines import once, run_script

MOST = {
    "gpt-oss-120b mixed": 0.8,
    "MiMo-V2-Flash mixed": 0.5,
    "Qwen3-Next mixed": 0.8,
    "Qwen3-Next short": 0.8,
    "Qwen3-Next long": 0.85,
}
"""Steps of the planned split, as a share of those of SGLang's own."""


@pytest.fixture(scope="module")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    script = "sglang_replay.py"
    return once(tmp_path_factory, "sglang", lambda: run_script("sglang-0.5.23", script)).answer


@pytest.mark.parametrize("case", MOST)
def test_the_planned_split_takes_fewer_steps(case: str, replayed: Any) -> None:
    own, planned = replayed[case]["check"], replayed[case]["apply"]
    assert planned["steps"] <= MOST[case] * own["steps"]
    assert planned["most_running"] > own["most_running"]


def test_check_leaves_sglangs_own_split(replayed: Any) -> None:
    own = replayed["gpt-oss-120b mixed"]["check"]
    assert (own["full"], own["window"]) == (258_907, 207_125)
