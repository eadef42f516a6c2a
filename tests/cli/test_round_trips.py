"""From a public log to a problem and its plan: the plan holds what the log counted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from support.cli import run_kvplan
from support.logs import LMDEPLOY, SGLANG_DRAFT, SGLANG_SWA, TRTLLM, VLLM_OVERRIDE, write

Capture = pytest.CaptureFixture[str]
FILE = Path(__file__).parent / "start_ups.yaml"
LOGS: dict[str, list[str]] = {
    one["source"]: [re.sub("[«»]", "", line) for line in one["lines"]]
    for one in yaml.safe_load(FILE.read_text(encoding="utf-8"))["start_ups"]
}
LOGS |= {
    "triton-inference-server/tutorials#150": TRTLLM,
    "InternLM/lmdeploy#3950": LMDEPLOY,
    "vllm-project/vllm#19503": VLLM_OVERRIDE,
    "sgl-project/sglang#15464": SGLANG_SWA,
    "noonghunna/club-3090#1261": SGLANG_DRAFT,
}
COUNTS = {
    "vllm-project/vllm#10517": 1952,
    "generative-computing/mellea#416": 36_184,
    "vllm-project/vllm#15039": 29_547,
    "noonghunna/club-3090#612": 567_978,
    "vllm-project/vllm#25350": 230_528 // 16,
    "vllm-project/vllm#19503": 100,
    "sgl-project/sglang#15464": 1_496_958,
    "noonghunna/club-3090#1261": 454_112,
    "ROCm/ATOM#3171, 443b280": 107_703,
    "triton-inference-server/tutorials#150": 116_617,
    "NVIDIA/TensorRT-LLM#1400": 132_608,
    "InternLM/lmdeploy#3950": 1740,
    "noonghunna/club-3090, a server of Qwen3-32B on a PRO 6000": 32_768 // 256,
}


@pytest.mark.parametrize("source", COUNTS)
def test_the_plan_holds_what_the_log_counted(source: str, capsys: Capture, tmp_path: Path) -> None:
    done = run_kvplan(capsys, "model", "--from-log", write(tmp_path, LOGS[source]))
    assert (done.code, done.err) == (0, "")
    path = tmp_path / "problem.yaml"
    path.write_text(done.out)
    solved = run_kvplan(capsys, "solve", path, "--json")
    assert solved.code == 0
    assert next(iter(json.loads(solved.out)["blocks"].values())) == COUNTS[source]
    assert run_kvplan(capsys, "explain", path).code == 0


@pytest.mark.parametrize(
    "source", ["JamePeng/llama-cpp-python#1", "NVIDIA/TensorRT-LLM#2268", "vllm-project/vllm#12569"]
)
def test_a_log_says_what_it_leaves_open(source: str, capsys: Capture, tmp_path: Path) -> None:
    """A cache without cells, blocks without bytes."""
    done = run_kvplan(capsys, "model", "--from-log", write(tmp_path, LOGS[source]))
    assert (done.code, done.out) == (2, "")
    assert "expected a count, and the bytes that it takes or may take" in done.err
