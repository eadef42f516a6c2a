"""The whole vLLM 0.32 on a tiny random gemma-3: 25 window and 4 full layers, on the CPU.

vLLM's own rule makes 8 groups of 4 layers with 3 padded; for the workload here 15 groups of 2 hold
more. What is generated must not change.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from support.documents import blocks_of
from support.engines import Ran, once, run_script
from support.tiny_layout import layout_file

VLLM = "vllm-0.32.0"
OWN, PLANNED = [4, 4, 4, 4, 3, 3, 3, 4], [2] * 12 + [1] + [2, 2]
ONE_PROCESS = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
}


def generate(folder: Path, *starts: dict[str, Any], **environment: str) -> Ran:
    texts = [json.dumps(start) for start in starts]
    return run_script(
        VLLM, "vllm_generate.py", str(folder / "model"), *texts, **{**ONE_PROCESS, **environment}
    )


def workload(folder: Path, text: str = "requests: [{capacity: 3000}]") -> str:
    path = folder / "workload.yaml"
    path.write_text(text + "\n")
    return str(path)


def start(mode: str, strict: str = "0", **more: Any) -> dict[str, Any]:
    file, chosen = more.pop("file", ""), more.pop("layout", "")
    said = {"KVPLAN_WORKLOAD": file, "KVPLAN_LAYOUT": chosen}
    return {"environment": {"KVPLAN": mode, "KVPLAN_STRICT": strict, **said}, **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def ran(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Check, apply, off, and the failures, in one process each start after the other."""
    short = {"max_model_len": 32768}  # more than 32 MiB of blocks hold
    small = {"num_gpu_blocks_override": 128, **short}
    return once(
        tmp_path_factory,
        "vllm_engine",
        lambda: generate(
            folder,
            start("check"),
            start("apply", file=workload(folder)),
            start("off"),
            start("check", arguments=small),
            start("apply", file="/no/such/file.yaml", generate=False),
            start("apply", strict="1", file="/no/such/file.yaml"),
            start("aply", strict="1"),
            start("apply", strict="1", layout=layout_file(folder)),
            KVPLAN="check",
        ),
    )


def test_check_finds_the_same_count_and_logs_the_budget(ran: Ran) -> None:
    checked = ran.answer[0]
    assert checked["groups"] == OWN
    assert checked["blocks"] == 4096
    agreed = "kvplan: vLLM 0.32.0 and kvplan agree: 4096 blocks, 8 groups of layers"
    assert agreed in ran.log
    assert "kvplan: the budget" in ran.log


def test_apply_deals_the_layers_anew_and_generates_the_same(ran: Ran) -> None:
    checked, applied, off = ran.answer[:3]
    assert applied["groups"] == PLANNED
    assert off["groups"] == OWN
    assert applied["blocks"] > checked["blocks"]
    for own, planned in zip(off["generated"], applied["generated"], strict=True):
        assert planned[0] == own[0]
        assert planned[1] == pytest.approx(own[1], abs=5e-6)
    assert checked["generated"] == off["generated"]


def test_a_chosen_layout_changes_blocks_and_groups_and_generates_the_same(ran: Ran) -> None:
    off, laid = ran.answer[2], ran.answer[7]
    assert len(laid["groups"]) <= 10
    assert laid["blocks"] == 2**30 // (max(laid["groups"]) * 32 * 512)
    assert f"kvplan agree: {laid['blocks']} blocks, {len(laid['groups'])} groups" in ran.log
    for own, planned in zip(off["generated"], laid["generated"], strict=True):
        assert planned[0] == own[0]
        assert planned[1] == pytest.approx(own[1], abs=5e-6)


def test_both_splits_are_logged_before_one_is_applied(ran: Ran) -> None:
    rows = re.findall(
        r"(vLLM's own|kvplan) +(\d+ groups of \d+ layers) +([\d_]+) +([\d_.]+)", ran.log
    )
    assert [row[:2] for row in rows[:2]] == [
        ("vLLM's own", "8 groups of 4 layers"),
        ("kvplan", "15 groups of 2 layers"),
    ]
    assert ran.log.index("splits") < ran.log.index("15 groups of layers")


def test_a_refusal_names_the_length_that_starts_in_the_engines_text_and_in_kvplans(
    ran: Ran,
) -> None:
    said = re.search(r"estimated maximum model length is (\d+)", ran.answer[3]["error"])
    advised = re.search(r"--max-model-len (\d+) ", ran.log)
    assert said is not None
    assert advised is not None
    assert advised[1] == said[1] == "9984"


def test_a_bad_workload_warns_once_and_starts(ran: Ran) -> None:
    assert ran.answer[4]["groups"] == OWN
    warned = re.findall(r"WARNING.*kvplan: .*vLLM 0\.32\.0 sizes alone", ran.log)
    assert len([line for line in warned if "/no/such/file.yaml" in line]) == 1


LOGS = {
    block.file: block.text.splitlines()
    for block in blocks_of("solver/managers/README.md")
    if block.file is not None and block.file.startswith("vllm_")
}


@pytest.mark.parametrize("name", LOGS)
def test_the_log_says_what_the_readme_shows(name: str, ran: Ran) -> None:
    said = [
        re.sub(r"^\(.*?\) \w+ [-\d: ]+ \[[\w.:]+\] ?", "", line) for line in ran.log.splitlines()
    ]
    assert [line for line in LOGS[name] if line not in said] == []


def test_the_readme_shows_three_logs() -> None:
    assert len(LOGS) == 3


@pytest.mark.parametrize(("at", "word"), [(5, "/no/such/file.yaml"), (6, "aply")])
def test_strict_fails_the_start_with_kvplans_text(ran: Ran, at: int, word: str) -> None:
    assert "StartRefused: kvplan (KVPLAN_STRICT): " in ran.answer[at]["error"]
    assert word in ran.answer[at]["error"]


@pytest.fixture(scope="module")
def ranks(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Two workers and the engine core, each a process that loads the plugin: apply, check, off."""
    two = {"arguments": {"tensor_parallel_size": 2, "distributed_executor_backend": "mp"}}
    return once(
        tmp_path_factory,
        "vllm_ranks",
        lambda: generate(
            folder,
            start("apply", file=workload(folder), **two),
            start("check", **two),
            start("off", **two),
            KVPLAN="check",
            VLLM_ENABLE_V1_MULTIPROCESSING="1",
            VLLM_CPU_OMP_THREADS_BIND="0|1",
        ),
    )


def test_tensor_parallel_ranks_in_processes_generate_the_same(ran: Ran, ranks: Ran) -> None:
    applied, checked, off = (answer["generated"] for answer in ranks.answer)
    assert checked == off
    alone = ran.answer[2]["generated"]
    for own, planned, one in zip(off, applied, alone, strict=True):
        assert planned[0] == own[0] == one[0]
        assert planned[1] == pytest.approx(own[1], abs=5e-6)


def test_tensor_parallel_ranks_have_the_count_that_kvplan_logs(ran: Ran, ranks: Ran) -> None:
    """Each rank holds half of the heads in as many bytes: twice the blocks of one."""
    said = re.findall(
        r"kvplan: vLLM 0\.32\.0 and kvplan agree: (\d+) blocks, (\d+) groups", ranks.log
    )
    applied, checked, off = (answer["blocks"] for answer in ranks.answer)
    assert said == [(str(applied), "15"), (str(checked), "8")]
    assert checked == off == 2 * ran.answer[2]["blocks"]
    assert applied == 2 * ran.answer[1]["blocks"]
