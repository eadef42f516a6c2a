"""A chosen page layout in vLLM's hands: KVPLAN_LAYOUT, its checks, and vLLM's real scheduler."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvplan.models.layouts import LayoutAnswer
from kvplan.solver.layout import layout
from kvplan.solver.managers import vllm
from kvplan.solver.managers.guard import StartRefused
from kvplan.solver.managers.vllm import functions
from kvplan.solver.managers.vllm.applied_layout import load_layout
from kvplan.solver.managers.vllm.sizing import LOG
from kvplan.solver.managers.workload import Workload
from support.engines import once, run_script
from support.tiny_layout import layout_file
from support.vllm_planning import VERSION, Engine, config

VLLM, AVAILABLE = "vllm-0.32.0", 1 << 29
QUIET = {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}


@dataclass(frozen=True)
class FullAttentionSpec:
    """The fields of vLLM's that kvplan reads; a page of `row` bytes a token."""

    row: int
    block_size: int = 16
    page_size_padded: int | None = None

    @property
    def real_page_size_bytes(self) -> int:
        return self.row * self.block_size

    @property
    def page_size_bytes(self) -> int:
        return self.page_size_padded or self.real_page_size_bytes


@dataclass(frozen=True)
class SlidingWindowSpec(FullAttentionSpec):
    sliding_window: int = 256


@dataclass(frozen=True)
class MambaSpec:
    state: int
    block_size: int = 4096
    page_size_padded: int | None = None
    mamba_cache_mode: str = "none"

    @property
    def real_page_size_bytes(self) -> int:
        return self.state

    @property
    def page_size_bytes(self) -> int:
        return self.page_size_padded or self.state


def specs(windows: int = 11, full: int = 4) -> dict[str, Any]:
    """Windows of 640 B a token beside full layers of 512 B: the pages do not divide."""
    kinds = [SlidingWindowSpec(640)] * windows + [FullAttentionSpec(512)] * full
    return {f"model.layers.{index}.attn": spec for index, spec in enumerate(kinds)}


def chosen(**more: Any) -> LayoutAnswer:
    asked = vllm.layout_question(config(), [specs()], [AVAILABLE], version=VERSION, **more)
    return layout(asked, freedom=False)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Start the stand-in for vLLM under KVPLAN=apply with a layout file."""
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__=VERSION))
    monkeypatch.setenv("KVPLAN", "apply")
    monkeypatch.setenv("KVPLAN_STRICT", "1")
    path = tmp_path / "layout.json"
    monkeypatch.setenv("KVPLAN_LAYOUT", str(path))

    def started(written: str, **changes: Any) -> Any:
        path.write_text(written)
        engine = Engine()
        wrapped = functions.wrap(engine.get_kv_cache_configs, engine)
        (made,) = wrapped(config(**changes), [specs()], [AVAILABLE])
        return made

    return started


def test_the_layout_is_dealt_and_its_blocks_are_what_the_problem_says(
    start: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answer = chosen(most_groups=16)
    assert answer.engine is None
    with caplog.at_level(logging.INFO, LOG.name):
        made = start(answer.model_dump_json())
    found = [
        (group.kv_cache_spec.block_size, group.kv_cache_spec.page_size_bytes, group.layer_names)
        for group in made.kv_cache_groups
    ]
    names = list(specs())
    assert found == [
        (group.block_tokens, answer.layout.page_bytes, [names[at] for at in group.layers])
        for group in answer.layout.groups
    ]
    assert made.num_blocks == AVAILABLE // answer.figures.block_bytes
    assert f"kvplan agree: {made.num_blocks} blocks, {answer.figures.groups} groups" in caplog.text
    assert "each step: block tables of it" in caplog.text


def test_the_layout_alone_is_a_file_too(start: Any) -> None:
    answer = chosen(most_groups=8)
    assert len(start(answer.layout.model_dump_json()).kv_cache_groups) == answer.figures.groups <= 8


def test_a_workload_and_a_cap_are_part_of_the_question() -> None:
    asked = vllm.layout_question(
        *(config(), [specs()], [AVAILABLE], Workload(requests=[{"capacity": 100, "count": 3}])),
        version=VERSION,
        most_groups=5,
    )
    assert [(row.capacity, row.weight) for row in asked.requests] == [(100, 3)]
    assert layout(asked, freedom=False).figures.groups <= 5


def edited(answer: LayoutAnswer, **changes: Any) -> str:
    data = json.loads(answer.layout.model_dump_json())
    data["groups"][0] |= changes
    return json.dumps(data)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"block_tokens": 17}, "block tokens 17 are not permitted"),
        (
            {"members": [{"bucket": "windy", "layers": [0], "page_bytes": 9}]},
            "KVPLAN_LAYOUT: expected a layout of the buckets full, window 256, got full, window",
        ),
        (
            {"members": [{"bucket": "window 256", "layers": [0], "page_bytes": 9}]},
            "KVPLAN_LAYOUT: expected a layout of these layers",
        ),
        ({"tokens": 3}, "groups[0].tokens"),
    ],
)
def test_a_layout_of_other_layers_is_refused(start: Any, changes: Any, line: str) -> None:
    with pytest.raises(StartRefused) as refused:
        start(edited(chosen(most_groups=16), **changes))
    assert line.split(", got")[0] in str(refused.value)


def test_what_vllm_cannot_hold_is_left_to_it(start: Any, caplog: pytest.LogCaptureFixture) -> None:
    asked = vllm.layout_question(config(), [specs()], [AVAILABLE], version=VERSION)
    data = asked.model_dump(mode="json", exclude_unset=True)
    own = [{**bucket, "own_pool": True} for bucket in data["buckets"]]
    answer = layout({**data, "buckets": own}, freedom=False)
    assert len(answer.layout.pools) > 1
    with caplog.at_level(logging.INFO, LOG.name):
        start(answer.model_dump_json())
        start(chosen().model_dump_json(), auto_fit=True)
    assert "a layout with pools of its own (vLLM has one pool of blocks)" in caplog.text
    assert "a layout beside --max-model-len auto" in caplog.text


MODELS = {
    "gemma-3": {"LBNHC": (7, 7), "BLHNC": (7, 6)},
    "gpt-oss": {"LBNHC": (2, 2), "BLHNC": (2, 2)},
    "Qwen3-Next": {"LBNHC": (4, 4), "BLHNC": (4, 4)},
    "a Mamba hybrid": {"LBNHC": (7, 13), "BLHNC": (7, 2)},
    "GDN with a draft": {"LBNHC": (9, 9), "BLHNC": (5, 12)},
    "wider heads in windows": {"LBNHC": (6, 16), "BLHNC": (11, 16)},
}
"""Groups of vLLM's own rule, and of the chosen layout within sixteen; BLHNC packs pages."""
RUNS = [(name, pages) for name, by_pages in MODELS.items() for pages in by_pages]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Any:
    script = "vllm_layouts.py"
    return once(tmp_path_factory, "layouts", lambda: run_script(VLLM, script, **QUIET)).answer


@pytest.mark.parametrize(("name", "pages"), RUNS)
def test_the_real_scheduler_holds_what_the_layout_says(name: str, pages: str, served: Any) -> None:
    """Admission to the block; allocation to the block for full layers and states.

    A window may hold one block less than vLLM admits it with: a step seldom starts inside a block.
    """
    found = served[pages][name]
    said, applied = found["said"], found["applied"]
    assert (found["own"]["groups"], said["groups"]) == MODELS[name][pages]
    assert applied["groups"] == said["groups"]
    assert applied["block_bytes"] == said["block_bytes"]
    assert sum(applied["by_group"]) == said["blocks"]
    kinds = zip(found["kinds"], found["held"], applied["by_group"], strict=True)
    for kind, held, admitted in kinds:
        assert admitted - kind.startswith("window") <= held <= admitted, kind
    assert (found["finished"], found["left"], found["preempted"]) == (True, 0, 0)


@pytest.mark.parametrize(("name", "pages"), RUNS)
def test_it_costs_each_step_what_the_layout_says_and_takes_no_more_bytes(
    name: str, pages: str, served: Any
) -> None:
    found = served[pages][name]
    said, applied, own = (found[key] for key in ("said", "applied", "own"))
    assert said["table_bytes"] == 4 * applied["table_entries"]
    assert said["slot_bytes"] == 8 * sum(kind != "state" for kind in found["kinds"])
    theirs = own["block_bytes"] * sum(own["by_group"])
    ours = applied["block_bytes"] * sum(applied["by_group"])
    assert ours == int(said["bytes"]) <= theirs
    if name != "gpt-oss":  # 12 and 12 layers with one page
        assert ours < theirs or (name, pages) == ("gemma-3", "LBNHC")


def test_the_planning_of_0_33_takes_a_layout_for_its_stages_alone(tmp_path: Path) -> None:
    """There a builder groups the layers before memory is measured."""
    path = layout_file(tmp_path)
    sizes = [len(group.layers) for group in load_layout(path).groups]
    environment = {**QUIET, "KVPLAN_LAYOUT": path, "KVPLAN_STRICT": "1"}
    script, sources = "vllm_033.py", "vllm-0.33.0"
    ran = run_script(VLLM, script, "apply", "29", sources=sources, **environment)
    assert ran.answer["groups"] == sizes
    assert ran.answer["blocks"] == [2**27 // (max(sizes) * 32 * 512)]
    assert f"kvplan agree: {ran.answer['blocks'][0]} blocks, {len(sizes)} groups" in ran.log
    refused = run_script(VLLM, script, "apply", "15", "14", sources=sources, **environment)
    assert "KVPLAN_LAYOUT: expected a layout of 2 pipeline stages, got 1" in refused.log
